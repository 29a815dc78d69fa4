"""Servers without workers for the tests of streams: the tests commit the events of runs themselves."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.conftest import BACKENDS, NewDatabase, write_agents
from tests.api.site import Site, serve
from tests.scenario.agents.agent_workspace import AgentWorkspace


@pytest.fixture
def workshop(tmp_path: Path) -> AgentWorkspace:
    """Return a workspace on SQLite."""
    return write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))


@pytest.fixture
async def own_site(workshop: AgentWorkspace) -> AsyncIterator[Site]:
    """Yield a server without workers that no other test uses."""
    async with serve(workshop, workers=0) as site:
        yield site


@pytest.fixture(scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Yield the server without workers that tests share."""
    folder = tmp_path_factory.mktemp("streams")
    async with serve(write_agents(AgentWorkspace(folder / "workspace", folder / "holdfast.db")), workers=0) as site:
        yield site


@pytest.fixture(params=BACKENDS)
async def backend_site(
    request: pytest.FixtureRequest, tmp_path: Path, new_database: NewDatabase
) -> AsyncIterator[Site]:
    """Yield a server without workers on each backend."""
    database = tmp_path / "holdfast.db" if request.param == "sqlite" else await new_database()
    async with serve(write_agents(AgentWorkspace(tmp_path / "workspace", database)), workers=0) as site:
        yield site
