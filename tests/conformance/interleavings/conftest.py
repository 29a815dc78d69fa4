"""These tests are about the locks of PostgreSQL: on SQLite there is one writer."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import asyncpg
import pytest

from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.conformance.interleavings.barriers import Barrier, open_barrier_store
from tests.conformance.interleavings.orders import TwoWriters


@pytest.fixture
def backend() -> str:
    return "postgres"


@pytest.fixture
async def where(where: str) -> str:
    """Return an empty database in a hurry: it waits neither for the disk nor before it looks for deadlocks."""
    connection = await asyncpg.connect(where)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    await connection.execute(f"ALTER DATABASE {name} SET deadlock_timeout = '20ms'")
    await connection.close()
    return where


@pytest.fixture
async def two(store: Store, where: str, clock: HeldClock) -> AsyncIterator[TwoWriters]:
    """Yield two writers beside `store`, which sets the stage and looks on."""
    gates = [Barrier(), Barrier()]
    async with AsyncExitStack() as stack:
        watcher = await asyncpg.connect(where)
        stack.push_async_callback(watcher.close)
        first, second = [
            await stack.enter_async_context(open_barrier_store(gate, where, clock=clock)) for gate in gates
        ]
        yield TwoWriters(first, second, gates=gates, watcher=watcher)
