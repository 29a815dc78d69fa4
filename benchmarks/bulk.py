"""Bulk inserts of rows to measure on."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import asyncpg

Columns: TypeAlias = Mapping[str, str]

RUNS: Final[Columns] = {
    "run_key": "BIGINT",
    "space_key": "BIGINT",
    "thread_key": "BIGINT",
    "id": "TEXT",
    "mode": "TEXT",
    "agent_type": "TEXT",
    "base_key": "BIGINT",
    "chain_depth": "BIGINT",
    "jump_key": "BIGINT",
    "nesting": "BIGINT",
    "priority": "TEXT",
    "tags": "JSON",
    "limits": "JSON",
    "created_at": "BIGINT",
}
RUN_IDS: Final[Columns] = {"space_key": "BIGINT", "id": "TEXT", "run_key": "BIGINT"}
RUN_HEADS: Final[Columns] = {
    "run_key": "BIGINT",
    "status": "TEXT",
    "head_start": "BIGINT",
    "queue_key": "BIGINT",
    "queued_at": "BIGINT",
    "last_event_seq": "BIGINT",
}
MESSAGES: Final[Columns] = {
    "thread_key": "BIGINT",
    "run_key": "BIGINT",
    "id": "TEXT",
    "sequence": "BIGINT",
    "role": "TEXT",
    "content": "JSON",
    "metadata": "JSON",
    "created_at": "BIGINT",
}
EVENTS: Final[Columns] = {
    "run_key": "BIGINT",
    "seq": "BIGINT",
    "type": "TEXT",
    "data": "JSON",
    "created_at": "BIGINT",
}
OUTBOX: Final[Columns] = {
    "space_key": "BIGINT",
    "kind": "TEXT",
    "run_id": "TEXT",
    "thread_id": "TEXT",
    "data": "JSON",
    "created_at": "BIGINT",
}


def insert(table: str, columns: Columns, database: str | Path) -> str:
    """Return an insert statement: for `executemany` in SQLite, with arrays in PostgreSQL."""
    names = ", ".join(columns)
    if isinstance(database, Path):
        return f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"
    arrays = ", ".join(f"${index}::{kind}[]" for index, kind in enumerate(columns.values(), start=1))
    return f"INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays})"


def run_row(key: int, *, base: int | None = None, depth: int = 0, jump: int | None = None) -> tuple[Any, ...]:
    """Return the row of a minimal run."""
    return key, 1, 1, f"run_{key}", "chat", "default", base, depth, jump, 0, "normal", "[]", "{}", 1


async def add(database: str | Path, table: str, columns: Columns, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows into a database without other writers."""
    statement = insert(table, columns, database)
    if isinstance(database, Path):
        connection = sqlite3.connect(database)
        with connection:
            connection.executemany(statement, rows)
        connection.close()
        return
    server = await asyncpg.connect(database)
    await server.execute(statement, *map(list, zip(*rows, strict=True)))
    await server.execute(f"ANALYZE {table}")
    await server.close()


async def execute(database: str | Path, statement: str) -> None:
    """Run a statement on a database without other writers."""
    if isinstance(database, Path):
        connection = sqlite3.connect(database)
        with connection:
            connection.execute(statement)
        connection.close()
        return
    server = await asyncpg.connect(database)
    await server.execute(statement)
    await server.close()
