"""Fixtures of the conformance suite, which runs every test on every backend."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.bootstrap import open_bus, open_store
from holdfast.domain.ids import SpaceId
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.support.empty_database import create_database
from tests.support.postgres import PostgresServer
from tests.support.postgres_pools import shared_pool

BACKENDS = ("sqlite", "postgres")
SPACE = SpaceId("acme")
OTHER = SpaceId("other")


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def where(
    backend: str, shared_memory: Path, postgres: PostgresServer, postgres_database: str
) -> AsyncIterator[str | Path]:
    """Yield the location of an empty database, as `open_store` takes it."""
    if backend == "sqlite":
        yield create_database(shared_memory / "holdfast.db")
    else:
        yield postgres_database
        await postgres.wipe(postgres_database)


@pytest.fixture(scope="session")
async def postgres_database(postgres: PostgresServer) -> AsyncIterator[str]:
    """Yield a database with the schema, which tests use one after the other.

    Creating a database takes longer than most tests, and so does the first use of a connection: the pool is shared too.
    """
    url = await postgres.create_store("conformance")
    async with shared_pool(url):
        yield url


@pytest.fixture
async def store(where: str | Path, clock: HeldClock) -> AsyncIterator[Store]:
    """Yield a store with two spaces, on the test's clock."""
    async with opened(where, clock) as store:
        await store.spaces.create(SPACE, name="Acme")
        await store.spaces.create(OTHER, name="Other")
        yield store


@pytest.fixture
async def stores(store: Store, backend: str, where: str | Path, clock: HeldClock) -> AsyncIterator[list[Store]]:
    """Yield the stores of the processes that share the database: one on SQLite, two on PostgreSQL."""
    if backend == "sqlite":
        yield [store]
    else:
        async with opened(where, clock) as other:
            yield [store, other]


@asynccontextmanager
async def opened(where: str | Path, clock: HeldClock) -> AsyncIterator[Store]:
    """Open the store at `where` on the test's clock."""
    async with open_bus(where) as bus, open_store(where, bus=bus, clock=clock) as store:
        yield store
