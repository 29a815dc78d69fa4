"""Direct reads of the tables, without the store."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeAlias

import asyncpg

Rows: TypeAlias = list[dict[str, Any]]

# References: table, column, and the table and column that it must exist in.
_REFERENCES: Final = (
    ("messages", "thread_key", "threads", "thread_key"),
    ("task_numbers", "thread_key", "threads", "thread_key"),
    ("thread_usage", "thread_key", "threads", "thread_key"),
    ("runs", "thread_key", "threads", "thread_key"),
    ("runs", "base_key", "runs", "run_key"),
    ("runs", "jump_key", "runs", "run_key"),
    ("run_values", "source_key", "run_values", "value_key"),
)

_DERIVED: Final = (
    *("indexed_sequence", "indexed_version", "outlined_sequence", "outline_version"),
    *("summary", "key_points", "retrieval_index", "derived_title"),
)
"""Columns that the indexer and the outliner write after a run."""


async def rows_of(where: str | Path) -> dict[str, Rows]:
    """Return every row of every table."""
    if isinstance(where, Path):
        return _sqlite(where)
    connection = await asyncpg.connect(where)
    try:
        names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        found = {name: await connection.fetch(f"SELECT * FROM {name}") for (name,) in names}
    finally:
        await connection.close()
    return {name: _sorted([dict(row) for row in rows]) for name, rows in found.items()}


async def rows_without_projections(where: str | Path) -> dict[str, Rows]:
    """Return every row that a running server changes only on request: neither its clock nor what it derives."""
    tables = {
        name: rows
        for name, rows in (await rows_of(where)).items()
        if name not in ("store_clock", "workers") and not name.startswith("recall_")
    }
    for thread in tables["threads"]:
        if thread["title"] == thread["derived_title"]:
            thread["title"] = None
    for name in ("threads", "memories"):
        tables[name] = [{column: row[column] for column in row if column not in _DERIVED} for row in tables[name]]
    return tables


async def orphans_of(where: str | Path) -> dict[str, Rows]:
    """Return the rows that refer to a missing run, thread or value, except `run_ids`, which keeps deleted runs."""
    tables = await rows_of(where)
    named = [name for name, rows in tables.items() if rows and "run_key" in rows[0] and name != "run_ids"]
    of_runs = ((name, "run_key", "runs", "run_key") for name in named)
    found: dict[str, Rows] = {}
    for name, column, target, key in (*of_runs, *_REFERENCES):
        present = {row[key] for row in tables[target]} | {None}
        if lost := [row for row in tables[name] if row[column] not in present]:
            found.setdefault(name, []).extend(lost)
    return found


def _sqlite(path: Path) -> dict[str, Rows]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        return {
            name: _sorted([dict(row) for row in connection.execute(f"SELECT * FROM {name}")])
            for (name,) in names.fetchall()
        }


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=repr)
