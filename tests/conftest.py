"""Fixtures of the whole suite: PostgreSQL servers, which start only when a test needs them.

The suite runs in two processes, each with a server of its own.
"""

import os
import signal
from collections.abc import AsyncIterator, Generator

import pytest
from hypothesis import settings

from tests.support.postgres import PostgresServer

# A shell without job control lets its background jobs ignore SIGINT, and every process of a test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# CI must be deterministic: new Hypothesis examples are searched for in local runs only.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make captured output valid UTF-8, because some tests log lone surrogates."""
    report = yield
    report.sections = [(title, text.encode(errors="replace").decode()) for title, text in report.sections]
    return report


@pytest.fixture(scope="session")
async def postgres() -> AsyncIterator[PostgresServer]:
    """Yield the server that all tests share: they create databases in it and never stop it."""
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
