"""Opening a workspace: its store, agents, tools and engine, wired together."""

import os
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec

from holdfast.agent.context.tokens import EstimatedTokens
from holdfast.agent.loop import AgentExecutor
from holdfast.agent.run_context import LoopConfig
from holdfast.bootstrap.logs import redact_logs
from holdfast.bootstrap.observability import Observability, Tracer, open_observability
from holdfast.bootstrap.store import SystemClock, open_bus, open_store
from holdfast.bootstrap.workspace_tools import WorkspaceTools, known_tool_names, open_mcp, workspace_tools
from holdfast.control.api_keys import CachedKeyAuthenticator, KeyControl
from holdfast.control.local_runtime import LocalLibrary, LocalSubagentRuns
from holdfast.control.platform_tools import CombinedTools, PlatformTools
from holdfast.control.remote_methods import RemoteMethods
from holdfast.control.runs import RunControl
from holdfast.control.settings import SettingsControl
from holdfast.domain.errors import IdTaken, StoreOwned
from holdfast.domain.ids import OwnerId, SpaceId
from holdfast.domain.mcp_server import MCP_TOOL_PREFIX
from holdfast.domain.tool import REMOTE_METHOD_PREFIX
from holdfast.engine.engine import Engine, NotificationLoop
from holdfast.engine.timers import TimerLoop
from holdfast.engine.watcher import Watcher
from holdfast.engine.worker import DEFAULT_DRAIN_TIMEOUT, DEFAULT_HEARTBEAT_INTERVAL, DEFAULT_LEASE, Worker
from holdfast.metrics.meters import Meters
from holdfast.models.registry import ListedModels, ModelRegistry
from holdfast.ports.model import KnownModels, Models
from holdfast.ports.runtime import Clock, Executor, RemoteTools
from holdfast.ports.workspace import Agents
from holdfast.sandbox.processes import open_processes
from holdfast.store.store import Store
from holdfast.tools.tool import Tool
from holdfast.workspace.agents import FolderAgents
from holdfast.workspace.folder import Workspace
from holdfast.workspace.settings import FolderSettings
from holdfast.workspace.settings_file import WorkspaceSettingsFile

DEFAULT_SPACE: Final = SpaceId("default")
"""The space that every workspace begins with."""


