"""The server: a workspace, its engine, and the API in one process."""

import asyncio
import gc
import ipaddress
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
import uvicorn

from holdfast.api.app import create_app
from holdfast.api.gate import LOOPBACK, Gate
from holdfast.api.http import uvicorn_config
from holdfast.bootstrap.use_cases import control_of, feeds_of
from holdfast.bootstrap.workspace import Holdfast, Options
from holdfast.bootstrap.workspace import open as open_workspace
from holdfast.control.control import Control
from holdfast.control.run_log import RunLog
from holdfast.domain.errors import Invalid, Unavailable
from holdfast.engine.stopping import stop
from holdfast.workspace.folder import Workspace
from holdfast.workspace.settings import FolderSettings

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 5050
BACKLOG: Final = 2048
STUCK: Final = 60
"""Seconds after which a connection is dropped whose other end takes nothing."""
LAST_WORDS: Final = 5
"""Seconds that open answers have to end when the server shuts down."""
COLLECT_AFTER: Final = (10_000, 20, 20)
"""How many new objects make the garbage collector look: a run makes hundreds, and most go without its help."""


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a server serves, and where."""

    workspace: Path
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    """0 takes one that is free."""
    database: str | None = None
    workers: int | None = None
    cors_origins: Sequence[str] = ()
    version: str = ""


async def serve(options: ServerOptions, *, tell: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `tell` is called with the address once requests are answered."""
    check_host(options.host)
    check_database(options.database)
    origins = [check_origin(origin) for origin in options.cors_origins]
    engine = Options(workers=options.workers)
    with listening(options.host, options.port) as listener:
        async with open_workspace(options.workspace, database=options.database, options=engine) as holdfast:
            settings = FolderSettings(Workspace(options.workspace))
            async with feeds_of(holdfast) as feeds, _logged(holdfast):
                control = control_of(
                    holdfast, feeds, version=options.version, default_agent=lambda: settings.get().default_agent
                )
                app = Gate(create_app(control), hosts=LOOPBACK | {_named(options.host)}, origins=origins)
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


def check_host(host: str) -> None:
    """Raise unless only this machine can reach `host`: there are no keys yet to tell others apart."""
    try:
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise Invalid(f"`{host}` can be reached from outside, and there are no keys yet: use 127.0.0.1", field="host")


def check_origin(origin: str) -> str:
    """Return `origin` if a browser may send it so."""
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.hostname or origin != f"{parts.scheme}://{parts.netloc}":
        raise Invalid(f"`{origin}` is no origin: write it like `http://localhost:3000`", field="cors_origin")
    return origin


def check_database(database: str | None) -> None:
    """Raise unless `database` reads as one that we can open. It is not repeated: it may hold a password."""
    scheme, is_url, _ = (database or "holdfast.db").partition("://")
    if database == "" or (is_url and scheme not in ("postgresql", "postgres")):
        known = "a `postgresql://` URL or the path of a SQLite file"
        raise Invalid(
            f"`{scheme if database else ''}` is no database that Holdfast knows: give {known}", field="database"
        )
    if is_url and find_spec("asyncpg") is None:
        raise Invalid("PostgreSQL needs a package: run `pip install 'holdfast[postgres]'`", field="database")
    if is_url and not _is_readable(str(database)):
        raise Invalid("the URL of the database cannot be read: its host or its port is no such thing", field="database")


def _is_readable(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


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
            await stop([writing])


def _address(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://{_named(host)}:{port}"


def _named(host: str) -> str:
    return f"[{host}]" if ":" in host else host
