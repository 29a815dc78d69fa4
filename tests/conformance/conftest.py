"""One suite, every backend."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from holdfast.bootstrap import open_bus, open_store
from holdfast.domain.ids import SpaceId
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from holdfast.testing.postgres import PostgresServer

BACKENDS = ("sqlite", "postgres")
SPACE = SpaceId("acme")
OTHER = SpaceId("other")

_numbers = count(1)


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def where(
    backend: str, tmp_path: Path, postgres: PostgresServer, postgres_template: str
) -> AsyncIterator[str | Path]:
    """Yield an empty database, as `open_store` takes it."""
    if backend == "sqlite":
        yield tmp_path / "holdfast.db"
    else:
        name = f"test_{next(_numbers)}"
        yield await postgres.create_database(name, template=postgres_template)
        await postgres.drop_database(name)


@pytest.fixture(scope="session")
async def postgres_template(postgres: PostgresServer) -> str:
    """Return the name of a database with the schema in it, to be copied."""
    url = await postgres.create_database("template_holdfast")
    async with open_bus(url) as bus, open_store(url, bus=bus):
        pass
    return "template_holdfast"


@pytest.fixture
async def store(where: str | Path, clock: HeldClock) -> AsyncIterator[Store]:
    """Yield a store with two spaces, whose time is `clock`'s."""
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
    """Open the store at `where` on a clock of the test."""
    async with open_bus(where) as bus, open_store(where, bus=bus, clock=clock) as store:
        yield store
