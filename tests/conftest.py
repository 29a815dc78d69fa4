"""What the whole suite shares: its PostgreSQL servers, none of which is started before a test asks for it.

Two processes run it, each with a server of its own.
"""

import os
from collections.abc import AsyncIterator, Generator

import pytest
from hypothesis import settings

from tests.support.postgres import PostgresServer

# What lands must not depend on luck: new examples are looked for where somebody is there to see them.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell of what was captured in words that every process understands: some tests log half of a character."""
    report = yield
    report.sections = [(title, text.encode(errors="replace").decode()) for title, text in report.sections]
    return report


@pytest.fixture(scope="session")
async def postgres() -> AsyncIterator[PostgresServer]:
    """Yield the one server that all tests share: they make databases in it and never stop it."""
    async with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres: PostgresServer) -> str:
    """Return the address of the shared server's first database."""
    return postgres.url()


@pytest.fixture
async def own_postgres() -> AsyncIterator[PostgresServer]:
    """Yield a server of the test's own, to kill and restart."""
    async with PostgresServer() as server:
        yield server
