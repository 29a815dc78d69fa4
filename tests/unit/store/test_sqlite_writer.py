"""The SQLite writer thread: when jobs are flushed to it, and which transactions are synced to disk."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from holdfast.bootstrap import SystemClock
from holdfast.bus.local import LocalBus
from holdfast.store.commits import COMMIT_BATCH
from holdfast.store.creation import CREATE_RUN_BATCH
from holdfast.store.leases import CLAIM_BATCH
from holdfast.store.sqlite.file import connect
from holdfast.store.sqlite.writer import Writer
from holdfast.store.transaction import Batch, Transaction

NORMAL, FULL = 1, 2


@pytest.fixture
def connection(tmp_path: Path) -> sqlite3.Connection:
    return connect(tmp_path / "some.db", read_only=False)


@pytest.fixture
async def writer(connection: sqlite3.Connection, tmp_path: Path) -> AsyncIterator[Writer]:
    writer = Writer(connection, tmp_path / "some.db", clock=SystemClock(), bus=LocalBus())
    yield writer
    await writer.close()
    connection.close()


async def test_a_series_of_jobs_that_queue_runs_does_not_delay_the_first(writer: Writer) -> None:
    async def do_nothing(_: Transaction) -> None:
        pass

    submitted = [writer.submit(do_nothing, enqueues=True)]
    while not submitted[0].done() and len(submitted) < 20_000:
        await asyncio.sleep(0)
        submitted.append(writer.submit(do_nothing, enqueues=True))
    assert submitted[0].done()
    await asyncio.gather(*submitted)


async def test_only_a_transaction_without_durable_jobs_is_not_synced(
    writer: Writer, connection: sqlite3.Connection
) -> None:
    def sync_level() -> int:
        return int(connection.execute("PRAGMA synchronous").fetchone()[0])

    async def read_level(_: Transaction) -> int:
        return sync_level()

    async def read_levels(_: Transaction, items: Sequence[int]) -> list[int]:
        return [sync_level() for _ in items]

    volatile = Batch[int, int](key=lambda item: item, apply=read_levels, durable=False)
    durable = Batch[int, int](key=lambda item: item, apply=read_levels)
    assert await writer.submit(read_level) == FULL
    assert await writer.submit_to_batch(volatile, 1) == NORMAL
    assert await writer.submit_to_batch(durable, 1) == FULL
    assert await writer.submit_to_batch(volatile, 2) == NORMAL
    assert await writer.submit(read_level) == FULL
    together = [writer.submit_to_batch(volatile, 3), writer.submit_to_batch(durable, 3)]
    assert [await each for each in together] == [FULL, FULL]


def test_only_claims_are_not_durable() -> None:
    assert [CLAIM_BATCH.durable, COMMIT_BATCH.durable, CREATE_RUN_BATCH.durable] == [False, True, True]
