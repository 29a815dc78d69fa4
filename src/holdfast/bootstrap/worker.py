"""A worker without a database: it executes runs of a control plane, and reaches it over the control RPC only."""

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final, cast

import msgspec

from holdfast.agent.run_context import LoopConfig
from holdfast.bootstrap.logs import redact_logs
from holdfast.bootstrap.observability import open_observability
from holdfast.bootstrap.store import SystemClock
from holdfast.bootstrap.worker_library import WorkerLibrary
from holdfast.bootstrap.workspace import limit_garbage_collection, make_executor, this_process
from holdfast.bootstrap.workspace_tools import known_tool_names, workspace_tools
from holdfast.bus.local import LocalBus
from holdfast.concurrency import cancel_and_wait
from holdfast.domain.ids import OwnerId, RunId, SpaceId
from holdfast.domain.worker import DEFAULT_POOL, ClaimFilter, check_pools
from holdfast.engine.watcher import Watcher
from holdfast.engine.worker import (
    DEFAULT_DRAIN_TIMEOUT,
    DEFAULT_HEARTBEAT_INTERVAL,
    DEFAULT_LEASE,
    Worker,
    announce_worker,
)
from holdfast.models.registry import ModelRegistry
from holdfast.ports.log import LoggedEvent, LogHead
from holdfast.ports.queue import Leases
from holdfast.ports.runtime import Library
from holdfast.rpc.client import LeaseTokens, open_ports
from holdfast.rpc.protocol import RECONNECT_GRACE_SECONDS
from holdfast.sandbox.processes import open_processes
from holdfast.sandbox.working_folders import WorkspaceFolders
from holdfast.tools.files.snapshots import WorkerFolders
from holdfast.workspace.folder import Workspace
from holdfast.workspace.settings import FolderSettings

DEFAULT_CONCURRENCY: Final = 16


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `holdfast worker`."""

    url: str
    token: str | None
    folder: Path
    """The worker's own settings, tools and working folders."""
    concurrency: int = DEFAULT_CONCURRENCY
    pools: Sequence[str] = (DEFAULT_POOL,)
    lease: timedelta = DEFAULT_LEASE
    heartbeat: timedelta = DEFAULT_HEARTBEAT_INTERVAL
    drain: timedelta = DEFAULT_DRAIN_TIMEOUT


async def run_worker(options: WorkerOptions, *, on_ready: Callable[[], None]) -> None:
    """Execute runs until SIGTERM or SIGINT, then drain; a second signal cancels the active runs."""
    async with open_worker(options) as worker:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.drain)
        limit_garbage_collection()
        on_ready()
        await worker.run()


@asynccontextmanager
async def open_worker(options: WorkerOptions) -> AsyncIterator[Worker]:
    """Yield a worker that is ready to run. A control plane that cannot be used raises the reason."""
    pools = check_pools(options.pools)
    (options.folder / "agents").mkdir(parents=True, exist_ok=True)
    folder = Workspace(options.folder)
    folder.prepare()
    settings = FolderSettings(folder, tool_names=known_tool_names(folder, ()))
    clock, tokens, bus = SystemClock(), LeaseTokens(), LocalBus()
    async with AsyncExitStack() as stack:
        observability = await stack.enter_async_context(open_observability(settings.get().telemetry))
        ports = await stack.enter_async_context(open_ports(options.url, options.token, tokens=tokens))
        await ports.leases.check_pools(pools)  # a wrong URL, key, version or pool ends here
        models = await stack.enter_async_context(
            ModelRegistry(
                settings.get().providers, direct_lane_off=settings.get().direct_lane_off, wrap=observability.model
            )
        )
        processes = await stack.enter_async_context(open_processes())
        tools = workspace_tools(folder, processes, settings.get(), ())
        redact_logs(tools.redaction)
        await tools.functions.refresh()

        @asynccontextmanager
        async def open_leases() -> AsyncIterator[Leases]:
            async with open_ports(options.url, options.token, tokens=tokens) as own:
                yield own.leases

        folders = WorkerFolders(WorkspaceFolders(folder.path), ports.runtime.folders, data_folder=folder.data_folder)
        owner = OwnerId(f"{os.getpid()}-{secrets.token_hex(8)}")
        watcher = Watcher(bus=bus, events=_NoEvents(), leases=ports.leases, clock=clock)
        worker = Worker(
            executor=make_executor(
                msgspec.structs.replace(
                    ports.runtime, library=cast(Library, WorkerLibrary(ports.runtime.library, folder))
                ),
                folder,
                tools,
                models=models,
                clock=clock,
                config=LoopConfig(),
                observability=observability,
                worker_folders=folders,
            ),
            leases=ports.leases,
            watcher=watcher,
            owner=owner,
            concurrency=options.concurrency,
            where=ClaimFilter(pools=pools),
            lease=options.lease,
            heartbeat=options.heartbeat,
            drain=options.drain,
            max_unrenewed=timedelta(seconds=RECONNECT_GRACE_SECONDS),
            open_leases=open_leases,
        )
        async with asyncio.TaskGroup() as tasks:
            me = this_process(owner, concurrency=options.concurrency, pools=pools)
            running = (
                watcher.run(),
                ports.connection.relay_hints(bus, worker=owner),
                announce_worker(ports.leases, me),
            )
            loops = [tasks.create_task(each) for each in running]
            try:
                yield worker
            finally:
                await cancel_and_wait(loops)


class _NoEvents:
    """`EventLog` of a process that follows no run."""

    async def after(
        self, space: SpaceId, run: RunId, *, seq: int = 0, limit: int = 1000, types: Sequence[str] | None = None
    ) -> list[LoggedEvent]:
        """Return nothing."""
        return []

    async def heads(self, runs: Sequence[tuple[SpaceId, RunId]]) -> list[LogHead]:
        """Return nothing."""
        return []
