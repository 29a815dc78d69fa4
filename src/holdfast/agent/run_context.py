"""`RunContext`: the state that the steps of one run share, its configuration and its taint.

A run that reads content written by others is tainted for good: its calls that reach outside then need approval.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.context.conversation import ConversationWindow
from holdfast.agent.context.system_prompt import PromptSkill
from holdfast.agent.inbox_reader import InboxReader
from holdfast.agent.model_stream import StreamTimings
from holdfast.agent.run_writer import RunWriter
from holdfast.agent.step_ledger import StepLedger
from holdfast.domain.agent import Agent
from holdfast.domain.agent_version import LiveRules
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.context import NO_MEMORY, RECALL_VALUE, RecalledMemory, recalled_memory
from holdfast.domain.errors import HoldfastError, LeaseLost, Unavailable
from holdfast.domain.events.custom import FolderNotice, McpServerUnavailable, RunTainted
from holdfast.domain.ids import ToolCallId
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.limits import Usage
from holdfast.domain.permission import (
    RIGHTS_VALUE,
    PermissionAction,
    PermissionDecision,
    Rights,
    inherited_rights,
)
from holdfast.domain.run import Run, RunError
from holdfast.domain.thread import Thread
from holdfast.domain.tool import ToolReach, ToolSpec, reaches_outside
from holdfast.domain.untrusted import TAINT_VALUE, read_taint
from holdfast.domain.working_folder import working_folder
from holdfast.ports.log import Journal
from holdfast.ports.model import Model, TokenCounter
from holdfast.ports.runtime import Clock, Library, MemoryLibrary, RemoteTools
from holdfast.tools.commands.command_runner import has_network
from holdfast.tools.files.snapshots import RunFolder
from holdfast.tools.permissions.policy import PermissionChain, permission_chain
from holdfast.tools.registry import Toolset
from holdfast.tools.tool import ToolMiddleware


class RunFailureSignal(Exception):
    """Ends the run as failed, with `error`."""

    def __init__(self, error: RunError) -> None:
        super().__init__(error.message)
        self.error = error


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Retries of a model call whose provider is unavailable, with exponential backoff."""

    max_attempts: int = 5
    first_delay_seconds: float = 1.0
    max_delay_seconds: float = 60.0
    max_retry_after_seconds: float = 86_400.0
    """The longest `Retry-After` of a provider that is respected."""

    def delay_seconds(self, failures: int, retry_after: float | None) -> float:
        """Return the delay after so many failures in a row, at least the provider's `retry_after` up to its maximum."""
        doublings = min(max(failures - 1, 0), 30)
        return max(
            min(self.first_delay_seconds * (1 << doublings), self.max_delay_seconds),
            min(retry_after or 0.0, self.max_retry_after_seconds),
        )


class LoopConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of the agent loop."""

    stream_timings: StreamTimings = StreamTimings()
    retry_policy: RetryPolicy = RetryPolicy()


@dataclass(kw_only=True, eq=False)
class RunContext:
    """The mutable state of one worker's work on one run. Until an agent is attached, the run can only fail."""

    lease: Lease
    thread: Thread
    journal: Journal
    writer: RunWriter
    ledger: StepLedger
    conversation: ConversationWindow
    inbox: InboxReader
    values: dict[str, Json]
    interrupts: dict[str, Interrupt]
    tokens: TokenCounter
    clock: Clock
    config: LoopConfig
    middleware: ToolMiddleware
    """Wraps each tool call."""
    run: Run = field(init=False)
    """The run as it was claimed."""
    iterations: int = field(init=False)
    usage: Usage = field(init=False)
    agent: Agent = field(init=False)
    model: Model = field(init=False)
    toolset: Toolset = field(init=False)
    library: Library = field(init=False)
    memory: MemoryLibrary = field(init=False)
    remote_tools: RemoteTools = field(init=False)
    permission_chain: PermissionChain = field(init=False)
    folder: RunFolder | None = None
    """The working folder, on a worker without a shared disk."""
    folder_notices: Sequence[FolderNotice] = ()
    """What the model is told about the working folder."""
    unavailable_servers: Sequence[McpServerUnavailable] = ()
    """The MCP servers whose tools the agent should have, and does not."""
    skill_catalog: str = ""
    """One line for each skill that the agent could use."""
    prompt_skills: Sequence[PromptSkill] = ()
    """The active skills that fit into the prompt."""
    skills_left_out: str = ""
    skill_folders: Sequence[str] = ()
    """Folders of active skills, which commands may read."""
    guarded_tools: frozenset[str] = field(init=False)
    """The tools whose calls need a decision."""
    _definition: Agent = field(init=False)
    """The agent as of the version of the run, with the settings of the workspace."""
    _rights: Sequence[Rights] = ()
    _rules: Mapping[str, LiveRules] = field(default_factory=dict)
    _recalled: tuple[Json, RecalledMemory] = (None, NO_MEMORY)

    def __post_init__(self) -> None:
        self.run = self.lease.run
        self.iterations = self.run.iterations
        self.usage = self.run.usage

    def attach_agent(
        self,
        agent: Agent,
        model: Model,
        toolset: Toolset,
        *,
        library: Library,
        memory: MemoryLibrary,
        remote_tools: RemoteTools,
    ) -> None:
        """Set the agent that works on the run, with its model and tools."""
        self.model = model
        self.toolset = toolset
        self.library = library
        self.memory = memory
        self.remote_tools = remote_tools
        self._definition, self._rights = agent, inherited_rights(self.values)
        self.update_agent()

    @property
    def recalled(self) -> RecalledMemory:
        """What was recalled for the latest user message."""
        value = self.values.get(RECALL_VALUE)
        if value is not self._recalled[0]:
            self._recalled = value, recalled_memory(self.values)
        return self._recalled[1]

    def set_recalled(self, memory: RecalledMemory) -> None:
        """Change what was recalled, now and in the next commit."""
        value = msgspec.to_builtins(memory)
        self._recalled = value, memory
        self.set_values({RECALL_VALUE: value})

    @property
    def spawned(self) -> bool:
        """Whether another run started this one, or its thread: then an agent wrote what it was asked."""
        return self.run.parent_run_id is not None or RIGHTS_VALUE in self.values

    @property
    def agents(self) -> list[str]:
        """The names of the agent and of its ancestors, whose rules hold for the run."""
        return [self._definition.name, *(each.agent for each in self._rights)]

    def apply_rules(self, rules: Mapping[str, LiveRules]) -> None:
        """Narrow the permissions of the agent and its ancestors by the rules that hold now."""
        if rules != self._rules:
            self._rules = rules
            self.update_agent()

    def update_agent(self) -> None:
        """Use the definition and permissions of the agent with the present toolset and rules."""
        agent = self._definition
        own = self._rules.get(agent.name)
        if own is not None:
            agent = replace(agent, permissions=own.applied_to(agent.permissions), granted=list(own.granted))
        if self._rules and self._rights:
            narrowed = [each.narrowed(self._rules.get(each.agent)) for each in self._rights]
            self.values[RIGHTS_VALUE] = msgspec.to_builtins(narrowed)  # for this worker only: it is not committed
        self.agent = agent
        folder = working_folder(self.run, agent, self.values)
        self.permission_chain = permission_chain(agent, self.values, folder=folder)
        self.guarded_tools = self.permission_chain.governed_tools | self.toolset.remote_names
        if self.permission_chain.restrictions:
            self.guarded_tools |= self.toolset.names

    def report_unavailable(self, servers: Sequence[McpServerUnavailable]) -> None:
        """Record the MCP servers whose tools are missing now; each reason is one event, whatever a retry writes."""
        known = {(server.server, server.message) for server in self.unavailable_servers}
        for server in servers:
            if (server.server, server.message) not in known:
                self.writer.emit_custom(server)
        self.unavailable_servers = servers

    async def use_folder(self, tools: Iterable[ToolSpec]) -> None:
        """Prepare the working folder for tools that use it."""
        for tool in tools if self.folder is not None else ():
            assert self.folder is not None
            is_command = (
                tool.reach in (ToolReach.COMMANDS, ToolReach.OUTSIDE) and tool.name not in self.toolset.remote_names
            )
            name = working_folder(self.run, self.agent, self.values)
            if notices := await self.folder.use(tool.name, name, is_command=is_command):
                self.folder_notices = notices
                self.writer.emit_custom(*notices)

    async def save_folder(self, *, let_go: bool) -> None:
        """Save the working folder, if it is due or the run lets go. Only the run's own worker can lose a file here."""
        if self.folder is not None:
            try:
                saved = await (self.folder.save(let_go=True) if let_go else self.folder.save_sometimes())
            except (LeaseLost, Unavailable):
                raise
            except HoldfastError as error:  # the run itself has not failed
                saved = [FolderNotice(state="not_saved", message=f"the working folder was not saved: {error.message}")]
            self.writer.emit_custom(*saved)

    def set_values(self, values: Mapping[str, Json]) -> None:
        """Change values of the run, now and in the next commit."""
        self.values.update(values)
        self.writer.draft.values.update(values)

    def estimate_usage(self, input_tokens: int, output_tokens: int) -> Usage:
        """Return the usage of a model call that did not finish, at the model's price."""
        cost = self.model.cost(input_tokens=input_tokens, output_tokens=output_tokens)
        return Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost)

    def usage_or_estimate(self, usage: Usage, *, prompt_tokens: int, response_text: Callable[[], str]) -> Usage:
        """Return the reported usage of a model call; without one, estimated tokens at an unknown cost."""
        if usage.total_tokens or usage.cost_usd is not None:
            return usage
        return Usage(input_tokens=prompt_tokens, output_tokens=self.tokens.count(response_text()), cost_usd=None)

    def add_usage(self, usage: Usage) -> None:
        """Add the usage of a model call to the run, now and in the next commit."""
        self.usage = self.usage + usage
        self.writer.draft.add_usage(usage)

    def count_iteration(self) -> None:
        """Count a model call whose response enters the conversation in the next commit."""
        self.iterations += 1
        self.writer.draft.iterations += 1

    async def commit(self) -> None:
        """Commit pending changes, then read the inbox if it has unread items."""
        await self.writer.commit()
        if self.writer.unread:
            await self.read_inbox()

    async def read_inbox(self) -> None:
        """Read the unread items of the inbox."""
        self.inbox.add(await self.journal.inbox(self.lease))


