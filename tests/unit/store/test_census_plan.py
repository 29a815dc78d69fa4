"""What is read for a scrape: never all runs that there ever were."""

import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.store.sqlite.transaction import STATEMENTS


async def test_a_census_reads_indexes_that_hold_no_ended_run(tmp_path: Path) -> None:
    async with open_store(tmp_path / "holdfast.db", bus=LocalBus()):
        pass
    with closing(sqlite3.connect(tmp_path / "holdfast.db")) as connection:
        steps = connection.execute(f"EXPLAIN QUERY PLAN {STATEMENTS['live_runs'].sql}", (0,)).fetchall()
    reads = [str(step[3]) for step in steps if "run_heads" in step[3]]
    assert len(reads) == 7
    assert [read for read in reads if "INDEX run_heads_" not in read] == []
