"""What a page of a space's list is read from: indexes, and never every thread."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.store.sqlite.transaction import STATEMENTS


@pytest.mark.parametrize("name", ["list_runs", "list_artifacts"])
async def test_a_page_reads_no_whole_table_and_each_thread_by_its_key(tmp_path: Path, name: str) -> None:
    async with open_store(tmp_path / "holdfast.db", bus=LocalBus()):
        pass
    with closing(sqlite3.connect(tmp_path / "holdfast.db")) as connection:
        statement = STATEMENTS[name]
        connection.create_function("holdfast_has", 2, lambda *_: True, deterministic=True)
        values = (None,) * len(statement.parameters)
        steps = [str(step[3]) for step in connection.execute(f"EXPLAIN QUERY PLAN {statement.sql}", values)]
    assert [step for step in steps if step.startswith("SCAN")] == []
    assert any(step.startswith("SEARCH d USING INTEGER PRIMARY KEY") for step in steps)
