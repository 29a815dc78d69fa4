"""The server: a workspace, its engine and the HTTP API in one process."""

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn

from holdfast.api.app import create_app
from holdfast.api.auth.middleware import AuthMiddleware
from holdfast.api.auth.rate_limit import RequestRateLimiter
from holdfast.api.middleware import LOOPBACK_HOSTS, HostOriginMiddleware
from holdfast.api.use_cases import UseCases
from holdfast.api.uvicorn_protocols import uvicorn_config
from holdfast.bootstrap.holdfast import PrincipalUseCases, make_live_streams
from holdfast.bootstrap.server_options import (
    WILDCARD_ADDRESSES,
    ServerOptions,
    check_database,
    check_host_name,
    check_origin,
    is_local,
    read_oidc_authenticator,
)
from holdfast.bootstrap.workspace import Holdfast, Options
from holdfast.bootstrap.workspace import open as open_workspace
from holdfast.concurrency import cancel_and_wait
from holdfast.control.principal import LOCAL_PRINCIPAL
from holdfast.control.run_logging import RunStatusLogger
from holdfast.domain.errors import Invalid, Unavailable
from holdfast.ports.spaces import ApiKeys

LISTEN_BACKLOG: Final = 2048
TCP_USER_TIMEOUT_SECONDS: Final = 60
"""Seconds after which a connection is dropped whose other end takes nothing."""
SHUTDOWN_GRACE_SECONDS: Final = 5
"""Seconds that open answers have to end when the server shuts down."""
GC_THRESHOLDS: Final = (10_000, 20, 20)
"""How many new objects make the garbage collector look: a run makes hundreds, and most go without its help."""


async def serve(options: ServerOptions, *, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `tell` is called with the address once requests are answered."""
    local = is_local(options.host)
    check_database(options.database)
    origins = [check_origin(origin) for origin in options.cors_origins]
    hosts = LOOPBACK_HOSTS | {_url_host(options.host), *map(check_host_name, options.allowed_hosts)}
    rates = RequestRateLimiter(options.rate_limit)
    people = None if options.oidc is None else read_oidc_authenticator(options.oidc)
    engine = Options(workers=options.workers)
    with open_listener(options.host, options.port) as listener:
        async with open_workspace(options.workspace, database=options.database, options=engine) as holdfast:
            holdfast.agents.broken()  # each is logged when it is first looked at, and that should be now
            await _check_keys_exist(options.host, holdfast.store.api_keys, local=local or people is not None)
            async with make_live_streams(holdfast) as feeds, _run_status_logging(holdfast):
                controls = PrincipalUseCases(
                    holdfast,
                    feeds,
                    version=options.version,
                    default_agent=holdfast.default_agent,
                    max_queued_runs=options.queue_depth,
                )
                control = controls.as_principal(LOCAL_PRINCIPAL)
                door = AuthMiddleware(
                    controls.as_principal,
                    controls.authenticator,
                    oidc=people,
                    require_key=not local,
                    rate_limiter=rates,
                )
                async with door:
                    app = HostOriginMiddleware(
                        create_app(control, auth=door),
                        hosts=hosts,
                        allow_ip_hosts=options.host in WILDCARD_ADDRESSES,
                        origins=origins,
                        meters=holdfast.meters,
                    )
                    server = _Server(app, tell=lambda: on_ready(_listener_url(listener)))
                    with _stop_on_signals(server, holdfast, control):
                        await server.serve(sockets=[listener])


@contextmanager
def open_listener(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket that listens."""
    # The protocol is named, because asyncio sends small pieces at once only on a socket that says it is TCP: otherwise
    # each answer waits 40 ms for an acknowledgement.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        if sys.platform == "linux":  # connections inherit it; a reader that is cut off may never take what is left
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, TCP_USER_TIMEOUT_SECONDS * 1000)
        try:
            listener.bind((host, port))
            listener.listen(LISTEN_BACKLOG)
        except OSError as exc:
            raise Unavailable(f"cannot listen on {host}:{port}: {exc.strerror or exc}") from exc
        yield listener


async def _check_keys_exist(host: str, keys: ApiKeys, *, local: bool) -> None:
    """Raise if others could reach a server that has no key to tell them apart."""
    if not local and not await keys.any():
        hint = "make a key first, with `holdfast key create NAME`"
        raise Invalid(f"`{host}` can be reached from outside, and there are no keys: {hint}", field="host")


class _Server(uvicorn.Server):
    """A server that leaves signals to others, and tells when it answers."""

    def __init__(self, app: HostOriginMiddleware, *, tell: Callable[[], None]) -> None:
        self._tell = tell
        super().__init__(uvicorn_config(app, shutdown_grace_seconds=SHUTDOWN_GRACE_SECONDS))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        _tune_garbage_collector()
        self._tell()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them alone."""
        yield


def _tune_garbage_collector() -> None:
    """Let the garbage collector leave alone what lives as long as the server, instead of looking through it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


@contextmanager
def _stop_on_signals(server: _Server, holdfast: Holdfast, control: UseCases) -> Iterator[None]:
    """Let a signal begin the end: no new work, runs go back to the queue, answers are finished. A second hurries."""

    def stop() -> None:
        control.health.close()
        control.streams.close()
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
async def _run_status_logging(holdfast: Holdfast) -> AsyncIterator[None]:
    log = RunStatusLogger(events=holdfast.store.events, runs=holdfast.store.runs)
    with holdfast.watcher.listen(log.on_wake):
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(log.run())
            yield
            await cancel_and_wait([writing])


def _listener_url(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://{_url_host(host)}:{port}"


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
