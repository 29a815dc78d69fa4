"""Query plans: lists, run counts, claims, and what is due or concerned, read indexes, and never a whole table."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.store.postgres.transaction import STATEMENTS as POSTGRES_STATEMENTS
from holdfast.store.sqlite.transaction import STATEMENTS
from tests.support.postgres import PostgresServer

OTHERS: Final = """
INSERT INTO timers (space_key, id, kind, due_at, state, created_at)
SELECT 1, 'sch_' || n, 'schedule', 4000000000000, 'scheduled', 1 FROM generate_series(1, 10000) n;
INSERT INTO conditions (reminder_key, space_key, id, event, agent, thread_id, spec, armed, armed_at, matches)
SELECT n, 1, 'rem_' || n, CASE WHEN n > 5000 THEN 'message' ELSE 'run.completed' END,
       CASE WHEN n > 5000 THEN '' ELSE 'agent-' || n % 1000 END, '', '{}', n % 2, 1, '[]'
  FROM generate_series(1, 10000) n;
INSERT INTO reminder_terms (space_key, term, reminder_key)
SELECT 1, term, n FROM generate_series(5001, 10000) n, unnest(ARRAY['acm', 'invoic']) term;
INSERT INTO recall_postings (term_key, seq, tf, length) SELECT n % 5000, n, 1, 20 FROM generate_series(1, 20000) n;
INSERT INTO recall_terms (index_key, term, df) SELECT 1, 'term' || n, 4 FROM generate_series(1, 5000) n;
INSERT INTO firings (schedule_key, id, due_at, cause, outcome, created_at)
SELECT n % 100, 'fir_' || n, n, 'due', 'fired', n FROM generate_series(1, 20000) n;
"""
"""Schedules that are not due, conditions that are not concerned, and postings and firings of others."""


async def query_plan(path: Path, name: str) -> list[str]:
    """Return the steps of the plan of a statement."""
    async with open_store(path, bus=LocalBus()):
        pass
    with closing(sqlite3.connect(path)) as connection:
        for function in ("holdfast_has", "holdfast_has_all", "holdfast_contains"):
            connection.create_function(function, 2, lambda *_: True, deterministic=True)
        values = (None,) * len(STATEMENTS[name].parameters)
        return [str(step[3]) for step in connection.execute(f"EXPLAIN QUERY PLAN {STATEMENTS[name].sql}", values)]


@pytest.mark.parametrize("name", ["list_runs", "list_artifacts"])
async def test_a_page_reads_no_whole_table_and_each_thread_by_its_key(tmp_path: Path, name: str) -> None:
    steps = await query_plan(tmp_path / "holdfast.db", name)
    assert [step for step in steps if step.startswith("SCAN")] == []
    assert any(step.startswith("SEARCH d USING INTEGER PRIMARY KEY") for step in steps)


async def test_a_claim_of_deliveries_goes_from_webhook_to_webhook(tmp_path: Path) -> None:
    """What has piled up for a receiver that stalls is not read for the others."""
    steps = await query_plan(tmp_path / "holdfast.db", "claim_deliveries")
    reads = [step for step in steps if " d " in step]
    assert len(reads) == 3 and all("COVERING INDEX" in step or "deliveries_of_webhook" in step for step in reads), steps
    assert any("deliveries_of_webhook (webhook_key=? AND due_at<?)" in step for step in reads), steps


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("claim_timers", "timers_due (due_at<?)"),
        ("next_due", "timers_due"),
        ("armed_conditions", "conditions_armed (space_key=? AND event=? AND agent=? AND thread_id=?)"),
        ("contexts_with_terms", "PRIMARY KEY (space_key=? AND term=?)"),
        ("newest_contexts", "conditions_armed (space_key=? AND event=? AND agent=? AND thread_id=?)"),
    ],
)
async def test_what_is_due_or_concerned_is_found_behind_any_number_of_others(
    tmp_path: Path, name: str, index: str
) -> None:
    steps = await query_plan(tmp_path / "holdfast.db", name)
    assert [step for step in steps if index in step], steps
    assert [step for step in steps if step in ("SCAN timers", "SCAN c", "SCAN conditions")] == [], steps


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("analyzed", [False, True])
async def test_postgresql_reads_what_is_due_concerned_or_found_and_no_others(
    postgres: PostgresServer, mode: str, analyzed: bool
) -> None:
    cases: dict[str, dict[str, Any]] = {
        "claim_timers": {"owner": "me", "lease": 1_000, "limit": 5},
        "next_due": {},
        "any_armed_condition": {},
        "spaces_with_contexts": {"space_key": [1]},
        "armed_conditions": {"space_key": [1], "event": ["run.completed"], "agent": ["bot"], "thread_id": [""]},
        "contexts_with_terms": {"space_key": 1, "thread_id": "thr_1", "terms": '["letter", "tone"]'},
        "newest_contexts": {"space_key": 1, "thread_id": "thr_1", "limit": 5},
        "term_counts": {"index_key": [1], "term": ["term7"]},
        "lexical_scores": {"k": 1.2, "b": 0.5, "average": 20.0, "terms": "[[7, 1.5]]", "limit": 200},
        "drop_old_firings": {"schedule_key": 7, "space_key": 1, "newest": 3, "before": 10_000, "limit": 5},
    }
    connection = await asyncpg.connect(await postgres.create_store("others"))
    try:
        await connection.execute(OTHERS + "ANALYZE;" * analyzed)
        await connection.execute(f"SET plan_cache_mode = {mode}")
        for name, values in cases.items():
            statement = POSTGRES_STATEMENTS[name]
            given = [values.get(parameter) for parameter in statement.parameters]
            plan = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.sql}", *given)
            reads = [node for node in _nodes(json.loads(plan)[0]["Plan"]) if "Relation Name" in node]
            rows = [
                node["Actual Loops"] * (node.get("Actual Rows", 0) + node.get("Rows Removed by Filter", 0))
                for node in reads
            ]
            assert reads and max(rows) <= 5, plan
    finally:
        await connection.close()
        await postgres.drop_database("others")


async def test_the_runs_of_a_schedule_are_found_behind_skipped_times(tmp_path: Path) -> None:
    steps = await query_plan(tmp_path / "holdfast.db", "active_runs_of_schedule")
    assert any("firings_with_runs (schedule_key=?)" in step for step in steps), steps


FLOOD = """
INSERT INTO run_heads (run_key, status, head_start, queue_key, queued_at, last_event_seq, space_key, pool)
SELECT number, 'queued', 0, number, number, 1, number % 3, 'default' FROM generate_series(1, 20000) AS number
"""


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_claim_on_postgresql_reads_what_it_takes_and_not_what_waits(
    postgres: PostgresServer, mode: str, analyzed: bool
) -> None:
    """With 20,000 queued runs: no scan of the table, and of each index hardly more rows than the claim takes."""
    connection = await asyncpg.connect(await postgres.create_store("plans"))
    try:
        await connection.execute(FLOOD)
        if analyzed:
            await connection.execute("ANALYZE run_heads")
        await connection.execute(f"SET plan_cache_mode = {mode}")
        given = {
            "ready_pools": {"pool": "default", "first": 0, "limit": 17, "now": 1},
            "claim_heads": {
                "owner": ["w", "w", "w"],
                "now": [30_000] * 3,
                "lease": [5_000] * 3,
                "pool": ["default"] * 3,
                "space_key": [0, 1, 2],
                "patience": [2_000] * 3,
                "limit": [6, 5, 5],
            },
        }
        for name, values in given.items():
            statement = POSTGRES_STATEMENTS[name]
            ordered = [values[parameter] for parameter in statement.parameters]
            plan = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.sql}", *ordered)
            reads = [node for node in _nodes(json.loads(plan)[0]["Plan"]) if node.get("Relation Name") == "run_heads"]
            rows = [
                node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) for node in reads
            ]
            assert reads and "Seq Scan" not in {node["Node Type"] for node in reads}, plan
            assert max(rows) <= 20, plan
    finally:
        await connection.close()
        await postgres.drop_database("plans")


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a node of a plan and all below it."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


async def test_backlogs_read_indexes_that_hold_no_ended_run(tmp_path: Path) -> None:
    reads = [step for step in await query_plan(tmp_path / "holdfast.db", "backlogs") if "run_heads" in step]
    assert len(reads) == 3
    assert [read for read in reads if "INDEX run_heads_" not in read] == []


async def test_run_counts_read_indexes_that_hold_no_ended_run(tmp_path: Path) -> None:
    reads = [step for step in await query_plan(tmp_path / "holdfast.db", "live_runs") if "run_heads" in step]
    assert len(reads) == 7
    assert [read for read in reads if "INDEX run_heads_" not in read] == []


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("threads_in_tail", "threads_to_index"),
        ("threads_behind", "threads_to_index"),
        ("messages_behind", "threads_to_index"),
        ("memories_behind", "memories_to_index"),
        ("standing_memories", "memories_standing"),
        ("proposed_standing_memories", "memories_requested (space_key=? AND <expr>=?)"),
    ],
)
async def test_what_recall_lacks_is_read_from_an_index_that_holds_nothing_else(
    tmp_path: Path, name: str, index: str
) -> None:
    plan = await query_plan(tmp_path / "holdfast.db", name)
    wanted = index if "(" in index else f"{index} (space_key=?)"
    assert [step for step in plan if f"INDEX {wanted}" in step], plan


async def test_the_indexer_goes_from_space_to_space_with_something_to_index(tmp_path: Path) -> None:
    """A pass costs no more with spaces, threads and memories that are indexed, or whose space nobody searches."""
    plan = await query_plan(tmp_path / "holdfast.db", "spaces_to_index")
    for index in ("threads_to_recall", "memories_to_recall", "recall_documents_to_index"):
        assert [step for step in plan if f"INDEX {index}" in step], (index, plan)
    assert [step for step in plan if "INDEX recall_indexes_by_state (active=? AND caught_up=?)" in step], plan
    assert [step for step in plan if "INDEX recall_indexes_by_state (active=?)" in step], plan
    for table in ("t", "m", "d", "x", "s"):
        reads = [step for step in plan if step.startswith((f"SCAN {table}", f"SEARCH {table} "))]
        assert [step for step in reads if step == f"SCAN {table}"] == [], plan
    plan = await query_plan(tmp_path / "holdfast.db", "replaced_index")
    assert [step for step in plan if "INDEX recall_indexes_by_state" in step], plan


async def test_a_rebuild_goes_on_where_it_was(tmp_path: Path) -> None:
    plan = await query_plan(tmp_path / "holdfast.db", "threads_to_build")
    assert [step for step in plan if "INDEX threads_recalled (space_key=? AND thread_key>?)" in step], plan


async def test_threads_to_outline_are_found_without_reading_their_runs(tmp_path: Path) -> None:
    plan = await query_plan(tmp_path / "holdfast.db", "threads_to_outline")
    assert [step for step in plan if "INDEX threads_to_outline" in step], plan
    assert [step for step in plan if "runs_of_thread" in step] == []
    assert [step for step in plan if "run_heads" in step and "INDEX run_heads_" not in step] == []
