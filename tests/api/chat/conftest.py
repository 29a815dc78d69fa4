"""One server for all tests of chats and sessions, on every backend in turn."""

from collections.abc import AsyncIterator

import pytest

from tests.api.conftest import BACKENDS, NewDatabase
from tests.api.openai.clients import fill
from tests.api.site import Site, serve
from tests.scenario.agents.agent_workspace import AgentWorkspace


@pytest.fixture(scope="session", params=BACKENDS)
async def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase
) -> AsyncIterator[Site]:
    """Yield a shared server."""
    folder = tmp_path_factory.mktemp("chat")
    where = folder / "holdfast.db" if request.param == "sqlite" else await new_database()
    async with serve(fill(AgentWorkspace(folder / "workspace", where))) as site:
        yield site
