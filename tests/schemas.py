"""The schema of a database, read from its catalogue."""

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeAlias

import asyncpg
import msgspec

EXPRESSION: Final = "<expression>"
"""A place of an index that is not a column."""
Catalogue: TypeAlias = dict[str, list[tuple[Any, ...]]]

_SQLITE: Final = {
    "everything": "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1, 2",
    "migrations": "SELECT name, checksum FROM migrations ORDER BY name",
}
_POSTGRES: Final = {
    "columns": """
        SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity
          FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2""",
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
         WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2""",
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public' ORDER BY viewname",
    "functions": """
        SELECT proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1""",
    "storage": """
        SELECT relname, relkind::text, reloptions::text FROM pg_class WHERE relnamespace = 'public'::regnamespace
         ORDER BY relname""",
    "migrations": "SELECT name, checksum FROM migrations ORDER BY name",
}


async def catalogue_of(where: str | Path) -> Catalogue:
    """Return all definitions of a database, and its applied migrations."""
    if isinstance(where, Path):
        with closing(sqlite3.connect(where)) as connection:
            return {name: connection.execute(sql).fetchall() for name, sql in _SQLITE.items()}
    return {name: await fetch(where, sql) for name, sql in _POSTGRES.items()}


async def execute(where: str | Path, sql: str) -> None:
    """Run SQL on a database directly, without the store."""
    if isinstance(where, Path):
        with closing(sqlite3.connect(where)) as connection, connection:
            connection.execute(sql)
    else:
        await fetch(where, sql)


async def fetch(url: str, sql: str) -> list[tuple[Any, ...]]:
    """Query a PostgreSQL database directly, without the store."""
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(sql)]
    finally:
        await connection.close()


class Table(msgspec.Struct, frozen=True):
    """A table or a view as both databases can describe it."""

    columns: list[tuple[str, str, bool]]
    """Name, type, and whether it may be null."""
    unique: set[tuple[str, ...]]
    """The unique keys."""
    indexes: dict[str, tuple[tuple[str, ...], str]]
    """The columns of each further index, and its condition; a unique index with a condition is one of them."""


def sqlite_tables(connection: sqlite3.Connection) -> dict[str, Table]:
    """Return the tables and views of a SQLite database."""
    names = connection.execute(
        "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    return {name: _sqlite_table(connection, name, view=type_ == "view") for name, type_ in names}


def _sqlite_table(connection: sqlite3.Connection, table: str, *, view: bool) -> Table:
    info = connection.execute(f"PRAGMA table_info({table})").fetchall()
    columns = [(name, "" if view else type_, not (required or key)) for _, name, type_, required, _, key in info]
    unique = {tuple(name for _, name, *_, key in sorted(info, key=lambda row: row[5]) if key)}
    indexes = {}
    for _, index, is_unique, origin, _ in connection.execute(f"PRAGMA index_list({table})").fetchall():
        info = connection.execute(f"PRAGMA index_info({index})").fetchall()
        named = tuple(EXPRESSION if name is None else name for _, _, name in info)
        if origin == "c":
            (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", [index]).fetchone()
            indexes[index] = named, f"{'UNIQUE ' * is_unique}{_condition(sql.partition(' WHERE ')[2])}"
        else:
            unique.add(named)
    return Table([(name, type_, null or view) for name, type_, null in columns], unique - {()}, indexes)


async def postgres_tables(connection: asyncpg.Connection) -> dict[str, Table]:
    """Return the tables and views of a PostgreSQL database."""
    columns = await connection.fetch(
        """SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, c.relkind::text
             FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v')
            ORDER BY c.relname, a.attnum"""
    )
    indexes = await connection.fetch(
        """SELECT t.relname, i.relname, x.indisunique, pg_get_expr(x.indpred, x.indrelid),
                  ARRAY(SELECT COALESCE(a.attname::text, $1) FROM unnest(x.indkey) WITH ORDINALITY AS k (number, place)
                          LEFT JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.number ORDER BY k.place)
             FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
            WHERE t.relnamespace = 'public'::regnamespace""",
        EXPRESSION,
    )
    return {
        table: Table(
            [(name, "" if kind == "v" else type_, null) for of, name, type_, null, kind in columns if of == table],
            {tuple(named) for of, _, unique, condition, named in indexes if of == table and unique and not condition},
            {
                index: (tuple(named), f"{'UNIQUE ' * unique}{_condition(condition or '')}")
                for of, index, unique, condition, named in indexes
                if of == table and (condition or not unique)
            },
        )
        for table in _names(columns)
    }


def _names(columns: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(column[0] for column in columns))


def _condition(text: str) -> str:
    return re.sub(r"[()]|::text", "", text)
