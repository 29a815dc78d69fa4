"""SQLite transactions: `many` runs a statement for any number of rows."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.domain.instant import Millis
from holdfast.store.sqlite.file import connect, migrate
from holdfast.store.sqlite.transaction import MAX_ROWS_PER_STATEMENT, STATEMENTS, PositionalSql, SqliteTransaction


@pytest.fixture
def transaction(tmp_path: Path) -> Iterator[SqliteTransaction]:
    with closing(connect(tmp_path / "holdfast.db", read_only=False)) as connection:
        migrate(connection, now=Millis(0))
        yield SqliteTransaction(connection, Millis(7))


@pytest.mark.parametrize(
    "count",
    [
        0,
        1,
        2,
        3,
        5,
        7,
        12,
        MAX_ROWS_PER_STATEMENT - 1,
        MAX_ROWS_PER_STATEMENT,
        MAX_ROWS_PER_STATEMENT + 1,
        10 * MAX_ROWS_PER_STATEMENT + 13,
    ],
)
async def test_every_row_is_inserted_unchanged(transaction: SqliteTransaction, count: int) -> None:
    rows = [(1, number, f"T{number}", f"{number}", number + 100) for number in range(count)]
    assert await transaction.many("add_events", rows) == []
    found = await transaction.all("events_after", run_key=1, seq=-1, limit=count + 1)
    assert [(1, row["seq"], row["type"], row["data"], row["created_at"]) for row in found] == rows


async def test_the_returned_rows_of_all_chunks_are_collected(transaction: SqliteTransaction) -> None:
    count = MAX_ROWS_PER_STATEMENT + 9
    heads = [(key, "running", 0, 0, 0, None, key, None, 1, "default") for key in range(1, count + 1)]
    await transaction.many("add_heads", heads)
    # The lease number of each run is 0; every third entry has another one.
    entries = [(key % 5, 0, False, key, 0 if key % 3 else 1, False) for key in range(1, count + 1)]
    accepted = await transaction.many("fence", entries)
    assert {row["run_key"]: row["last_event_seq"] for row in accepted} == {
        key: key + key % 5 for key in range(1, count + 1) if key % 3
    }


async def test_each_row_updates_only_its_own_key(transaction: SqliteTransaction) -> None:
    await transaction.many("add_heads", [(key, "running", 0, 0, 0, None, 1, None, 1, "default") for key in (1, 2, 3)])
    moves = [("waiting", f"reason {key}", None, 5, key) for key in (1, 3)]
    await transaction.many("move_heads", moves)
    heads = [await transaction.one("head", run_key=key) for key in (1, 2, 3)]
    assert [head and head["status_reason"] for head in heads] == ["reason 1", None, "reason 3"]


async def test_a_single_row_has_the_same_effect_as_a_row_among_others(transaction: SqliteTransaction) -> None:
    await transaction.many(
        "add_heads", [(key, "running", 0, 0, 0, None, key, None, 1, "default") for key in (1, 2, 3, 4)]
    )
    entries = [(5, 0, True, key, key % 2, False) for key in (1, 2, 3, 4)]
    alone = [tuple(row) for entry in entries[:2] for row in await transaction.many("fence", [entry])]
    together = [tuple(row) for row in await transaction.many("fence", entries[2:])]
    assert (alone, together) == ([(2, 7, 0)], [(4, 9, 0)])
    moves = [("queued", "why", None, 5, key) for key in (1, 2, 3)]
    await transaction.many("move_heads", moves[:1])
    await transaction.many("move_heads", moves[1:])
    found = [await transaction.one("head", run_key=key) for key in (1, 2, 3, 4)]
    assert [head and (head["status"], head["status_reason"], head["lease_number"]) for head in found] == [
        *[("queued", "why", 1)] * 3,
        ("running", None, 0),
    ]


async def test_a_statement_for_one_row_runs_once_per_row(transaction: SqliteTransaction) -> None:
    item = {"run_key": 1, "kind": "message", "data": "{}", "created_by": None, "now": 0}
    for number in (1, 2, 3):
        await transaction.run("add_inbox_item", number=number, **item)
    consumed = await transaction.many("consume", [(1, 1), (1, 3), (1, 9)])
    assert [row["number"] for row in consumed] == [1, 3]
    assert [row["number"] for row in await transaction.all("inbox_of_run", run_key=1)] == [2]


def test_every_placeholder_gets_its_own_value() -> None:
    for numbered in STATEMENTS.values():
        statement = PositionalSql.of(numbered.sql)
        given = [*range(1, len(numbered.parameters) + 1)]
        values = given if statement.arrange is None else statement.arrange(given)
        first, *others = statement.sql.split("?")
        with_numbers = [f"?{value}{text}" for value, text in zip(values, others, strict=True)]
        assert first + "".join(with_numbers) == numbered.sql
