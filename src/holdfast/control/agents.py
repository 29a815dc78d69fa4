"""Agents as the API shows them: their definition without folder paths and server addresses."""

import msgspec

from holdfast.control.agent_capabilities import AgentCapabilities, agent_capabilities
from holdfast.domain.agent import Agent, Permissions, ThinkingLevel, UnknownOutcome
from holdfast.domain.limits import Limits
from holdfast.domain.page import DEFAULT_PAGE_SIZE, check_page_size
from holdfast.domain.run import Mode
from holdfast.ports.workspace import Agents, BrokenAgent


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent without what is nobody's business: where its folder is, and how its servers are reached."""

    name: str
    description: str
    models: list[str]
    """The model, and those to fall back on, in order."""
    modes: list[Mode]
    """How it may be run."""
    tools: list[str]
    skills: list[str]
    mcp_servers: list[str]
    """Their names."""
    permissions: Permissions
    limits: Limits
    unknown_outcome: UnknownOutcome
    temperature: float | None
    thinking: ThinkingLevel | None
    instructions: str
    soul: str | None
    digest: str
    """It changes with any file of the agent."""
    capabilities: AgentCapabilities
    """What a client of AG-UI may expect of it."""


class AgentList(msgspec.Struct, frozen=True, kw_only=True):
    """All agents that can be used, by name, and those whose files are in error."""

    items: list[AgentView]
    broken: list[BrokenAgent]


class AgentPage(AgentList, frozen=True, kw_only=True):
    """Some of the agents that can be used, by name, and all whose files are in error."""

    next_cursor: str | None = None


class AgentControl:
    """What can be read of agents."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    def all(self) -> AgentList:
        """Return all agents."""
        return AgentList(items=[_agent_view(agent) for agent in self._agents.all()], broken=self._agents.broken())

    def page(self, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> AgentPage:
        """Return agents by name; the cursor is the last name of the page before, also if that agent is gone by now."""
        found = [agent for agent in self._agents.all() if cursor is None or agent.name > cursor]
        shown = found[: check_page_size(limit)]
        return AgentPage(
            items=[_agent_view(agent) for agent in shown],
            broken=self._agents.broken(),
            next_cursor=shown[-1].name if len(found) > limit else None,
        )

    def get(self, name: str) -> AgentView:
        """Return one agent."""
        return _agent_view(self._agents.get(name))


def _agent_view(agent: Agent) -> AgentView:
    modes = {Mode.CHAT: agent.chat, Mode.TASK: agent.task, Mode.DAEMON: agent.daemon}
    return AgentView(
        name=agent.name,
        description=agent.description,
        models=agent.models,
        modes=[mode for mode, settings in modes.items() if settings.enabled],
        tools=agent.tools,
        skills=agent.skills,
        mcp_servers=sorted(agent.mcp_servers),
        permissions=agent.permissions,
        limits=agent.limits,
        unknown_outcome=agent.unknown_outcome,
        temperature=agent.temperature,
        thinking=agent.thinking,
        instructions=agent.instructions,
        soul=agent.soul,
        digest=agent.digest,
        capabilities=agent_capabilities(agent),
    )
