"""SQLite readers: concurrent reads are batched, and each gets its own result or error."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.bootstrap import SystemClock
from holdfast.bus.local import LocalBus
from holdfast.domain.errors import NotFound, Unavailable
from holdfast.store.sqlite.database import SqliteDatabase, open_database
from holdfast.store.sqlite.readers import MAX_READS_PER_BATCH, Readers
from holdfast.store.transaction import Transaction


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    async with open_database(tmp_path / "holdfast.db", clock=SystemClock(), bus=LocalBus()) as database:
        yield database


async def count_migrations(tx: Transaction) -> int:
    return len(await tx.all("migrations"))


async def refused(tx: Transaction) -> int:
    raise NotFound("there is no such thing")


async def broken(tx: Transaction) -> int:
    await tx.one("head", run_key=2**64)
    return 0


async def test_each_of_many_reads_gets_its_own_result(database: SqliteDatabase) -> None:
    count = await database.read(count_migrations)
    results = await asyncio.gather(*[database.read(count_migrations) for _ in range(3 * MAX_READS_PER_BATCH)])
    assert results == [count] * (3 * MAX_READS_PER_BATCH)


async def test_a_failed_read_does_not_affect_others(database: SqliteDatabase) -> None:
    count = await database.read(count_migrations)
    reads = [count_migrations, refused, count_migrations, broken, count_migrations]
    results = await asyncio.gather(*map(database.read, reads), return_exceptions=True)
    assert results[::2] == [count] * 3
    assert isinstance(results[1], NotFound)
    assert isinstance(results[3], Exception)


async def test_a_read_sees_earlier_writes(database: SqliteDatabase) -> None:
    async def write(tx: Transaction) -> None:
        await tx.one("add_space", id="acme", name="Acme", metadata="{}", now=tx.now)

    async def exists(tx: Transaction) -> bool:
        return await tx.one("space", id="acme") is not None

    assert not await database.read(exists)
    await database.write(write)
    assert all(await asyncio.gather(database.read(exists), database.read(exists)))


async def test_queued_reads_finish_before_the_readers_close(tmp_path: Path) -> None:
    async with open_database(tmp_path / "holdfast.db", clock=SystemClock(), bus=LocalBus()):
        readers = Readers(tmp_path / "holdfast.db", clock=SystemClock(), count=1)
        submitted = readers.submit(count_migrations)
        await readers.close()
        assert await submitted > 0
        with pytest.raises(Unavailable):
            await readers.submit(count_migrations)
