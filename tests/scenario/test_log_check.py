"""`check_log` detects every broken rule in a log that a test corrupts."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.scenario.hunt import write_script
from tests.scenario.snapshot import TABLES
from tests.support.database_probe import open_probe
from tests.support.log_check import BrokenLog, check_log

RUN: Final = "(SELECT MIN(run_key) FROM runs)"


def _timer(state: str) -> str:
    """Return SQL that adds a timer in that state to the first run."""
    return f"""
        INSERT INTO timers (space_key, run_key, id, kind, due_at, state, created_at)
        SELECT space_key, run_key, 't', 'deadline', 0, '{state}', 0 FROM runs WHERE run_key = {{run}}
    """


DAMAGE: Final = {
    "every run has a head": "DELETE FROM run_heads WHERE run_key = {run}",
    "every run stands on a thread": "UPDATE runs SET thread_key = 99",
    "the base, the parent and the root": "UPDATE runs SET base_key = 99",
    "the id of every run is kept": "DELETE FROM run_ids",
    "without a gap: [{'id'": "DELETE FROM events WHERE run_key = {run} AND seq = 3",
    "numbered from 1 to the last": "UPDATE run_heads SET last_event_seq = last_event_seq + 1",
    "nothing belongs to a run that is not there": "UPDATE steps SET run_key = 99",
    "a sequence is given once": "UPDATE threads SET next_sequence = 1",
    "a message is on the thread of its run": "UPDATE messages SET thread_key = 99, sequence = NULL",
    "a message has the id of none in its base": "UPDATE messages SET id = 'a1' WHERE id = 'm3'",
    "sequences ascend along a chain": "UPDATE messages SET sequence = -1 WHERE id = 'm3'",
    "is without a sequence": "UPDATE messages SET sequence = NULL WHERE id = 'm1'",
    "a tool call is answered once": "UPDATE messages SET tool_call_id = 'c1' WHERE tool_call_id = 'c2'",
    "the unread of a head": "UPDATE run_heads SET unread = 1",
    "no run waits with something unread": "UPDATE run_heads SET status = 'waiting', unread = 1",
    "a live run has a lease": "UPDATE run_heads SET status = 'running'",
    "a run is pending": "UPDATE run_heads SET status = 'pending'",
    "a run has ended if and only if": "UPDATE runs SET completed_at = NULL",
    "no open interrupt, timer or step": "UPDATE steps SET state = 'started', settled_at = NULL",
    "a timer is paused only while": _timer("paused"),
    "no open interrupt, timer or step: [{'id': 'run-1', 'kind': 'timer'}": _timer("paused"),
    "for whom a run waits is kept only while it waits": "INSERT INTO waits SELECT run_key, run_key + 1 FROM runs",
    "no runs wait for each other": "INSERT INTO waits SELECT 3 - run_key, run_key FROM runs",
    "a budget has counted all": "INSERT INTO budgets (run_key, tokens) VALUES ({run}, 14)",
    "all that is used below it: [{'budget_key'": "INSERT INTO budgets (run_key, tokens) VALUES ({run}, 15)",
    "is not there: [{'kind': 'budget'": "INSERT INTO budgets (run_key) VALUES (99)",
    "is not there: [{'kind': 'context'": "INSERT INTO contexts (run_key, step, snapshot) VALUES (99, 1, '{{}}')",
    "is not there: [{'kind': 'wait'": "INSERT INTO waits VALUES (99, {run})",
    "the numbers of plan items": "INSERT INTO task_numbers (thread_key, number, step) VALUES (99, 1, 'x')",
    "a step has settled": "UPDATE steps SET settled_at = NULL",
    "a value that was inherited": "DELETE FROM run_values WHERE source_key IS NULL",
    "news are numbered": "UPDATE spaces SET last_notification = 3",
    "the stream of run": "UPDATE events SET data = (SELECT data FROM events WHERE seq = 1) WHERE seq = 4",
}


@pytest.fixture(scope="module")
async def intact_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an intact log."""
    path = tmp_path_factory.mktemp("whole") / "holdfast.db"
    await write_script(path, "conversation")
    return path


@pytest.mark.parametrize("rule", DAMAGE)
async def test_a_broken_log_is_detected(intact_log: Path, tmp_path: Path, rule: str) -> None:
    path = tmp_path / "broken.db"
    shutil.copy(intact_log, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(DAMAGE[rule].format(run=RUN))
    async with open_probe(path) as probe:
        with pytest.raises(BrokenLog) as caught:
            await check_log(probe)
    assert rule in str(caught.value)


async def test_a_snapshot_contains_every_table(intact_log: Path) -> None:
    async with open_probe(intact_log) as probe:
        rows = await probe.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    assert {row["name"] for row in rows} - set(TABLES) == {
        "migrations",
        "store_clock",
        "tickets",
        "worker_leases",
        "workers",
        "write_check",
    }, "these belong to no space"
