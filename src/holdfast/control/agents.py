"""Agents as the API shows them: their definition without folder paths and server addresses, and their capabilities.

Capabilities are those that AG-UI defines; an absent field means unknown.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.control.errors import Forbidden
from holdfast.control.principal import Principal
from holdfast.domain.agent import Agent, Permissions, SkillChoice, ThinkingLevel, UnknownOutcome
from holdfast.domain.agent_version import AgentDefinition, AgentPatch
from holdfast.domain.errors import IdTaken, VersionChanged
from holdfast.domain.idempotency import KeyedRequest, KeyedResult
from holdfast.domain.ids import SpaceId
from holdfast.domain.limits import Limits
from holdfast.domain.page import DEFAULT_PAGE_SIZE, check_page_size
from holdfast.domain.run import Mode
from holdfast.domain.skill import ContractPolicy
from holdfast.ports.requests import KeyedRequests, RequestPorts
from holdfast.ports.workspace import AgentDefinitions, AgentFiles, Agents, AgentVersions, BrokenAgent

MAX_ATTEMPTS: Final = 5
"""How often a change is merged again because other requests were faster."""

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
    space_id: SpaceId | None
    """The space that it belongs to; null for an agent of the workspace, which every space has."""
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
    """Commands and queries for the agents that a space knows: those of the workspace, and its own."""

    def __init__(
        self,
        agents: Agents,
        *,
        definitions: AgentDefinitions,
        files: AgentFiles,
        versions: AgentVersions,
        requests: KeyedRequests,
        principal: Principal,
    ) -> None:
        """Record `principal` as the author of changes."""
        self._agents = agents
        self._definitions = definitions
        self._files = files
        self._versions = versions
        self._requests = requests
        self._principal = principal

    async def all(self, space: SpaceId) -> AgentList:
        """Return all agents."""
        agents = await self._agents.all_of_space(space)
        return AgentList(
            items=[_agent_view(agent) for agent in agents], broken=await self._agents.broken_of_space(space)
        )

    async def page(self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> AgentPage:
        """Return agents by name; the cursor is the last name of the previous page, even if that agent is gone."""
        known = await self._agents.all_of_space(space)
        agents = [agent for agent in known if cursor is None or agent.name > cursor]
        page = agents[: check_page_size(limit)]
        return AgentPage(
            items=[_agent_view(agent) for agent in page],
            broken=await self._agents.broken_of_space(space),
            next_cursor=page[-1].name if len(agents) > limit else None,
        )

    async def get(self, space: SpaceId, name: str) -> AgentView:
        """Return one agent."""
        return _agent_view(await self._agents.of_space(space, name))

    async def create(
        self, space: SpaceId, name: str, definition: AgentDefinition, *, request: KeyedRequest | None = None
    ) -> KeyedResult[AgentView]:
        """Create an agent of the space. A name that the workspace or the space has is refused."""
        if (earlier := await self._requests.find(space, request, kind=str)) is not None:
            return KeyedResult(value=await self.get(space, earlier), replayed=True)
        if self._files.has(name):
            raise IdTaken(f"agent `{name}` belongs to the workspace: choose another name", id=name)
        new = await self._definitions.version(space, name, definition)

        async def create(ports: RequestPorts) -> str:
            return (await ports.agent_versions.create(space, new, by=self._principal.name)).agent

        done = await self._requests.once(space, request, kind=str, create=create)
        return KeyedResult(value=await self.get(space, done.value), replayed=done.replayed)

    async def replace(
        self, space: SpaceId, name: str, definition: AgentDefinition, *, expected: Sequence[str] = ()
    ) -> AgentView:
        """Give an agent of the space another definition; `expected` are the versions that it may have now."""
        if self._files.has(name):
            return await self._write_files(name, definition, expected)
        await self._versions.head(space, name)
        new = await self._definitions.version(space, name, definition)
        await self._versions.replace(space, new, expected=expected, by=self._principal.name)
        return await self.get(space, name)

    async def change(self, space: SpaceId, name: str, patch: AgentPatch, *, expected: Sequence[str] = ()) -> AgentView:
        """Change the active definition of an agent of the space."""
        if self._files.has(name):
            return await self._write_files(name, patch, expected)
        for attempt in range(MAX_ATTEMPTS):
            head = await self._versions.head(space, name)
            if expected and head.active not in expected:
                raise VersionChanged(f"agent `{name}` has changed since it was read: read it again", id=name)
            definition = self._definitions.patched(await self._definitions.definition(space, head), patch)
            new = await self._definitions.version(space, name, definition)
            try:
                await self._versions.replace(space, new, expected=[head.active], by=self._principal.name)
                break
            except VersionChanged:  # of a concurrent request: merge with what it wrote
                if expected or attempt == MAX_ATTEMPTS - 1:
                    raise
        return await self.get(space, name)

    async def delete(self, space: SpaceId, name: str, *, expected: Sequence[str] = ()) -> None:
        """Delete an agent. Runs that have begun go on, and its versions stay."""
        if self._files.has(name):
            self._check_everywhere()
            await self._files.remove(name, expected=expected)
        else:
            await self._versions.delete(space, name, expected=expected, by=self._principal.name)

    async def _write_files(self, name: str, change: AgentDefinition | AgentPatch, expected: Sequence[str]) -> AgentView:
        """Change an agent of the workspace."""
        self._check_everywhere()
        await self._agents.active(name)  # what somebody has edited just now counts as a change
        await self._files.write(name, change, expected=expected, by=self._principal.name)
        return _agent_view(await self._agents.active(name))

    def _check_everywhere(self) -> None:
        if not self._principal.has_all_spaces:
            raise Forbidden("agents of the workspace are those of all spaces: use a key for every space")


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
        space_id=agent.space_id,
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