def mark_tainted(
    ctx: RunContext, sources: Iterable[str], *, at: int | None = None, call_id: ToolCallId | None = None
) -> None:
    """Taint the run with untrusted sources, in the commit that lets it read them; each is recorded once."""
    for name in sources:
        taint = read_taint(ctx.values)
        marked = taint.with_source(name, at=at)
        if marked is not taint:
            ctx.set_values({TAINT_VALUE: msgspec.to_builtins(marked)})
            ctx.writer.emit_custom(RunTainted(source=name, tool_call_id=UNSET if call_id is None else call_id))


def is_tainted(ctx: RunContext) -> bool:
    """Return whether the run is tainted and its policy then requires approval."""
    return ctx.values.get(TAINT_VALUE) is not None and ctx.permission_chain.requires_approval_when_tainted


def ask_if_tainted(
    ctx: RunContext, spec: ToolSpec, decision: PermissionDecision, *, sequence: int | None
) -> PermissionDecision:
    """Require approval of an allowed call if it reaches outside and the run was tainted before message `sequence`."""
    if decision.action is not PermissionAction.ALLOW or not is_tainted(ctx):
        return decision
    names = read_taint(ctx.values).names(before=sequence)
    if not names or not reaches_outside(spec, network=has_network(ctx.agent, ctx.values)):
        return decision
    reason = f"the run has read untrusted text (`{'`, `'.join(names)}`), and this call reaches beyond the workspace"
    return PermissionDecision(action=PermissionAction.ASK, rule=decision.rule, reason=reason)
