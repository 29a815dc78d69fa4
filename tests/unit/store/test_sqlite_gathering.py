"""What waits for a claim to go with it does not wait for whatever else comes."""

import asyncio
from pathlib import Path

from holdfast.bootstrap import SystemClock
from holdfast.bus.local import LocalBus
from holdfast.store.sqlite.file import connect
from holdfast.store.sqlite.writer import Writer
from holdfast.store.transaction import Transaction


async def nothing(_: Transaction) -> None:
    pass


async def test_runs_that_come_one_after_the_other_do_not_hold_up_the_first(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    connection = connect(path, read_only=False)
    writer = Writer(connection, path, clock=SystemClock(), bus=LocalBus())
    asked = [writer.submit(nothing, enqueues=True)]
    while not asked[0].done() and len(asked) < 20_000:
        await asyncio.sleep(0)
        asked.append(writer.submit(nothing, enqueues=True))
    assert asked[0].done()
    await asyncio.gather(*asked)
    await writer.close()
    connection.close()
