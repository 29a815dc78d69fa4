"""One server for all tests of chat completions."""

from collections.abc import AsyncIterator

import pytest
from openai import AsyncOpenAI

from tests.api.openai.clients import async_client, fill
from tests.api.site import Site, serve
from tests.scenario.agents.agent_workspace import AgentWorkspace
from tests.support.database_probe import open_probe
from tests.support.log_check import check_log


@pytest.fixture(scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Yield a shared server; afterwards the log must be consistent."""
    folder = tmp_path_factory.mktemp("openai")
    async with serve(fill(AgentWorkspace(folder / "workspace", folder / "holdfast.db"))) as site:
        yield site
    async with open_probe(folder / "holdfast.db") as probe:
        await check_log(probe)


@pytest.fixture(scope="session")
async def openai(site: Site) -> AsyncIterator[AsyncOpenAI]:
    """Yield the official client."""
    async with async_client(site) as client:
        yield client
