"""A workspace for each test, whose log is verified at the end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.testing.clock import HeldClock
from tests.conformance.conftest import BACKENDS
from tests.scenario.agents.agent_workspace import AgentWorkspace
from tests.support.database_probe import open_probe
from tests.support.log_check import check_log
from tests.support.postgres import PostgresServer
from tests.support.postgres_pools import shared_pool


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
async def workspace(tmp_path: Path, shared_memory: Path) -> AsyncIterator[AgentWorkspace]:
    """Yield an empty workspace on SQLite."""
    database = shared_memory / "holdfast.db"
    yield AgentWorkspace(tmp_path / "workspace", database)
    await _check(database)


@pytest.fixture(params=BACKENDS)
async def any_workspace(
    request: pytest.FixtureRequest, tmp_path: Path, shared_memory: Path, postgres: PostgresServer, agents_database: str
) -> AsyncIterator[AgentWorkspace]:
    """Yield an empty workspace, on each backend."""
    database = shared_memory / "holdfast.db" if request.param == "sqlite" else agents_database
    yield AgentWorkspace(tmp_path / "workspace", database)
    await _check(database)
    if isinstance(database, str):
        await postgres.wipe(database)


@pytest.fixture
async def postgres_workspace(
    tmp_path: Path, postgres: PostgresServer, agents_database: str
) -> AsyncIterator[AgentWorkspace]:
    """Yield an empty workspace on PostgreSQL, which several processes can open at once."""
    yield AgentWorkspace(tmp_path / "workspace", agents_database)
    await _check(agents_database)
    await postgres.wipe(agents_database)


@pytest.fixture(scope="session")
async def agents_database(postgres: PostgresServer) -> AsyncIterator[str]:
    """Yield the PostgreSQL database that the tests share, one after the other."""
    url = await postgres.create_store("agents")
    async with shared_pool(url):
        yield url


async def _check(database: str | Path) -> None:
    async with open_probe(database) as probe:
        await check_log(probe)
