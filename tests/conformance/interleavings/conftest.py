"""Fixtures for tests of PostgreSQL's locks: SQLite has a single writer."""

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
async def two(store: Store, where: str, clock: HeldClock) -> AsyncIterator[TwoWriters]:
    """Yield two writers; `store` prepares the data and checks the result."""
    barriers = [Barrier(), Barrier()]
    async with AsyncExitStack() as stack:
        watcher = await asyncpg.connect(where)
        stack.push_async_callback(watcher.close)
        first, second = [
            await stack.enter_async_context(open_barrier_store(barrier, where, clock=clock)) for barrier in barriers
        ]
        yield TwoWriters(first, second, barriers=barriers, watcher=watcher)
