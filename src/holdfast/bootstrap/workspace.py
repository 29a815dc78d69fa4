"""Opening a workspace: its store, agents, tools and engine, wired together."""

import gc
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec

import holdfast
from holdfast.agent.context.tokens import EstimatedTokens
from holdfast.agent.loop import AgentExecutor
from holdfast.agent.run_context import LoopConfig
from holdfast.bootstrap.logs import redact_logs
from holdfast.bootstrap.memory import WorkspaceRecall
from holdfast.bootstrap.observability import Observability, Tracer, open_observability
from holdfast.bootstrap.store import SystemClock, is_postgres, lease_opener, open_bus, open_store
from holdfast.bootstrap.workspace_tools import WorkspaceTools, known_tool_names, listed_tools, open_mcp, workspace_tools
from holdfast.concurrency import cancel_and_wait, start_background
from holdfast.control.api_keys import CachedKeyAuthenticator, KeyControl
from holdfast.control.daemons import DAEMON_SYNC_SECONDS, DaemonSync
from holdfast.control.local_runtime import LocalFolderSnapshots, LocalLibrary, LocalMemoryLibrary, LocalSubagentRuns
from holdfast.control.memory_files import FolderMemoryFiles
from holdfast.control.platform_tools import CombinedTools, PlatformTools
from holdfast.control.reminders import ReminderControl, ReminderTools
from holdfast.control.remote_methods import RemoteMethods
from holdfast.control.runs import RunControl
from holdfast.control.schedules import SCHEDULE_TIMER, FiringControl
from holdfast.control.settings import SettingsControl
from holdfast.control.skills import SkillShelf
from holdfast.domain.errors import IdTaken, Invalid, StoreOwned
from holdfast.domain.ids import OwnerId, SpaceId
from holdfast.domain.mcp_server import MCP_TOOL_PREFIX
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.tool import REMOTE_METHOD_PREFIX, ToolSpec
from holdfast.domain.worker import DEFAULT_POOL, ClaimFilter, NewWorker, check_pools
from holdfast.engine.engine import BackgroundLoop, Engine, NotificationLoop
from holdfast.engine.leases import OpenLeases
from holdfast.engine.loops import run_every
from holdfast.engine.timers import TimerAction, TimerLoop
from holdfast.engine.watcher import Watcher
from holdfast.engine.webhooks import WebhookLoop
from holdfast.engine.worker import (
    DEFAULT_DRAIN_TIMEOUT,
    DEFAULT_HEARTBEAT_INTERVAL,
    DEFAULT_LEASE,
    Worker,
    announce_worker,
)
from holdfast.metrics.meters import Meters
from holdfast.models.packages import check_agent_packages
from holdfast.models.registry import ListedModels, ModelRegistry
from holdfast.ports.memory import Recall
from holdfast.ports.model import KnownModels, Models
from holdfast.ports.runtime import Clock, Executor, RuntimePorts
from holdfast.ports.tools import WorkingFolders
from holdfast.ports.workspace import AgentDefinitions, AgentFiles
from holdfast.sandbox.processes import open_processes
from holdfast.store.store import Store
from holdfast.tools.files.snapshots import WorkerFolders
from holdfast.tools.function_tool import check_tool
from holdfast.tools.tool import Tool
from holdfast.tools.web.client import GuardedResolver, WebClient
from holdfast.workspace.agent_writer import WorkspaceAgentFiles
from holdfast.workspace.agents import FolderAgents
from holdfast.workspace.code_agents import CodeAgent
from holdfast.workspace.folder import Workspace
from holdfast.workspace.function_tools import REFRESH_SECONDS
from holdfast.workspace.settings import FolderSettings
from holdfast.workspace.settings_file import WorkspaceSettingsFile
from holdfast.workspace.skills import WorkspaceSkills
from holdfast.workspace.space_agents import SpaceAgentDefinitions
from holdfast.workspace.versions import SYNC_SECONDS, VersionedAgents


