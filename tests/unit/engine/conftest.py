"""A SQLite store on a held clock."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.conformance.conftest import SPACE
from tests.support.empty_database import create_database


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
def bus() -> LocalBus:
    return LocalBus()


@pytest.fixture
async def store(bus: LocalBus, shared_memory: Path, clock: HeldClock) -> AsyncIterator[Store]:
    async with open_store(create_database(shared_memory / "holdfast.db"), bus=bus, clock=clock) as store:
        await store.spaces.create(SPACE, name="Acme")
        yield store
