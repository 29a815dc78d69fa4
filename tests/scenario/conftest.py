"""Empty databases for fault tests."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias

import asyncpg
import pytest

from tests.scenario.crash_relay import WORKER
from tests.scenario.hunt import VICTIM, Script, write_script
from tests.scenario.workload import PLAYS
from tests.support.counting_server import CountingServer
from tests.support.fork_server import ForkServer
from tests.support.postgres import PostgresServer

Location: TypeAlias = str | Path
NewLocation: TypeAlias = Callable[[], Awaitable[Location]]
Scripts: TypeAlias = Mapping[str, Script]

# A killed client cannot damage the server's disk, and each session of a victim plans its statements again.
_FAST_SETTINGS: Final = ("synchronous_commit = off", "join_collapse_limit = 1")

_numbers = count(1)


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def new_location(backend: str, shared_memory: Path, postgres: PostgresServer) -> AsyncIterator[NewLocation]:
    """Yield a function that creates an empty database and returns its location for `open_store`."""
    databases: list[str] = []

    async def new_file() -> Location:
        return shared_memory / f"{next(_numbers)}.db"

    async def new_database() -> Location:
        databases.append(f"scenario_{next(_numbers)}")
        url = await postgres.create_database(databases[-1])
        await _use_fast_settings(url, databases[-1])
        return url

    yield new_file if backend == "sqlite" else new_database
    for name in databases:
        await postgres.drop_database(name)


@pytest.fixture(scope="session")
async def victims() -> AsyncIterator[ForkServer]:
    async with ForkServer(VICTIM) as server:
        yield server


@pytest.fixture(scope="session")
async def crash_workers() -> AsyncIterator[ForkServer]:
    async with ForkServer(WORKER) as server:
        yield server


@pytest.fixture(scope="session")
async def tool_server() -> AsyncIterator[CountingServer]:
    async with CountingServer() as server:
        yield server


@pytest.fixture(scope="session")
async def scripts(tmp_path_factory: pytest.TempPathFactory) -> Scripts:
    """Return the script of each play; SQLite and PostgreSQL end with the same rows."""
    folder = tmp_path_factory.mktemp("scripts")
    return {play: await write_script(folder / f"{play}.db", play) for play in PLAYS}


async def _use_fast_settings(url: str, name: str) -> None:
    connection = await asyncpg.connect(url)
    for setting in _FAST_SETTINGS:
        await connection.execute(f"ALTER DATABASE {name} SET {setting}")
    await connection.close()
