"""The agent loop: `AgentExecutor` runs one leased run until it ends, waits or is requeued.

    read the run's state ──► settle open tool calls ──► consume the inbox ──► call the model ─┐
                                     ▲                                                        │
                                     └───────────────── it requests tools ◄───────────────────┤
                                                        it only answers ──► completed ◄───────┘

There is no checkpoint beside the conversation: the holder of the lease reads messages and steps and knows what is next.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeAlias

from msgspec.structs import replace

from holdfast.agent.context.builder import ContextBuilder
from holdfast.agent.context.conversation import ConversationWindow, read_turn
from holdfast.agent.context.system_prompt import PromptComposer
from holdfast.agent.context.tokens import ToolMeasurer
from holdfast.agent.endings import fail
from holdfast.agent.inbox import consume_inbox
from holdfast.agent.inbox_reader import InboxReader, requested_segment_id
from holdfast.agent.model_step import ModelStep
from holdfast.agent.run_context import LoopConfig, RunContext, RunFailed
from holdfast.agent.run_writer import RunWriter
from holdfast.agent.step_ledger import StepLedger
from holdfast.agent.tool_step import ToolStep
from holdfast.concurrency import start_background
from holdfast.domain.agent import Agent, candidate_models
from holdfast.domain.commit import Lease, RunSnapshot
from holdfast.domain.errors import HoldfastError, LeaseLost, Unavailable
from holdfast.domain.events.custom import StatusChanged
from holdfast.domain.mcp_server import server_tool_prefix
from holdfast.domain.run import RunError, RunStatus
from holdfast.domain.stream import StreamNormaliser
from holdfast.domain.tool import ToolSpec
from holdfast.ports.log import Journal
from holdfast.ports.model import Model, Models, TokenCounter
from holdfast.ports.runtime import Clock, Library, RemoteTools, SubagentRuns
from holdfast.tools.builtin.catalog import builtin_tools
from holdfast.tools.child_runs import WorkspaceSpawner
from holdfast.tools.client_tools import client_tools
from holdfast.tools.exposure import DEFAULT_EXPOSURE, ToolExposure
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.redaction import Redaction
from holdfast.tools.registry import ToolCatalog, Toolset, is_dynamic
from holdfast.tools.remote_tools import offline_tool, remote_tools
from holdfast.tools.tool import Tool, ToolMiddleware, passthrough

_log: Final = logging.getLogger("holdfast.agent")

REMOTE_TOOLS_GRACE_SECONDS: Final = 0.25
"""Seconds that a run waits for servers of tools before it says that it has begun."""

_ToolboxInputs: TypeAlias = tuple[list[str], int | None, tuple[ToolSpec, ...], Sequence[Tool]]
"""What the toolbox of an agent is made of."""


class AgentExecutor:
    """`Executor`: runs agents."""

    def __init__(
        self,
        *,
        journal: Journal,
        library: Library,
        subagents: SubagentRuns,
        remote: RemoteTools,
        models: Models,
        tokens: TokenCounter,
        clock: Clock,
        workspace: str,
        tools: Sequence[Tool] = (),
        custom_tools: Callable[[], Sequence[Tool]] = tuple,
        redaction: Redaction | None = None,
        config: LoopConfig | None = None,
        middleware: ToolMiddleware = passthrough,
    ) -> None:
        """Put together what runs agents; `tools` are local ones beside the built-in, `custom` those that change.

        As long as those stay the same, `custom` returns the same sequence.
        """
        self._journal = journal
        self._library = library
        self._subagents = subagents
        self._remote = remote
        self._models = models
        self._tokens = tokens
        self._clock = clock
        self._workspace = workspace
        self._redaction = redaction or Redaction()
        self._local_tools = [*builtin_tools(WorkspaceSpawner(library.agents), subagents), *self._wrap_tools(tools)]
        self._custom_tools = custom_tools
        self._toolboxes: dict[str, tuple[_ToolboxInputs, Toolset]] = {}
        self._config = config or LoopConfig()
        self._middleware = middleware
        self._prompt_composer = PromptComposer(tokens)
        self._tool_measurer = ToolMeasurer(tokens)

    async def execute(self, lease: Lease, *, stop: asyncio.Event) -> None:
        """Work on a run until it waits, is queued again or has ended."""
        work = await self._open_context(lease, lease.snapshot or await self._journal.open(lease))
        again = work.writer.last_event_seq > 1
        try:
            await self._load_agent(work)
            await self._run_loop(work, stop, resumed=again)
        except RunFailed as signal:
            await self._fail(work, signal.error)
        except (LeaseLost, Unavailable):
            raise
        except HoldfastError as error:
            why = RunError(code=error.code, message=error.message, details=dict(error.details))
            await self._fail_from_log(work, why)

    async def _fail_from_log(self, ctx: RunContext, error: RunError) -> None:
        """End a run of which the store refused something for good: that is not logged, and the end follows what is.

        If it refuses the end too, because of something that came in, the run ends without that.
        """
        for hears in (True, False):
            logged = await self._open_context(ctx.lease, await self._journal.open(ctx.lease))
            logged.usage = ctx.usage
            try:
                return await self._fail(logged, error, keep_messages=hears)
            except (LeaseLost, Unavailable):
                raise
            except HoldfastError:
                if not hears:
                    raise

    async def _fail(self, ctx: RunContext, error: RunError, *, keep_messages: bool = True) -> None:
        """End a run badly, with the children that it waits for."""
        if awaited := ctx.ledger.awaited_children():
            await self._subagents.end(ctx.lease, awaited)
        await fail(ctx, self._redact_error(error), keep_messages=keep_messages)

    async def _run_loop(self, ctx: RunContext, stop: asyncio.Event, *, resumed: bool) -> None:
        thinking = ModelStep(
            ctx, ContextBuilder(ctx, self._prompt_composer, self._tool_measurer, workspace=self._workspace)
        )
        if resumed:
            ctx.writer.emit_custom(StatusChanged(from_=RunStatus.QUEUED, to=RunStatus.RUNNING, reason="taken up again"))
        thinking.void_lost_call()
        while not stop.is_set():
            exchange = ctx.conversation.open_exchange()
            if exchange is None:
                await consume_inbox(ctx)
                await self._refresh_toolbox(ctx)
                if await thinking.run():
                    return
            elif await ToolStep(ctx, exchange[0]).run(exchange[1]):
                return
        await ctx.writer.commit()

    async def _open_context(self, lease: Lease, opening: RunSnapshot) -> RunContext:
        conversation = ConversationWindow(
            lease.run_id,
            opening.messages,
            turn=await read_turn(self._journal, lease, opening.messages),
            whole=len(opening.messages) < opening.thread.context_window,
        )
        name = requested_segment_id(opening.inbox) or lease.run_id
        stream = StreamNormaliser.resume(lease.thread_id, name, opening.events, base_run_id=lease.run.base_run_id)
        log = RunWriter(self._journal, lease, stream, conversation, self._clock, last_event_seq=opening.last_event_seq)
        return RunContext(
            lease=lease,
            thread=opening.thread,
            journal=self._journal,
            writer=log,
            ledger=StepLedger(lease.run_id, opening.steps),
            conversation=conversation,
            inbox=InboxReader(opening.inbox),
            values=opening.values,
            interrupts={interrupt.id: interrupt for interrupt in opening.interrupts},
            tokens=self._tokens,
            clock=self._clock,
            config=self._config,
            middleware=self._middleware,
        )

    async def _load_agent(self, ctx: RunContext) -> None:
        agent = await self._library.agent(ctx.lease)
        toolbox = await self._toolbox_with_client_tools(ctx, agent)
        model = await self._choose_model(ctx.lease, agent)
        ctx.attach_agent(agent, model, toolbox, library=self._library, remote_tools=self._remote)

    async def _refresh_toolbox(self, ctx: RunContext) -> None:
        """Take up what servers of tools, and clients with methods, have changed meanwhile, or that they are there."""
        if any(map(is_dynamic, _tool_patterns(ctx.agent))):
            ctx.update_toolbox(await self._toolbox_with_client_tools(ctx, ctx.agent))

    async def _toolbox_with_client_tools(self, ctx: RunContext, agent: Agent) -> Toolset:
        toolbox = await self._cached_toolbox(ctx, agent)
        offered = client_tools(ctx.values, ctx.run.id)
        return toolbox.merged_with(offered) if offered else toolbox

    async def _choose_model(self, lease: Lease, agent: Agent) -> Model:
        """Return the model that was frozen when the run was made; the agent's own may fall back on others."""
        names = candidate_models(agent, lease.run.model)
        await self._models.prepare(names)
        return self._models.fallback(names, folder=agent.folder)

    async def _cached_toolbox(self, ctx: RunContext, agent: Agent) -> Toolset:
        """Return the tools of an agent; as long as neither it nor what is offered changes, they are the same."""
        wanted = _tool_patterns(agent)
        listed = await self._list_remote_tools(ctx, wanted)
        custom = self._custom_tools() if wanted else ()
        offered = (wanted, agent.tools_shown, listed, custom)
        known = self._toolboxes.get(agent.name)
        if known is None or known[0] != offered:
            local = [*self._local_tools, *self._wrap_tools(custom)]
            away = partial(offline_tool, remote=self._remote, redaction=self._redaction)
            remote = remote_tools(listed, self._remote, redaction=self._redaction)
            exposure = DEFAULT_EXPOSURE if agent.tools_shown is None else ToolExposure(limit=agent.tools_shown)
            catalog = ToolCatalog(local, remote=remote, offline=away)
            for name, why in catalog.rejected.items():
                _log.warning("the agent `%s` does not have the remote tool `%s`: %s", agent.name, name, why)
            known = self._toolboxes[agent.name] = (offered, catalog.toolset(wanted, exposure=exposure))
        return known[1]

    async def _list_remote_tools(self, ctx: RunContext, wanted: Sequence[str]) -> tuple[ToolSpec, ...]:
        """Return what the control plane offers; a run that must wait for it says that it has begun."""
        if not any(map(is_dynamic, wanted)):
            return tuple(await self._remote.list(ctx.lease)) if wanted else ()
        listing = start_background(
            self._remote.list(ctx.lease), name="holdfast-remote-tools", ended_by="AgentExecutor._list_remote_tools"
        )
        try:
            await asyncio.wait([listing], timeout=REMOTE_TOOLS_GRACE_SECONDS)
            if not listing.done() and ctx.writer.last_event_seq == 1:
                ctx.writer.emit_custom(StatusChanged(from_=RunStatus.QUEUED, to=RunStatus.RUNNING))
                await ctx.writer.commit()
            return tuple(await listing)
        finally:
            listing.cancel()

    def _redact_error(self, error: RunError) -> RunError:
        """Return an error without secrets: what a provider says may quote the key that it refuses."""
        details = self._redaction.json(error.details)
        return replace(error, message=self._redaction.text(error.message), details=details)

    def _wrap_tools(self, tools: Iterable[Tool]) -> list[Tool]:
        return [with_standard_middleware(tool, redaction=self._redaction) for tool in tools]


def _tool_patterns(agent: Agent) -> list[str]:
    """Return the names of tools that an agent may use: those of its own servers need not be named."""
    return [*agent.tools, *(f"{server_tool_prefix(server)}*" for server in agent.mcp_servers)]
