"""What must be on disk before anybody is told is synced; what need not be goes there with whatever comes next."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from holdfast.bootstrap import SystemClock
from holdfast.bus.local import LocalBus
from holdfast.store.commits import COMMIT_BATCH
from holdfast.store.creation import CREATE_RUN_BATCH
from holdfast.store.leases import CLAIM_BATCH
from holdfast.store.sqlite.file import connect
from holdfast.store.sqlite.writer import Writer
from holdfast.store.transaction import Batch, Transaction

NORMAL, FULL = 1, 2


def level(connection: sqlite3.Connection) -> int:
    found: int = connection.execute("PRAGMA synchronous").fetchone()[0]
    return found


async def test_only_what_need_not_last_is_not_synced_and_only_where_nothing_else_is_written_with_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "some.db"
    connection = connect(path, read_only=False)
    writer = Writer(connection, path, clock=SystemClock(), bus=LocalBus())

    async def note(_: Transaction) -> int:
        return level(connection)

    async def note_all(_: Transaction, items: Sequence[int]) -> list[int]:
        return [level(connection) for _ in items]

    passing = Batch[int, int](key=lambda item: item, apply=note_all, durable=False)
    lasting = Batch[int, int](key=lambda item: item, apply=note_all)
    assert await writer.submit(note) == FULL
    assert await writer.submit_to_batch(passing, 1) == NORMAL
    assert await writer.submit_to_batch(lasting, 1) == FULL
    assert await writer.submit_to_batch(passing, 2) == NORMAL
    assert await writer.submit(note) == FULL
    together = [writer.submit_to_batch(passing, 3), writer.submit_to_batch(lasting, 3)]
    assert [await each for each in together] == [FULL, FULL]
    await writer.close()
    connection.close()


def test_claims_alone_need_not_last() -> None:
    assert [CLAIM_BATCH.durable, COMMIT_BATCH.durable, CREATE_RUN_BATCH.durable] == [False, True, True]
