"""Reads that are asked for at once are answered together, and each for itself."""

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


async def migrations(tx: Transaction) -> int:
    return len(await tx.all("migrations"))


async def refused(tx: Transaction) -> int:
    raise NotFound("there is no such thing")


async def broken(tx: Transaction) -> int:
    await tx.one("head", run_key=2**64)
    return 0


async def test_each_of_many_reads_gets_its_own_answer(database: SqliteDatabase) -> None:
    count = await database.read(migrations)
    answers = await asyncio.gather(*[database.read(migrations) for _ in range(3 * MAX_READS_PER_BATCH)])
    assert answers == [count] * (3 * MAX_READS_PER_BATCH)


async def test_a_read_that_fails_does_so_alone(database: SqliteDatabase) -> None:
    count = await database.read(migrations)
    reads = [migrations, refused, migrations, broken, migrations]
    answers = await asyncio.gather(*map(database.read, reads), return_exceptions=True)
    assert answers[::2] == [count] * 3
    assert isinstance(answers[1], NotFound)
    assert isinstance(answers[3], Exception)


async def test_a_read_sees_what_was_written_before_it_was_asked_for(database: SqliteDatabase) -> None:
    async def write(tx: Transaction) -> None:
        await tx.one("add_space", id="acme", name="Acme", metadata="{}", now=tx.now)

    async def found(tx: Transaction) -> bool:
        return await tx.one("space", id="acme") is not None

    assert not await database.read(found)
    await database.write(write)
    assert all(await asyncio.gather(database.read(found), database.read(found)))


async def test_what_was_asked_for_is_answered_before_the_readers_close(tmp_path: Path) -> None:
    async with open_database(tmp_path / "holdfast.db", clock=SystemClock(), bus=LocalBus()):
        readers = Readers(tmp_path / "holdfast.db", clock=SystemClock(), count=1)
        asked = readers.submit(migrations)
        await readers.close()
        assert await asked > 0
        with pytest.raises(Unavailable):
            await readers.submit(migrations)
