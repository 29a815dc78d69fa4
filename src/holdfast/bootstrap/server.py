"""The server: a workspace, its engine and the HTTP API in one process."""

import asyncio
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn

from holdfast.api.auth.rate_limit import RequestRateLimiter
from holdfast.api.compression import CompressionMiddleware
from holdfast.api.middleware import LOOPBACK_HOSTS, HostOriginMiddleware
from holdfast.api.use_cases import UseCases
from holdfast.api.uvicorn_protocols import uvicorn_config
from holdfast.bootstrap.api_app import open_api
from holdfast.bootstrap.loop_watchdog import watch_event_loop
from holdfast.bootstrap.server_options import (
    WILDCARD_ADDRESSES,
    ServerOptions,
    check_bus,
    check_database,
    check_host_name,
    check_origin,
    is_local,
    read_oidc_authenticator,
)
from holdfast.bootstrap.workspace import OpenWorkspace, Options, limit_garbage_collection, open_workspace
from holdfast.concurrency import cancel_and_wait
from holdfast.console.shelf import ConsoleShelf
from holdfast.control.run_logging import RunStatusLogger
from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.worker import check_pools
from holdfast.rpc.server import ControlRpc
from holdfast.workspace.server_address import published_address

LISTEN_BACKLOG: Final = 2048
MAX_FILES: Final = 65_536
"""File descriptors that the server asks for."""
TCP_USER_TIMEOUT_SECONDS: Final = 60
"""Time after which a connection is dropped if the peer acknowledges nothing."""
SHUTDOWN_GRACE_SECONDS: Final = 5
"""Time for open responses to finish when the server shuts down."""


async def serve(options: ServerOptions, *, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `on_ready` is called with the URL once the server accepts requests."""
    local = is_local(options.host)
    check_database(options.database)
    check_bus(options.bus, database=options.database)
    origins = [check_origin(origin) for origin in options.cors_origins]
    hosts = LOOPBACK_HOSTS | {_url_host(options.host), *map(check_host_name, options.allowed_hosts)}
    rate_limiter = RequestRateLimiter(options.rate_limit)
    oidc = None if options.oidc is None else read_oidc_authenticator(options.oidc)
    engine = Options(workers=options.workers, pools=check_pools(options.pools), bus=options.bus)
    with open_listener(options.host, options.port) as listener:
        async with open_workspace(options.workspace, database=options.database, options=engine) as holdfast:
            holdfast.agents.broken()  # the first poll logs every broken agent
            if not local and oidc is None and not await holdfast.store.api_keys.any():
                remedy = "create a key first, with `holdfast key create NAME`"
                raise Invalid(
                    f"`{options.host}` is reachable from outside, and there are no keys: {remedy}", field="host"
                )
            api = open_api(
                holdfast,
                require_key=not local,
                oidc=oidc,
                rate_limiter=rate_limiter,
                max_queued_runs=options.queue_depth,
            )
            async with api as (api_app, use_cases, keys), _run_status_logging(holdfast):
                rpc = ControlRpc(
                    ConsoleShelf(CompressionMiddleware(api_app)),
                    leases=holdfast.store.leases,
                    worker_leases=holdfast.store.worker_leases,
                    workers=holdfast.store.workers,
                    ports=holdfast.ports,
                    keys=keys,
                    watcher=holdfast.watcher,
                    require_key=not local,
                )
                app = HostOriginMiddleware(
                    rpc,
                    hosts=hosts,
                    allow_ip_hosts=options.host in WILDCARD_ADDRESSES,
                    origins=origins,
                    meters=holdfast.meters,
                )
                host, port, *_ = listener.getsockname()
                url = f"http://{_url_host(host)}:{port}"
                server = _Server(app, on_ready=lambda: on_ready(url))
                with (
                    published_address(options.workspace, url),
                    watch_event_loop(holdfast.meters.loop_stalls),
                    _stop_on_signals(server, holdfast, use_cases, rpc),
                ):
                    await server.serve(sockets=[listener])
                    await holdfast.engine.wait_until_drained()


@contextmanager
def open_listener(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a listening socket."""
    # asyncio sets TCP_NODELAY only on a socket with an explicit TCP protocol: without it each response waits 40 ms for
    # an acknowledgement.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        if sys.platform == "linux":  # inherited by connections; a dead client never acknowledges data
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, TCP_USER_TIMEOUT_SECONDS * 1000)
        try:
            listener.bind((host, port))
            listener.listen(LISTEN_BACKLOG)
        except OSError as exc:
            remedy = "choose another address with `--host` or `--port`"
            raise Unavailable(f"cannot listen on {host}:{port} ({exc.strerror or exc}): {remedy}") from exc
        yield listener


def raise_file_limit() -> int:
    """Raise the limit of file descriptors as far as this process may, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        return limit
    return MAX_FILES if soft == resource.RLIM_INFINITY else soft


class _Server(uvicorn.Server):
    """A uvicorn server that installs no signal handlers and reports when it is ready."""

    def __init__(self, app: HostOriginMiddleware, *, on_ready: Callable[[], None]) -> None:
        self._on_ready = on_ready
        grace_seconds = SHUTDOWN_GRACE_SECONDS
        super().__init__(uvicorn_config(app, shutdown_grace_seconds=grace_seconds, max_files=raise_file_limit()))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept requests."""
        await super().startup(sockets)
        limit_garbage_collection()
        self._on_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no handlers."""
        yield


@contextmanager
def _stop_on_signals(server: _Server, holdfast: OpenWorkspace, use_cases: UseCases, rpc: ControlRpc) -> Iterator[None]:
    """Shut down on a signal: no new work, runs return to the queue, responses finish. A second signal exits at once."""

    def stop() -> None:
        use_cases.health.close()
        use_cases.streams.close()
        rpc.close()
        holdfast.engine.drain()
        server.force_exit = server.should_exit
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@asynccontextmanager
async def _run_status_logging(holdfast: OpenWorkspace) -> AsyncIterator[None]:
    logger = RunStatusLogger(events=holdfast.store.events, runs=holdfast.store.runs)
    with holdfast.watcher.listen(logger.on_wake):
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(logger.run())
            yield
            await cancel_and_wait([task])
            await logger.flush()


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
