"""Databases to measure on: a SQLite file in a temporary folder, or a temporary PostgreSQL server."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.bootstrap import open_bus, open_store
from holdfast.domain.ids import SpaceId
from holdfast.store.store import Store
from tests.support.postgres import PostgresServer

SPACE = SpaceId("bench")
BACKENDS = ("sqlite", "postgres")


@asynccontextmanager
async def databases(backend: str) -> AsyncIterator[tuple[str | Path, str | Path]]:
    """Yield two databases on one disk or server, both with the schema: one for the store, one for the floor."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        if backend == "sqlite":
            yield await _with_schema(Path(folder) / "store.db"), await _with_schema(Path(folder) / "floor.db")
        else:
            async with PostgresServer() as server:
                store, floor = [await server.create_database(name) for name in ("store", "floor")]
                yield await _with_schema(store), await _with_schema(floor)


async def _with_schema(database: str | Path) -> str | Path:
    async with open_bus(database) as bus, open_store(database, bus=bus):
        return database


@asynccontextmanager
async def open_benchmark_store(database: str | Path, *, new: bool = True) -> AsyncIterator[Store]:
    """Open the store with a space in it."""
    async with open_bus(database) as bus, open_store(database, bus=bus) as store:
        if new:
            await store.spaces.create(SPACE, name="Bench")
        yield store


@asynccontextmanager
async def busy_thread(busy: bool) -> AsyncIterator[None]:
    """Keep one thread of this process busy, if `busy`."""
    stop = False

    def compute() -> None:
        while not stop:
            sum(range(1000))

    computing = asyncio.gather(*[asyncio.to_thread(compute)] if busy else [])
    try:
        yield
    finally:
        stop = True
        await computing