class OpenWorkspace(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An open workspace: its store, its agents, and the engine that runs them."""

    store: Store
    ports: RuntimePorts
    recall: Recall
    runs: RunControl
    firing: FiringControl
    web_addresses: GuardedResolver
    agents: VersionedAgents
    agent_definitions: AgentDefinitions
    agent_files: AgentFiles
    models: Models
    known_models: KnownModels
    working_folders: WorkingFolders
    remote_methods: RemoteMethods
    tools: Callable[[SpaceId], Iterator[tuple[str, ToolSpec]]]
    """The tools of a space, each with the name of its source."""
    settings: SettingsControl
    skills: SkillShelf
    watcher: Watcher
    engine: Engine
    meters: Meters
    default_agent: Callable[[], str | None]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the engine; the defaults come from the settings of the workspace."""

    workers: int | None = None
    """Concurrent runs in this process; 0 starts no worker."""
    pools: Sequence[str] = (DEFAULT_POOL,)
    """The pools that they are claimed from."""
    lease: timedelta = DEFAULT_LEASE
    heartbeat: timedelta = DEFAULT_HEARTBEAT_INTERVAL
    drain: timedelta = DEFAULT_DRAIN_TIMEOUT
    loop_config: LoopConfig = LoopConfig()
    tools: Sequence[Tool] = ()
    """Additional tools of this process."""
    agents: Sequence[CodeAgent] = ()
    """Agents of this process, beside those in the folder; their tools are added to `tools`."""
    bus: str | None = None
    """The URL of a NATS server; without it the bus is that of the database."""
    tracing: Tracer | None = None
    """Emits spans, instead of the tracing that the settings configure."""


@asynccontextmanager
async def open_workspace(
    workspace: str | Path,
    *,
    database: str | Path | None = None,
    options: Options | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[OpenWorkspace]:
    """Open a workspace, and run its agents until the block ends; `holdfast.open` is this with the Python API.

    The store is the SQLite file of the workspace, or the given `database`.
    """
    folder = Workspace(workspace)
    folder.prepare()
    options = options or Options()
    where, now = database or folder.database, clock or SystemClock()
    process_tools = _process_tools(options)
    tool_names = known_tool_names(folder, process_tools)
    settings = FolderSettings(folder, tool_names=tool_names)
    workers = settings.get().workers if options.workers is None else options.workers
    async with AsyncExitStack() as stack:
        observability = await stack.enter_async_context(
            open_observability(settings.get().telemetry, tracing=options.tracing)
        )
        bus = await stack.enter_async_context(open_bus(where, url=options.bus))
        store = await stack.enter_async_context(open_store(where, bus=bus, clock=clock, meters=observability.meters))
        models = await stack.enter_async_context(
            ModelRegistry(
                settings.get().providers, direct_lane_off=settings.get().direct_lane_off, wrap=observability.model
            )
        )
        folder_skills = WorkspaceSkills(folder)
        agents, definitions, agent_files = _open_agents(
            folder, settings, store, folder_skills, options, tool_names=tool_names, calls_models=workers > 0
        )
        skills = SkillShelf(folder_skills, store.skills, scripts_folder=folder.data_folder / "skills")
        watcher = Watcher(bus=bus, events=store.events, leases=store.leases, clock=now)
        processes = await stack.enter_async_context(open_processes())
        tools = workspace_tools(folder, processes, settings.get(), process_tools)
        redact_logs(tools.redaction)
        await tools.functions.refresh()
        methods = RemoteMethods(store.journal)
        mcp = await stack.enter_async_context(open_mcp(folder, processes, settings.get, store=store, agents=agents))
        runs = RunControl(
            runs=store.runs,
            threads=store.threads,
            messages=store.messages,
            interrupts=store.interrupts,
            requests=store.requests,
            files=store.files,
            agents=agents,
            models=models,
            calls_models=workers > 0,
        )
        firing = FiringControl(
            schedules=store.schedules,
            reminders=store.reminders,
            requests=store.requests,
            runs=runs,
            threads=store.threads,
            agents=agents,
            default_agent=lambda: settings.get().default_agent,
        )
        recall = WorkspaceRecall(
            store,
            settings.get().recall,
            folder=folder.path,
            redact=tools.redaction.text,
            clock=now,
            watcher=watcher,
            models=models,
        )
        ports = RuntimePorts(
            journal=store.journal,
            library=LocalLibrary(agents, agents, store.files, store.artifacts, store.grants, store.reminders, skills),
            memory=LocalMemoryLibrary(
                store.memories,
                store.memory_graph,
                store.messages,
                recall.search,
                FolderMemoryFiles(tools.folders, now),
                tools.redaction.text,
            ),
            subagents=LocalSubagentRuns(store.runs, store.subscriptions, store.journal, store.values),
            remote=CombinedTools(
                _platform_tools(store, firing, now),
                prefixed={REMOTE_METHOD_PREFIX: methods, MCP_TOOL_PREFIX: mcp},
            ),
            folders=LocalFolderSnapshots(store.folders, agents, store.journal),
        )
        executor = make_executor(
            ports, folder, tools, models=models, clock=now, config=options.loop_config, observability=observability
        )
        daemons = DaemonSync(schedules=store.schedules, agents=agents, space=DEFAULT_SPACE)
        engine = _make_engine(
            store,
            watcher,
            executor,
            now,
            options,
            workers=workers,
            meters=observability.meters,
            actions={SCHEDULE_TIMER: firing.fire},
            loops=[
                lambda: run_every("synchronising versions of agents", agents.sync, seconds=SYNC_SECONDS),
                lambda: run_every("synchronising daemons", daemons.sync, seconds=DAEMON_SYNC_SECONDS),
                lambda: run_every("loading function tools", tools.functions.refresh, seconds=REFRESH_SECONDS),
                recall.run,
                recall.run_outlines,
                WebhookLoop(
                    webhooks=store.webhooks, http=WebClient(tools.web_addresses), watcher=watcher, clock=now
                ).run,
            ],
            open_leases=lease_opener(where, clock=clock) if is_postgres(where) else None,
        )
        await create_default_space(store)
        await stack.enter_async_context(_running(engine, models, agents))
        yield OpenWorkspace(
            store=store,
            ports=ports,
            recall=recall.search,
            runs=runs,
            firing=firing,
            web_addresses=tools.web_addresses,
            agents=agents,
            agent_definitions=definitions,
            agent_files=agent_files,
            models=models,
            working_folders=tools.folders,
            known_models=ListedModels(lambda: settings.get().providers),
            remote_methods=methods,
            tools=lambda space: listed_tools(space, tools, methods, mcp),
            settings=SettingsControl(
                WorkspaceSettingsFile(folder, settings, tool_names=tool_names), redaction=tools.redaction
            ),
            skills=skills,
            watcher=watcher,
            engine=engine,
            meters=observability.meters,
            default_agent=lambda: settings.get().default_agent,
        )


def _open_agents(
    folder: Workspace,
    settings: FolderSettings,
    store: Store,
    skills: WorkspaceSkills,
    options: Options,
    *,
    tool_names: Collection[str],
    calls_models: bool,
) -> tuple[VersionedAgents, SpaceAgentDefinitions, WorkspaceAgentFiles]:
    """Return the agents, and what changes those of spaces and of the workspace."""

    def check_models(names: Sequence[str]) -> None:
        if calls_models:
            check_agent_packages(names, settings.get().providers)

    files = FolderAgents(
        folder,
        settings=settings.get,
        tool_names=tool_names,
        check_models=check_models,
        in_code=[agent.source(folder) for agent in options.agents],
    )
    versions = store.agent_versions
    definitions = SpaceAgentDefinitions(
        folder, versions, settings=settings.get, tool_names=tool_names, check_models=check_models
    )
    agent_files = WorkspaceAgentFiles(
        folder, files, versions, settings=settings.get, tool_names=tool_names, check_models=check_models
    )
    return VersionedAgents(folder, files, versions, skills=skills), definitions, agent_files


def make_executor(
    ports: RuntimePorts,
    folder: Workspace,
    tools: WorkspaceTools,
    *,
    models: Models,
    clock: Clock,
    config: LoopConfig,
    observability: Observability,
    worker_folders: WorkerFolders | None = None,
) -> Executor:
    """Return the executor of a process, whose local tools are those of its workspace folder."""
    return observability.executor(
        AgentExecutor(
            journal=observability.journal(ports.journal),
            library=ports.library,
            memory=ports.memory,
            subagents=ports.subagents,
            remote=ports.remote,
            models=models,
            tokens=EstimatedTokens(),
            clock=clock,
            workspace=folder.path.name,
            tools=tools.tools,
            folders=tools.folders,
            custom_tools=tools.tools_of_agent,
            redaction=tools.redaction,
            config=config,
            middleware=observability.middleware,
            worker_folders=worker_folders,
        )
    )


def _platform_tools(store: Store, firing: FiringControl, clock: Clock) -> PlatformTools:
    reminders = ReminderControl(
        reminders=store.reminders,
        schedules=store.schedules,
        threads=store.threads,
        firing=firing,
        requests=store.requests,
        clock=clock,
    )
    tools = ReminderTools(control=reminders, reminders=store.reminders, values=store.values)
    return PlatformTools(store.runs, store.journal, store.values, reminders=tools)


@asynccontextmanager
async def _running(engine: Engine, models: Models, agents: VersionedAgents) -> AsyncIterator[None]:
    """Publish the agents, and run the engine.

    The libraries of their providers are imported in a thread: the first call should not wait for them.
    """
    await agents.sync()
    names = dict.fromkeys(name for agent in agents.all() for name in agent.models)
    async with engine.running():
        task = start_background(models.prepare(list(names)), name="holdfast-provider-imports", ended_by="_running")
        try:
            yield
        finally:
            await cancel_and_wait([task])


def _make_engine(
    store: Store,
    watcher: Watcher,
    executor: Executor,
    clock: Clock,
    options: Options,
    *,
    workers: int,
    meters: Meters,
    actions: Mapping[str, TimerAction],
    loops: Sequence[BackgroundLoop],
    open_leases: OpenLeases | None,
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
        actions=actions,
        lease=options.lease,
    )
    worker = None
    meters.workers.of().add(workers)
    if not workers:  # a worker does this too
        sweep = store.leases.expire
        loops = [
            *loops,
            lambda: run_every("releasing expired leases", sweep, seconds=options.heartbeat.total_seconds()),
        ]
    else:
        pools = check_pools(options.pools)
        me = this_process(owner, concurrency=workers, pools=pools)
        loops = [*loops, lambda: announce_worker(store.workers, me)]
        worker = Worker(
            executor=executor,
            leases=store.leases,
            watcher=watcher,
            owner=owner,
            concurrency=workers,
            where=ClaimFilter(pools=pools),
            lease=options.lease,
            heartbeat=options.heartbeat,
            drain=options.drain,
            open_leases=open_leases,
        )
    notifications = NotificationLoop(notifications=store.notifications, watcher=watcher)
    return Engine(watcher=watcher, timers=timers, notifications=notifications, worker=worker, loops=loops)


def this_process(owner: OwnerId, *, concurrency: int, pools: Sequence[str]) -> NewWorker:
    """Return what this process tells about itself as a worker."""
    host, version = socket.gethostname(), holdfast.__version__
    return NewWorker(id=owner, host=host, pid=os.getpid(), version=version, concurrency=concurrency, pools=pools)


GC_THRESHOLDS: Final = (10_000, 20, 20)
"""Fewer collections than by default: a run allocates many objects, and most are freed by reference counting."""


def limit_garbage_collection() -> None:
    """Collect less often, and never what is there now, because it lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def _process_tools(options: Options) -> list[Tool]:
    """Return the tools of this process; the same one may be named more than once, but not two of one name."""
    tools: dict[str, Tool] = {}
    for tool in (*options.tools, *(tool for agent in options.agents for tool in agent.tools)):
        if tools.setdefault(check_tool(tool).spec.name, tool) is not tool:
            raise Invalid(f"two tools are named `{tool.spec.name}`: rename one of them", field="tools")
    return list(tools.values())


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
