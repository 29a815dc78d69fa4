"""`RunContext`: the state that the steps of one run share, its configuration and its taint.

A run that reads content written by others is tainted for good: its calls that reach outside then need approval.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from holdfast.agent.context.conversation import ConversationWindow
from holdfast.agent.inbox_reader import InboxReader
from holdfast.agent.model_stream import CommitInterval
from holdfast.agent.run_writer import RunWriter
from holdfast.agent.step_ledger import StepLedger
from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.events.custom import RunTainted
from holdfast.domain.ids import ToolCallId
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.limits import Usage
from holdfast.domain.permission import PermissionAction, PermissionDecision
from holdfast.domain.run import RunError
from holdfast.domain.thread import Thread
from holdfast.domain.tool import ToolSpec, reaches_outside
from holdfast.domain.untrusted import TAINT_VALUE, read_taint
from holdfast.ports.log import Journal
from holdfast.ports.model import Model, TokenCounter
from holdfast.ports.runtime import Clock, Library, RemoteTools
from holdfast.tools.commands.command_runner import has_network
from holdfast.tools.permissions.policy import permission_chain
from holdfast.tools.registry import Toolset
from holdfast.tools.tool import ToolMiddleware, passthrough


class RunFailed(Exception):
    """The run cannot go on."""

    def __init__(self, error: RunError) -> None:
        super().__init__(error.message)
        self.error = error


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often a model that is not available is tried, and how long is waited in between. In seconds."""

    max_attempts: int = 5
    first_delay_seconds: float = 1.0
    max_delay_seconds: float = 60.0
    max_retry_after_seconds: float = 86_400.0
    """The most that a provider can ask for: a run does not wait for years because of a number in a header."""

    def delay_seconds(self, failures: int, retry_after: float | None) -> float:
        """Return how long to wait after so many failures in a row; at least as long as the provider may ask for."""
        doublings = min(max(failures - 1, 0), 30)
        return max(
            min(self.first_delay_seconds * (1 << doublings), self.max_delay_seconds),
            min(retry_after or 0.0, self.max_retry_after_seconds),
        )


class LoopConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How the loop works, where that is a matter of taste."""

    commit_interval: CommitInterval = CommitInterval()
    retry_policy: RetryPolicy = RetryPolicy()


class RunContext:
    """What is known and what is said while one worker works on one run."""

    def __init__(
        self,
        *,
        lease: Lease,
        thread: Thread,
        journal: Journal,
        writer: RunWriter,
        ledger: StepLedger,
        conversation: ConversationWindow,
        inbox: InboxReader,
        values: Mapping[str, Json],
        interrupts: Mapping[str, Interrupt],
        tokens: TokenCounter,
        clock: Clock,
        config: LoopConfig,
        middleware: ToolMiddleware = passthrough,
    ) -> None:
        self.lease = lease
        self.run: Final = lease.run
        """The run as it was claimed."""
        self.thread = thread
        self.journal = journal
        self.writer = writer
        self.ledger = ledger
        self.conversation = conversation
        self.inbox = inbox
        self.values = dict(values)
        self.interrupts = dict(interrupts)
        self.tokens = tokens
        self.clock = clock
        self.config = config
        self.middleware = middleware
        """What is done around each call of a tool."""
        self.iterations = self.run.iterations
        self.usage = self.run.usage

    def attach_agent(
        self, agent: Agent, model: Model, toolbox: Toolset, *, library: Library, remote_tools: RemoteTools
    ) -> None:
        """Say who works, with what. Until then a run can only fail."""
        self.model = model
        self.toolbox = toolbox
        self.library = library
        self.remote_tools = remote_tools
        self.update_agent(agent)

    def update_toolbox(self, toolbox: Toolset) -> None:
        """Go on with the tools that there are now."""
        self.toolbox = toolbox
        self.update_agent(self.agent)

    def update_agent(self, agent: Agent) -> None:
        """Go on as the agent is defined now."""
        self.agent = agent
        self.permission_chain = permission_chain(agent, self.values)
        self.guarded_tools = self.permission_chain.governed_tools | self.toolbox.remote_names
        """Tools whose calls are not made without a decision."""

    def set_values(self, values: Mapping[str, Json]) -> None:
        """Change values of the run."""
        self.values.update(values)
        self.writer.draft.values.update(values)

    def count_model_call(self) -> None:
        """Count a model call."""
        self.iterations += 1
        self.writer.draft.iterations += 1

    def estimate_usage(self, input_tokens: int, output_tokens: int) -> Usage:
        """Return what a model call used of which nobody says so."""
        cost = self.model.cost(input_tokens=input_tokens, output_tokens=output_tokens)
        return Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost)

    def usage_or_estimate(self, usage: Usage, *, prompt_tokens: int, response_text: Callable[[], str]) -> Usage:
        """Return what a model call used: where its provider does not say, about that, at a cost that nobody knows."""
        if usage.total_tokens or usage.cost_usd is not None:
            return usage
        return Usage(input_tokens=prompt_tokens, output_tokens=self.tokens.count(response_text()), cost_usd=None)

    def add_usage(self, usage: Usage) -> None:
        """Count what a model call used."""
        self.usage = self.usage + usage
        self.writer.draft.add_usage(usage)

    async def commit(self) -> None:
        """Commit what was said, and read what came in."""
        await self.writer.commit()
        if self.writer.unread:
            await self.read_inbox()

    async def read_inbox(self) -> None:
        """Read what came in."""
        self.inbox.add(await self.journal.inbox(self.lease))


def mark_tainted(
    ctx: RunContext, sources: Iterable[str], *, at: int | None = None, call_id: ToolCallId | None = None
) -> None:
    """Mark a run as having read what these wrote, in the commit that lets it read that; say so of each, once."""
    for name in sources:
        taint = read_taint(ctx.values)
        marked = taint.with_source(name, at=at)
        if marked is not taint:
            ctx.set_values({TAINT_VALUE: msgspec.to_builtins(marked)})
            ctx.writer.emit_custom(RunTainted(source=name, tool_call_id=UNSET if call_id is None else call_id))


def is_tainted(ctx: RunContext) -> bool:
    """Say whether calls of a run may be somebody else's wish."""
    return ctx.values.get(TAINT_VALUE) is not None and ctx.permission_chain.requires_approval_when_tainted


def ask_if_tainted(
    ctx: RunContext, spec: ToolSpec, decision: PermissionDecision, *, sequence: int | None
) -> PermissionDecision:
    """Return what is decided about a call of the message of that sequence, once others may have suggested it."""
    if decision.action is not PermissionAction.ALLOW or not is_tainted(ctx):
        return decision
    names = read_taint(ctx.values).names(before=sequence)
    if not names or not reaches_outside(spec, network=has_network(ctx.agent, ctx.values)):
        return decision
    why = f"the run has read what others wrote (`{'`, `'.join(names)}`), and this call reaches beyond the workspace"
    return PermissionDecision(action=PermissionAction.ASK, rule=decision.rule, reason=why)
