"""The agent loop: `AgentExecutor` runs one leased run until it ends, waits or is requeued.

    read the run's state ──► settle open tool calls ──► consume the inbox ──► call the model ─┐
                                     ▲                                                        │
                                     └───────────────── it requests tools ◄───────────────────┤
                                                        it only answers ──► completed ◄───────┘

The conversation is the only checkpoint: the lease holder derives the next step from messages and steps.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
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
from holdfast.agent.run_context import LoopConfig, RunContext, RunFailureSignal
from holdfast.agent.run_writer import RunWriter
from holdfast.agent.skills import SkillStep
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
from holdfast.ports.model import Models, TokenCounter
from holdfast.ports.runtime import Clock, Library, MemoryLibrary, RemoteTools, SubagentRuns, ToolListing
from holdfast.ports.tools import WorkingFolders
from holdfast.skills.prompt import SkillRenderer
from holdfast.tools.builtin.catalog import builtin_tools
from holdfast.tools.child_runs import WorkspaceSpawner
from holdfast.tools.client_tools import client_tools
from holdfast.tools.exposure import DEFAULT_EXPOSURE, ToolExposure
from holdfast.tools.files.snapshots import WorkerFolders
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.redaction import Redaction
from holdfast.tools.registry import ToolCatalog, Toolset, is_dynamic
from holdfast.tools.remote_tools import offline_tool, remote_tools
from holdfast.tools.run_catalogs import RunCatalogs
from holdfast.tools.tool import Tool, ToolMiddleware, passthrough

_log: Final = logging.getLogger("holdfast.agent")

REMOTE_TOOLS_GRACE_SECONDS: Final = 0.25
"""How long the listing of remote tools may take before the run reports that it has started."""

CustomTools: TypeAlias = Callable[[Agent], Awaitable[Sequence[Tool]]]
"""Returns the custom tools of an agent."""
MAX_CACHED_TOOLSETS: Final = 1_024

_ToolsetInputs: TypeAlias = tuple[list[str], int | None, tuple[ToolSpec, ...], Sequence[Tool]]


async def _no_tools(_: Agent) -> Sequence[Tool]:
    return ()


class AgentExecutor:
    """`Executor`: runs agents."""

    def __init__(
        self,
        *,
        journal: Journal,
        library: Library,
        memory: MemoryLibrary,
        subagents: SubagentRuns,
        remote: RemoteTools,
        models: Models,
        tokens: TokenCounter,
        clock: Clock,
        workspace: str,
        tools: Sequence[Tool] = (),
        folders: WorkingFolders | None = None,
        custom_tools: CustomTools = _no_tools,
        redaction: Redaction | None = None,
        config: LoopConfig | None = None,
        middleware: ToolMiddleware = passthrough,
        worker_folders: WorkerFolders | None = None,
    ) -> None:
        """Create an executor with local `tools` beside the built-in ones, and `custom_tools` that may change.

        `custom_tools` returns those of an agent, the same sequence until they change.
        """
        self._journal = journal
        self._library = library
        self._memory = memory
        self._subagents = subagents
        self._remote = remote
        self._models = models
        self._tokens = tokens
        self._clock = clock
        self._workspace = workspace
        self._redaction = redaction or Redaction()
        self._skill_catalogs = RunCatalogs(library, folders)
        self._skill_renderer = SkillRenderer(tokens)
        builtin = builtin_tools(
            WorkspaceSpawner(library.agents),
            subagents,
            library,
            memory,
            folders,
            skills=self._skill_catalogs,
            skill_renderer=self._skill_renderer,
        )
        self._local_tools = [*builtin, *self._wrap_tools(tools)]
        self._custom_tools = custom_tools
        self._toolsets: dict[tuple[str, str | None], tuple[_ToolsetInputs, Toolset]] = {}
        self._config = config or LoopConfig()
        self._middleware = middleware
        self._worker_folders = worker_folders
        self._prompt_composer = PromptComposer(tokens)
        self._tool_measurer = ToolMeasurer(tokens)
        self._runs_under_way = 0

    async def execute(self, lease: Lease, *, stop: asyncio.Event) -> None:
        """Work on a run until it waits, is requeued or has ended, or `stop` is set."""
        self._runs_under_way += 1
        try:
            await self._execute(lease, stop)
        finally:
            self._runs_under_way -= 1

    async def _execute(self, lease: Lease, stop: asyncio.Event) -> None:
        ctx = await self._open_context(lease, lease.snapshot or await self._journal.open(lease))
        resumed = ctx.writer.last_event_seq > 1
        if self._worker_folders is not None:
            ctx.folder = self._worker_folders.of_run(lease)
            ctx.writer.before_move = partial(ctx.save_folder, let_go=True)
        try:
            await self._load_agent(ctx)
            await self._run_loop(ctx, stop, resumed=resumed)
        except RunFailureSignal as signal:
            await self._fail(ctx, signal.error)
        except (LeaseLost, Unavailable):
            raise
        except HoldfastError as error:
            await self._fail_from_log(
                ctx, RunError(code=error.code, message=error.message, details=dict(error.details))
            )
        finally:
            if ctx.folder is not None:
                ctx.folder.close()

    async def _open_context(self, lease: Lease, snapshot: RunSnapshot) -> RunContext:
        conversation = ConversationWindow(
            lease.run_id,
            snapshot.messages,
            turn=await read_turn(self._journal, lease, snapshot.messages),
            whole=len(snapshot.messages) < snapshot.thread.context_window,
        )
        segment_id = requested_segment_id(snapshot.inbox) or lease.run_id
        stream = StreamNormaliser.resume(
            lease.thread_id, segment_id, snapshot.events, base_run_id=lease.run.base_run_id
        )
        return RunContext(
            lease=lease,
            thread=snapshot.thread,
            journal=self._journal,
            writer=RunWriter(
                self._journal,
                lease,
                stream,
                conversation,
                self._clock,
                last_event_seq=snapshot.last_event_seq,
                commit_interval=lambda: self._config.stream_timings.commit_interval(self._runs_under_way),
            ),
            ledger=StepLedger(lease.run_id, snapshot.steps),
            conversation=conversation,
            inbox=InboxReader(snapshot.inbox),
            values=dict(snapshot.values),
            interrupts={interrupt.id: interrupt for interrupt in snapshot.interrupts},
            tokens=self._tokens,
            clock=self._clock,
            config=self._config,
            middleware=self._middleware,
        )

    async def _load_agent(self, ctx: RunContext) -> None:
        agent = await self._library.agent(ctx.lease)
        toolset = await self._toolset(ctx, agent)
        names = candidate_models(
            agent, ctx.run.model
        )  # the run's model is frozen at creation; the agent's has fallbacks
        await self._models.prepare(names)
        model = self._models.fallback(names, folder=agent.folder)
        ctx.attach_agent(agent, model, toolset, library=self._library, memory=self._memory, remote_tools=self._remote)

    async def _run_loop(self, ctx: RunContext, stop: asyncio.Event, *, resumed: bool) -> None:
        skills = SkillStep(ctx, self._skill_catalogs, self._skill_renderer)
        builder = ContextBuilder(ctx, self._prompt_composer, self._tool_measurer, workspace=self._workspace)
        model_step = ModelStep(ctx, builder)
        if resumed:
            ctx.writer.emit_custom(StatusChanged(from_=RunStatus.QUEUED, to=RunStatus.RUNNING, reason="resumed"))
        model_step.void_lost_call()
        while not stop.is_set():
            exchange = ctx.conversation.open_exchange()
            if exchange is None:
                await consume_inbox(ctx)
                if any(map(is_dynamic, _tool_patterns(ctx.agent))):  # remote tools may have changed since
                    ctx.toolset = await self._toolset(ctx, ctx.agent)
                    ctx.update_agent()
                await skills.prepare()
                if await model_step.run():
                    return
            else:
                ctx.apply_rules(await self._library.rules(ctx.lease, ctx.agents))
                if await ToolStep(ctx, exchange[0]).run(exchange[1]):
                    return
                await ctx.save_folder(let_go=False)
        await ctx.save_folder(let_go=True)
        await ctx.writer.commit()

    async def _fail(self, ctx: RunContext, error: RunError, *, keep_messages: bool = True) -> None:
        """Fail a run, and end the children that it waits for."""
        if awaited := ctx.ledger.awaited_children():
            await self._subagents.end(ctx.lease, awaited)
        # An error message of a provider may quote the key that it refuses.
        redacted = replace(
            error, message=self._redaction.text(error.message), details=self._redaction.json(error.details)
        )
        await fail(ctx, redacted, keep_messages=keep_messages)

    async def _fail_from_log(self, ctx: RunContext, error: RunError) -> None:
        """Fail a run whose commit the store refused for good, starting again from its committed log.

        If an inbox item makes the store refuse the failure too, the run ends without its inbox.
        """
        for keep_messages in (True, False):
            logged = await self._open_context(ctx.lease, await self._journal.open(ctx.lease))
            logged.usage = ctx.usage
            try:
                return await self._fail(logged, error, keep_messages=keep_messages)
            except (LeaseLost, Unavailable):
                raise
            except HoldfastError:
                if not keep_messages:
                    raise

    async def _toolset(self, ctx: RunContext, agent: Agent) -> Toolset:
        """Return the tools of an agent, cached until one of their inputs changes, and those of the run's client."""
        patterns = _tool_patterns(agent)
        listing = await self._list_remote_tools(ctx, patterns)
        ctx.report_unavailable(listing.unavailable)
        listed = tuple(listing.tools)
        custom = await self._custom_tools(agent) if patterns else ()
        inputs, key = (patterns, agent.tools_shown, listed, custom), (agent.name, agent.version)
        cached = self._toolsets.get(key)
        if cached is None or cached[0] != inputs:
            catalog = ToolCatalog(
                [*self._local_tools, *self._wrap_tools(custom)],
                remote=remote_tools(listed, self._remote, redaction=self._redaction),
                offline=partial(offline_tool, remote=self._remote, redaction=self._redaction),
            )
            for name, reason in catalog.rejected.items():
                _log.warning("the agent `%s` does not have the remote tool `%s`: %s", agent.name, name, reason)
            exposure = DEFAULT_EXPOSURE if agent.tools_shown is None else ToolExposure(limit=agent.tools_shown)
            if len(self._toolsets) >= MAX_CACHED_TOOLSETS:
                self._toolsets.clear()
            cached = self._toolsets[key] = (inputs, catalog.toolset(patterns, exposure=exposure))
        offered = client_tools(ctx.values, ctx.run.id)
        return cached[1].merged_with(offered) if offered else cached[1]

    async def _list_remote_tools(self, ctx: RunContext, patterns: Sequence[str]) -> ToolListing:
        """Return the tools of the control plane; a new run that has to wait for them reports that it has started."""
        if not any(map(is_dynamic, patterns)):
            return await self._remote.list(ctx.lease) if patterns else ToolListing(tools=())
        listing = start_background(
            self._remote.list(ctx.lease), name="holdfast-remote-tools", ended_by="AgentExecutor._list_remote_tools"
        )
        try:
            await asyncio.wait([listing], timeout=REMOTE_TOOLS_GRACE_SECONDS)
            if not listing.done() and ctx.writer.last_event_seq == 1:
                ctx.writer.emit_custom(StatusChanged(from_=RunStatus.QUEUED, to=RunStatus.RUNNING))
                await ctx.writer.commit()
            return await listing
        finally:
            listing.cancel()

    def _wrap_tools(self, tools: Iterable[Tool]) -> list[Tool]:
        return [with_standard_middleware(tool, redaction=self._redaction) for tool in tools]


def _tool_patterns(agent: Agent) -> list[str]:
    """Return the names and patterns of an agent's tools; the tools of its own MCP servers are always included."""
    return [*agent.tools, *(f"{server_tool_prefix(server)}*" for server in agent.mcp_servers)]
