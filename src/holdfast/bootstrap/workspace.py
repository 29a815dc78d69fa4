"""Opening a workspace: its store, agents, tools and engine, wired together."""

import os
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import msgspec

from holdfast.agent.context.tokens import EstimatedTokens
from holdfast.agent.loop import AgentExecutor
from holdfast.agent.run_context import LoopConfig
from holdfast.bootstrap.logs import redact_logs
from holdfast.bootstrap.observability import Tracer, open_observability
from holdfast.bootstrap.store import SystemClock, open_bus, open_store
from holdfast.bootstrap.workspace_tools import known_tool_names, open_mcp, workspace_tools
from holdfast.control.api_keys import CachedKeyAuthenticator, KeyControl
from holdfast.control.local_runtime import LocalLibrary, LocalSubagentRuns
from holdfast.control.platform_tools import CombinedTools, PlatformTools
from holdfast.control.remote_methods import RemoteMethods
from holdfast.control.runs import RunControl
from holdfast.control.settings import SettingsControl
from holdfast.domain.errors import IdTaken, StoreOwned
from holdfast.domain.ids import OwnerId
from holdfast.domain.mcp_server import MCP_TOOL_PREFIX
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.tool import REMOTE_METHOD_PREFIX
from holdfast.engine.engine import Engine, NotificationLoop
from holdfast.engine.timers import TimerLoop
from holdfast.engine.watcher import Watcher
from holdfast.engine.worker import DEFAULT_DRAIN_TIMEOUT, DEFAULT_HEARTBEAT_INTERVAL, DEFAULT_LEASE, Worker
from holdfast.metrics.meters import Meters
from holdfast.models.registry import ListedModels, ModelRegistry
from holdfast.ports.model import KnownModels, Models
from holdfast.ports.runtime import Clock, Executor
from holdfast.ports.workspace import Agents
from holdfast.sandbox.processes import open_processes
from holdfast.store.store import Store
from holdfast.tools.tool import Tool
from holdfast.workspace.agents import FolderAgents
from holdfast.workspace.folder import Workspace
from holdfast.workspace.settings import FolderSettings
from holdfast.workspace.settings_file import WorkspaceSettingsFile


class Holdfast(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An open workspace: its store, its agents, and the engine that runs them."""

    store: Store
    runs: RunControl
    agents: Agents
    models: Models
    known_models: KnownModels
    remote_methods: RemoteMethods
    settings: SettingsControl
    watcher: Watcher
    engine: Engine
    meters: Meters
    default_agent: Callable[[], str | None]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the engine; the defaults come from the settings of the workspace."""

    workers: int | None = None
    """Concurrent runs in this process; 0 starts no worker."""
    lease: timedelta = DEFAULT_LEASE
    heartbeat: timedelta = DEFAULT_HEARTBEAT_INTERVAL
    drain: timedelta = DEFAULT_DRAIN_TIMEOUT
    loop_config: LoopConfig = LoopConfig()
    tools: Sequence[Tool] = ()
    """Additional tools of this process."""
    tracing: Tracer | None = None
    """Emits spans, instead of the tracing that the settings configure."""


@asynccontextmanager
async def open(
    workspace: str | Path,
    *,
    database: str | Path | None = None,
    options: Options | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Holdfast]:
    """Open a workspace, and run its agents until the block ends.

    The store is the SQLite file of the workspace, or the given `database`.
    """
    folder = Workspace(workspace)
    folder.prepare()
    options = options or Options()
    where, now = database or folder.database, clock or SystemClock()
    tool_names = known_tool_names(folder, options.tools)
    settings = FolderSettings(folder, tool_names=tool_names)
    async with AsyncExitStack() as stack:
        telemetry = open_observability(settings.get().telemetry, tracing=options.tracing)
        observability = await stack.enter_async_context(telemetry)
        bus = await stack.enter_async_context(open_bus(where))
        store = await stack.enter_async_context(open_store(where, bus=bus, clock=clock, meters=observability.meters))
        models = await stack.enter_async_context(ModelRegistry(settings.get().providers, wrap=observability.model))
        agents = FolderAgents(folder, settings=settings.get, tool_names=tool_names)
        watcher = Watcher(bus=bus, events=store.events, leases=store.leases, clock=now)
        processes = await stack.enter_async_context(open_processes())
        tools = workspace_tools(folder, processes, settings.get(), options.tools)
        redact_logs(tools.redaction)
        methods = RemoteMethods(store.journal)
        mcp = await stack.enter_async_context(open_mcp(folder, processes, settings.get, store=store, agents=agents))
        platform = PlatformTools(store.runs, store.journal, store.values)
        executor = AgentExecutor(
            journal=observability.journal(store.journal),
            library=LocalLibrary(agents, store.files, store.interrupts),
            subagents=LocalSubagentRuns(store.runs, store.subscriptions, store.journal, store.values),
            remote=CombinedTools(platform, prefixed={REMOTE_METHOD_PREFIX: methods, MCP_TOOL_PREFIX: mcp}),
            models=models,
            tokens=EstimatedTokens(),
            clock=now,
            workspace=folder.path.name,
            tools=tools.tools,
            custom_tools=tools.custom_tools,
            redaction=tools.redaction,
            config=options.loop_config,
            middleware=observability.middleware,
        )
        workers = settings.get().workers if options.workers is None else options.workers
        engine = _make_engine(store, watcher, observability.executor(executor), now, options, workers=workers)
        await create_default_space(store)
        await stack.enter_async_context(engine.running())
        yield Holdfast(
            store=store,
            runs=RunControl(
                runs=store.runs,
                threads=store.threads,
                messages=store.messages,
                inbox=store.inbox,
                interrupts=store.interrupts,
                files=store.files,
                agents=agents,
                models=models,
            ),
            agents=agents,
            models=models,
            known_models=ListedModels(lambda: settings.get().providers),
            remote_methods=methods,
            settings=SettingsControl(
                WorkspaceSettingsFile(folder, settings, tool_names=tool_names), redaction=tools.redaction
            ),
            watcher=watcher,
            engine=engine,
            meters=observability.meters,
            default_agent=lambda: settings.get().default_agent,
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
    worker = None
    if workers:
        worker = Worker(
            executor=executor,
            leases=store.leases,
            runs=store.runs,
            events=store.events,
            watcher=watcher,
            owner=owner,
            concurrency=workers,
            lease=options.lease,
            heartbeat=options.heartbeat,
            drain=options.drain,
        )
    notifications = NotificationLoop(notifications=store.notifications, watcher=watcher)
    return Engine(watcher=watcher, timers=timers, notifications=notifications, worker=worker)


async def create_default_space(store: Store) -> None:
    """Create the default space of a workspace if it does not exist."""
    with suppress(IdTaken):
        await store.spaces.create(DEFAULT_SPACE, name="default")


@asynccontextmanager
async def open_keys(workspace: Path, *, database: str | None = None) -> AsyncIterator[KeyControl]:
    """Open the store of a workspace to manage its API keys without a server."""
    folder = Workspace(workspace)
    folder.prepare()
    try:
        async with open_store(database or folder.database) as store:
            await create_default_space(store)
            clock = SystemClock()
            yield KeyControl(store.api_keys, CachedKeyAuthenticator(store.api_keys, clock), clock)
    except StoreOwned as exc:
        raise StoreOwned("a server has this workspace open: use it with `--url`, or stop it") from exc
