"""Fixtures of the whole suite: PostgreSQL servers, which start only when a test needs them.

The suite runs in two processes, each with a server of its own.
"""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from tests.support.postgres import PostgresServer

# A shell without job control lets its background jobs ignore SIGINT, and every process of a test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Nothing here depends on how busy the machine is. CI must be deterministic: only local runs look for new examples.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

SLOW_TIMEOUT_SECONDS: Final = 7200

# Temporary folders are in memory if there is room: on a disk, each commit waits longer than it works. A file
# there survives a killed process as on a disk.
MEMORY: Final = Path("/dev/shm")
NEEDED_MEMORY_BYTES: Final = 8 << 30
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > NEEDED_MEMORY_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

gc.disable()  # until all tests are collected: nothing of that is garbage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow what takes minutes its time, however it is run."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_SECONDS))


def pytest_collection_finish() -> None:
    """Leave what was collected, nearly a million objects, out of each garbage collection of the tests."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make captured output valid UTF-8, because some tests log lone surrogates."""
    report = yield
    report.sections = [(title, text.encode(errors="replace").decode()) for title, text in report.sections]
    return report


@pytest.fixture(scope="session")
async def postgres() -> AsyncIterator[PostgresServer]:
    """Yield the server that all tests share: they create databases in it and never stop it, so it need not sync.

    It looks for deadlocks at once, for tests that bring them about.
    """
    async with PostgresServer(fsync="off", full_page_writes="off", deadlock_timeout="20ms") as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres: PostgresServer) -> str:
    """Return the address of the shared server's first database."""
    return postgres.url()


@pytest.fixture
def shared_memory() -> Iterator[Path]:
    """Yield a folder in memory if possible: files there survive a killed process as on a disk."""
    folder = tempfile.mkdtemp(prefix="holdfast-", dir=MEMORY if MEMORY.is_dir() else None)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture
async def own_postgres() -> AsyncIterator[PostgresServer]:
    """Yield a server of the test's own, to kill and restart."""
    async with PostgresServer() as server:
        yield server
