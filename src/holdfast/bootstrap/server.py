"""The server: a workspace, its engine, and the API in one process."""

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
from holdfast.api.auth.door import Door
from holdfast.api.auth.rates import Rates
from holdfast.api.gate import LOOPBACK, Gate
from holdfast.api.http import uvicorn_config
from holdfast.bootstrap.server_options import (
    EVERYWHERE,
    ServerOptions,
    check_database,
    check_host_name,
    check_origin,
    is_local,
    read_people,
)
from holdfast.bootstrap.use_cases import Controls, feeds_of
from holdfast.bootstrap.workspace import Holdfast, Options
from holdfast.bootstrap.workspace import open as open_workspace
from holdfast.concurrency import cancel_and_wait
from holdfast.control.control import Control
from holdfast.control.keys.asker import LOCAL
from holdfast.control.run_log import RunLog
from holdfast.domain.errors import Invalid, Unavailable
from holdfast.ports.spaces import ApiKeys

BACKLOG: Final = 2048
STUCK: Final = 60
"""Seconds after which a connection is dropped whose other end takes nothing."""
LAST_WORDS: Final = 5
"""Seconds that open answers have to end when the server shuts down."""
COLLECT_AFTER: Final = (10_000, 20, 20)
"""How many new objects make the garbage collector look: a run makes hundreds, and most go without its help."""


async def serve(options: ServerOptions, *, tell: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `tell` is called with the address once requests are answered."""
    local = is_local(options.host)
    check_database(options.database)
    origins = [check_origin(origin) for origin in options.cors_origins]
    hosts = LOOPBACK | {_named(options.host), *map(check_host_name, options.allowed_hosts)}
    rates = Rates(options.rate_limit)
    people = None if options.oidc is None else read_people(options.oidc)
    engine = Options(workers=options.workers)
    with listening(options.host, options.port) as listener:
        async with open_workspace(options.workspace, database=options.database, options=engine) as holdfast:
            holdfast.agents.broken()  # each is logged when it is first looked at, and that should be now
            await _check_keys(options.host, holdfast.store.api_keys, local=local or people is not None)
            async with feeds_of(holdfast) as feeds, _logged(holdfast):
                controls = Controls(
                    holdfast,
                    feeds,
                    version=options.version,
                    default_agent=holdfast.default_agent,
                    most_queued=options.queue_depth,
                )
                control = controls.of(LOCAL)
                door = Door(controls.of, controls.ring, people=people, always=not local, rates=rates)
                async with door:
                    app = Gate(
                        create_app(control, door=door),
                        hosts=hosts,
                        addresses=options.host in EVERYWHERE,
                        origins=origins,
                        meters=holdfast.meters,
                    )
                    server = _Server(app, tell=lambda: tell(_address(listener)))
                    with _stopped_by_signals(server, holdfast, control):
                        await server.serve(sockets=[listener])


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket that listens."""
    # The protocol is named, because asyncio sends small pieces at once only on a socket that says it is TCP: otherwise
    # each answer waits 40 ms for an acknowledgement.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        if sys.platform == "linux":  # connections inherit it; a reader that is cut off may never take what is left
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STUCK * 1000)
        try:
            listener.bind((host, port))
            listener.listen(BACKLOG)
        except OSError as exc:
            raise Unavailable(f"cannot listen on {host}:{port}: {exc.strerror or exc}") from exc
        yield listener


async def _check_keys(host: str, keys: ApiKeys, *, local: bool) -> None:
    """Raise if others could reach a server that has no key to tell them apart."""
    if not local and not await keys.any():
        hint = "make a key first, with `holdfast key create NAME`"
        raise Invalid(f"`{host}` can be reached from outside, and there are no keys: {hint}", field="host")


class _Server(uvicorn.Server):
    """A server that leaves signals to others, and tells when it answers."""

    def __init__(self, app: Gate, *, tell: Callable[[], None]) -> None:
        self._tell = tell
        super().__init__(uvicorn_config(app, last_words=LAST_WORDS))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        _settle_memory()
        self._tell()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them alone."""
        yield


def _settle_memory() -> None:
    """Let the garbage collector leave alone what lives as long as the server, instead of looking through it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


@contextmanager
def _stopped_by_signals(server: _Server, holdfast: Holdfast, control: Control) -> Iterator[None]:
    """Let a signal begin the end: no new work, runs go back to the queue, answers are finished. A second hurries."""

    def stop() -> None:
        control.health.close()
        control.feeds.close()
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
async def _logged(holdfast: Holdfast) -> AsyncIterator[None]:
    log = RunLog(events=holdfast.store.events, runs=holdfast.store.runs)
    with holdfast.watcher.listen(log.hear):
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(log.run())
            yield
            await cancel_and_wait([writing])


def _address(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://{_named(host)}:{port}"


def _named(host: str) -> str:
    return f"[{host}]" if ":" in host else host
