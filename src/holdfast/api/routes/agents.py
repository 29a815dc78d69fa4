"""Agents."""

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath

from holdfast.control.agents import AgentControl, AgentList, AgentView

_TAGS = ["agents"]


@get("/api/agents", summary="List agents", tags=_TAGS)
async def list_agents(agents: NamedDependency[AgentControl]) -> AgentList:
    """Return the agents of the workspace by name, and what is wrong with those that cannot be used."""
    return agents.all()


@get("/api/agents/{name:str}", summary="Read an agent", tags=_TAGS)
async def read_agent(agents: NamedDependency[AgentControl], name: FromPath[str]) -> AgentView:
    """Return an agent as its files define it now."""
    return agents.get(name)


ROUTES = [list_agents, read_agent]
