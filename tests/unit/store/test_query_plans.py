"""Query plans on SQLite: lists and run counts read indexes, and never a whole table."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.store.sqlite.transaction import STATEMENTS


async def query_plan(path: Path, name: str) -> list[str]:
    """Return the steps of the plan of a statement."""
    async with open_store(path, bus=LocalBus()):
        pass
    with closing(sqlite3.connect(path)) as connection:
        for function in ("holdfast_has", "holdfast_has_all"):
            connection.create_function(function, 2, lambda *_: True, deterministic=True)
        values = (None,) * len(STATEMENTS[name].parameters)
        return [str(step[3]) for step in connection.execute(f"EXPLAIN QUERY PLAN {STATEMENTS[name].sql}", values)]


@pytest.mark.parametrize("name", ["list_runs", "list_artifacts"])
async def test_a_page_reads_no_whole_table_and_each_thread_by_its_key(tmp_path: Path, name: str) -> None:
    steps = await query_plan(tmp_path / "holdfast.db", name)
    assert [step for step in steps if step.startswith("SCAN")] == []
    assert any(step.startswith("SEARCH d USING INTEGER PRIMARY KEY") for step in steps)


async def test_run_counts_read_indexes_that_hold_no_ended_run(tmp_path: Path) -> None:
    reads = [step for step in await query_plan(tmp_path / "holdfast.db", "live_runs") if "run_heads" in step]
    assert len(reads) == 7
    assert [read for read in reads if "INDEX run_heads_" not in read] == []
