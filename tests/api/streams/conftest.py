"""Stages for the tests of streams."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.conftest import BACKENDS, NewDatabase, fill
from tests.api.site import Site, served
from tests.scenario.agents.agent_workspace import AgentWorkspace


@pytest.fixture
def workshop(tmp_path: Path) -> AgentWorkspace:
    """Return a workspace on SQLite."""
    return fill(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))


@pytest.fixture
async def own_stage(workshop: AgentWorkspace) -> AsyncIterator[Site]:
    """Yield a server without workers that nobody else uses."""
    async with served(workshop, workers=0) as stage:
        yield stage


@pytest.fixture(scope="session")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Yield a server without workers, which tests share: they work on runs by hand."""
    folder = tmp_path_factory.mktemp("stage")
    async with served(fill(AgentWorkspace(folder / "workspace", folder / "holdfast.db")), workers=0) as stage:
        yield stage


@pytest.fixture(params=BACKENDS)
async def everywhere(request: pytest.FixtureRequest, tmp_path: Path, new_database: NewDatabase) -> AsyncIterator[Site]:
    """Yield a server without workers on every backend in turn."""
    where = tmp_path / "holdfast.db" if request.param == "sqlite" else await new_database()
    async with served(fill(AgentWorkspace(tmp_path / "workspace", where)), workers=0) as stage:
        yield stage
