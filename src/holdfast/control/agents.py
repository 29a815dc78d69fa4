"""Agents as the API shows them: their definition without folder paths and server addresses, and their capabilities.

Capabilities are those that AG-UI defines; an absent field means unknown.
"""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.agent import Agent, Permissions, SkillChoice, ThinkingLevel, UnknownOutcome
from holdfast.domain.limits import Limits
from holdfast.domain.page import DEFAULT_PAGE_SIZE, check_page_size
from holdfast.domain.run import Mode
from holdfast.domain.skill import ContractPolicy
from holdfast.ports.workspace import Agents, BrokenAgent

_DELEGATION_TOOLS: Final = frozenset({"agent_message", "agent_send", "agent_spawn", "task_create", "task_spawn"})


class _CapabilityGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class IdentityCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """The name and type of the agent."""

    name: str
    type: str = "holdfast"
    description: str


class TransportCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """Properties of the connection to the agent."""

    streaming: bool = True
    resumable: bool = True


class ToolsCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """Tool calling."""

    supported: bool = True
    parallel_calls: bool = True
    client_provided: bool = True


class StateCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """State that the agent keeps and publishes."""

    snapshots: bool = True
    deltas: bool = False
    persistent_state: bool = True


class MultiAgentCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """Delegation to other agents."""

    supported: bool
    delegation: bool


class ReasoningCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """Reasoning output."""

    supported: bool
    streaming: bool


class ExecutionCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """Limits of a run."""

    max_iterations: int | UnsetType = UNSET
    max_execution_time: int | UnsetType = UNSET
    """In milliseconds."""


class HumanInTheLoopCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """Ways in which people can take part in a run."""

    supported: bool = True
    approvals: bool = True
    interventions: bool = True
    interrupts: bool = True
    approve_with_edits: bool = True


class AgentCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """All capabilities of an agent."""

    identity: IdentityCapabilities
    transport: TransportCapabilities = TransportCapabilities()
    tools: ToolsCapabilities = ToolsCapabilities()
    state: StateCapabilities = StateCapabilities()
    multi_agent: MultiAgentCapabilities
    reasoning: ReasoningCapabilities
    execution: ExecutionCapabilities
    human_in_the_loop: HumanInTheLoopCapabilities = HumanInTheLoopCapabilities()


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent without the path of its folder and the addresses of its MCP servers."""

    name: str
    description: str
    models: list[str]
    """The model, then the fallback models in order."""
    modes: list[Mode]
    """Modes in which the agent may run."""
    tools: list[str]
    skills: SkillChoice
    contract: ContractPolicy
    mcp_servers: list[str]
    """Names of the MCP servers."""
    pool: str
    """The pool of workers that executes its runs."""
    permissions: Permissions
    limits: Limits
    unknown_outcome: UnknownOutcome
    temperature: float | None
    thinking: ThinkingLevel | None
    instructions: str
    soul: str | None
    digest: str
    """Digest of the files that define the agent, and of the settings that apply to it."""
    version: str | None
    """The version that new runs get; null in a process that publishes none."""
    capabilities: AgentCapabilities
    """Capabilities as AG-UI defines them."""


class AgentList(msgspec.Struct, frozen=True, kw_only=True):
    """All usable agents by name, and the agents whose files have errors."""

    items: list[AgentView]
    broken: list[BrokenAgent]


class AgentPage(AgentList, frozen=True, kw_only=True):
    """A page of the usable agents by name, and all agents whose files have errors."""

    next_cursor: str | None = None


class AgentControl:
    """Queries for agents."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    def all(self) -> AgentList:
        """Return all agents."""
        return AgentList(items=[_agent_view(agent) for agent in self._agents.all()], broken=self._agents.broken())

    def page(self, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> AgentPage:
        """Return agents by name; the cursor is the last name of the previous page, even if that agent is gone."""
        agents = [agent for agent in self._agents.all() if cursor is None or agent.name > cursor]
        page = agents[: check_page_size(limit)]
        return AgentPage(
            items=[_agent_view(agent) for agent in page],
            broken=self._agents.broken(),
            next_cursor=page[-1].name if len(agents) > limit else None,
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
        modes=[mode for mode, settings in modes.items() if settings.allowed],
        tools=agent.tools,
        skills=agent.skills,
        contract=agent.contract,
        pool=agent.pool,
        mcp_servers=sorted(agent.mcp_servers),
        permissions=agent.permissions,
        limits=agent.limits,
        unknown_outcome=agent.unknown_outcome,
        temperature=agent.temperature,
        thinking=agent.thinking,
        instructions=agent.instructions,
        soul=agent.soul,
        digest=agent.digest,
        version=agent.version,
        capabilities=_agent_capabilities(agent),
    )


def _agent_capabilities(agent: Agent) -> AgentCapabilities:
    delegates = not _DELEGATION_TOOLS.isdisjoint(agent.tools)
    reasons = agent.thinking is not None
    max_iterations, max_seconds = agent.limits.max_iterations, agent.limits.max_duration_seconds
    return AgentCapabilities(
        identity=IdentityCapabilities(name=agent.name, description=agent.description),
        multi_agent=MultiAgentCapabilities(supported=delegates, delegation=delegates),
        reasoning=ReasoningCapabilities(supported=reasons, streaming=reasons),
        execution=ExecutionCapabilities(
            max_iterations=UNSET if max_iterations is None else max_iterations,
            max_execution_time=UNSET if max_seconds is None else round(max_seconds * 1000),
        ),
    )
