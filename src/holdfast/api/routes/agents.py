"""Agents."""

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath

from holdfast.api.parameters import Cursor, Limit
from holdfast.control.agents import AgentControl, AgentPage, AgentView
from holdfast.domain.page import DEFAULT_PAGE_SIZE

_TAGS = ["agents"]


@get("/api/agents", summary="List agents", tags=_TAGS)
async def list_agents(
    agents: NamedDependency[AgentControl], limit: Limit = DEFAULT_PAGE_SIZE, cursor: Cursor = None
) -> AgentPage:
    """Return the agents of the workspace by name, and with every page what is wrong with those that cannot be used."""
    return agents.page(limit=limit, cursor=cursor)


@get("/api/agents/{name:str}", summary="Read an agent", tags=_TAGS)
async def read_agent(agents: NamedDependency[AgentControl], name: FromPath[str]) -> AgentView:
    """Return an agent as its files define it now."""
    return agents.get(name)


ROUTES = [list_agents, read_agent]
