"""Servers with task clients, shared by the tests of the tasks contract."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.conftest import BACKENDS, NewDatabase
from tests.api.site import serve
from tests.api.task_contract.task_client import TaskClient, fill
from tests.scenario.agents.agent_workspace import AgentWorkspace
from tests.support.database_probe import open_probe
from tests.support.log_check import check_log


@pytest.fixture(scope="session")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TaskClient]:
    """Yield a client of a shared server on SQLite; afterwards the log must be consistent."""
    folder = tmp_path_factory.mktemp("tasks")
    async with serve(fill(AgentWorkspace(folder / "workspace", folder / "holdfast.db"))) as site:
        yield TaskClient(site)
    async with open_probe(folder / "holdfast.db") as probe:
        await check_log(probe)


@pytest.fixture(scope="session", params=BACKENDS)
async def any_client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase
) -> AsyncIterator[TaskClient]:
    """Yield a client of a shared server, on every backend in turn."""
    folder = tmp_path_factory.mktemp("tasks")
    where = folder / "holdfast.db" if request.param == "sqlite" else await new_database()
    async with serve(fill(AgentWorkspace(folder / "workspace", where))) as site:
        yield TaskClient(site)


@pytest.fixture(scope="session", params=BACKENDS)
async def idle_client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase
) -> AsyncIterator[TaskClient]:
    """Yield a client of a server without workers, on every backend in turn: tests work on its tasks themselves."""
    folder = tmp_path_factory.mktemp("tasks")
    where = folder / "holdfast.db" if request.param == "sqlite" else await new_database()
    async with serve(fill(AgentWorkspace(folder / "workspace", where)), workers=0) as site:
        yield TaskClient(site)


@pytest.fixture
def workshop(tmp_path: Path) -> AgentWorkspace:
    """Return a workspace on SQLite."""
    return fill(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