class Holdfast:
    """A workspace that is open: its store, its agents, and the engine that runs them."""

    def __init__(
        self,
        *,
        store: Store,
        runs: RunControl,
        agents: Agents,
        models: Models,
        known_models: KnownModels,
        remote_methods: RemoteMethods,
        settings: SettingsControl,
        watcher: Watcher,
        engine: Engine,
        meters: Meters,
        default_agent: Callable[[], str | None],
    ) -> None:
        self.store = store
        self.runs = runs
        self.agents = agents
        self.models = models
        self.known_models = known_models
        self.remote_methods = remote_methods
        self.settings = settings
        self.watcher = watcher
        self.engine = engine
        self.meters = meters
        self.default_agent = default_agent


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine works; what is not given comes from the settings of the workspace."""

    workers: int | None = None
    """Runs at a time in this process; 0 leaves them to others."""
    lease: timedelta = DEFAULT_LEASE
    heartbeat: timedelta = DEFAULT_HEARTBEAT_INTERVAL
    drain: timedelta = DEFAULT_DRAIN_TIMEOUT
    loop_config: LoopConfig = LoopConfig()
    tools: Sequence[Tool] = ()
    """Tools of this process, beside the built-in."""
    tracing: Tracer | None = None
    """What emits spans of what is done."""


@asynccontextmanager
async def open(
    workspace: str | Path,
    *,
    database: str | Path | None = None,
    options: Options | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Holdfast]:
    """Open a workspace and run its agents while the block runs.

    The log is the workspace's own SQLite file, or the `database` that is given.
    """
    folder = Workspace(workspace)
    folder.prepare()
    where, now = database or folder.database, clock or SystemClock()
    names = known_tool_names(folder, (options or Options()).tools)
    settings = FolderSettings(folder, known=names)
    async with AsyncExitStack() as stack:
        tracing = (options or Options()).tracing
        observing = await stack.enter_async_context(open_observability(settings.get().telemetry, tracing=tracing))
        bus = await stack.enter_async_context(open_bus(where))
        store = await stack.enter_async_context(open_store(where, bus=bus, clock=clock, meters=observing.meters))
        models = await stack.enter_async_context(ModelRegistry(settings.get().providers, wrap=observing.model))
        agents = FolderAgents(folder, settings=settings.get, known=names)
        watcher = Watcher(bus=bus, events=store.events, leases=store.leases, clock=now)
        processes = await stack.enter_async_context(open_processes())
        hands = workspace_tools(folder, processes, settings.get(), (options or Options()).tools)
        redact_logs(hands.redaction)
        methods = RemoteMethods(store.journal)
        mcp = await stack.enter_async_context(open_mcp(folder, processes, settings.get, store=store, agents=agents))
        platform = PlatformTools(store.runs, store.journal, store.values)
        remote = CombinedTools(platform, prefixed={REMOTE_METHOD_PREFIX: methods, MCP_TOOL_PREFIX: mcp})
        executor = observing.executor(
            _make_executor(store, agents, models, now, folder, options or Options(), hands, remote, observing)
        )
        engine = _make_engine(store, watcher, executor, now, options or Options(), workers=settings.get().workers)
        await create_default_space(store)
        await stack.enter_async_context(engine.running())
        yield Holdfast(
            store=store,
            runs=_make_run_control(store, agents, models),
            agents=agents,
            models=models,
            known_models=ListedModels(lambda: settings.get().providers),
            remote_methods=methods,
            settings=SettingsControl(WorkspaceSettingsFile(folder, settings, known=names), redaction=hands.redaction),
            watcher=watcher,
            engine=engine,
            meters=observing.meters,
            default_agent=lambda: settings.get().default_agent,
        )


def _make_executor(
    store: Store,
    agents: Agents,
    models: Models,
    clock: Clock,
    workspace: Workspace,
    options: Options,
    hands: WorkspaceTools,
    remote: RemoteTools,
    observing: Observability,
) -> AgentExecutor:
    return AgentExecutor(
        journal=observing.journal(store.journal),
        library=LocalLibrary(agents, store.files, store.interrupts),
        subagents=LocalSubagentRuns(store.runs, store.subscriptions, store.journal, store.values),
        remote=remote,
        models=models,
        tokens=EstimatedTokens(),
        clock=clock,
        workspace=workspace.path.name,
        tools=hands.tools,
        custom_tools=hands.custom_tools,
        redaction=hands.redaction,
        config=options.loop_config,
        middleware=observing.middleware,
    )


def _make_engine(
    store: Store, watcher: Watcher, executor: Executor, clock: Clock, options: Options, *, workers: int
) -> Engine:
    owner = OwnerId(f"{os.getpid()}-{secrets.token_hex(8)}")
    timers = TimerLoop(
        timers=store.timers,
        interrupts=store.interrupts,
        runs=store.runs,
        inbox=store.inbox,
        watcher=watcher,
        clock=clock,
        owner=owner,
        lease=options.lease,
    )
    news = NotificationLoop(notifications=store.notifications, watcher=watcher)
    concurrency = workers if options.workers is None else options.workers
    worker = _make_worker(store, watcher, executor, options, owner, concurrency) if concurrency else None
    return Engine(watcher=watcher, timers=timers, notifications=news, worker=worker)


def _make_worker(
    store: Store, watcher: Watcher, executor: Executor, options: Options, owner: OwnerId, concurrency: int
) -> Worker:
    return Worker(
        executor=executor,
        leases=store.leases,
        runs=store.runs,
        events=store.events,
        watcher=watcher,
        owner=owner,
        concurrency=concurrency,
        lease=options.lease,
        heartbeat=options.heartbeat,
        drain=options.drain,
    )


def _make_run_control(store: Store, agents: Agents, models: Models) -> RunControl:
    return RunControl(
        runs=store.runs,
        threads=store.threads,
        messages=store.messages,
        inbox=store.inbox,
        interrupts=store.interrupts,
        files=store.files,
        agents=agents,
        models=models,
    )


async def create_default_space(store: Store) -> None:
    """Make the space that every workspace begins with, where it is not there yet."""
    with suppress(IdTaken):
        await store.spaces.create(DEFAULT_SPACE, name="default")


@asynccontextmanager
async def open_keys(workspace: Path, *, database: str | None = None) -> AsyncIterator[KeyControl]:
    """Yield what can be done with the keys of a workspace, by whoever has its files."""
    folder = Workspace(workspace)
    folder.prepare()
    try:
        async with open_store(database or folder.database) as store:
            await create_default_space(store)
            clock = SystemClock()
            yield KeyControl(store.api_keys, CachedKeyAuthenticator(store.api_keys, clock), clock)
    except StoreOwned as exc:
        raise StoreOwned(
            "a server has this workspace open: go through it, with `--url` and its address, or stop it"
        ) from exc
