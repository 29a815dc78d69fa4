"""The SQL of both databases: the same statements, all of them used, all of them valid, over the same tables."""

import ast
import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import asyncpg
import pytest

import holdfast.store
from holdfast.domain.instant import Millis
from holdfast.store import statements
from holdfast.store.postgres.database import migrate as migrate_postgres
from holdfast.store.postgres.transaction import STATEMENTS as POSTGRES
from holdfast.store.sqlite.file import connect
from holdfast.store.sqlite.file import migrate as migrate_sqlite
from holdfast.store.sqlite.transaction import STATEMENTS as SQLITE
from tests.schemas import Table, postgres_tables, sqlite_tables
from tests.support.postgres import PostgresServer

STORE: Final = Path(holdfast.store.__path__[0])
LOCKS: Final = {"lock_threads", "lock_named_threads", "lock_heads", "lock_migrations", "unlock_migrations"}
"""Statements of PostgreSQL only: SQLite has one writer and needs no locks."""
APPEND: Final = ({"append"}, {"fence"})
"""PostgreSQL appends in one statement, SQLite in two: `fence`, then `add_events`."""
KINDS: Final = {
    "bigint": "INTEGER",
    "BIGINT": "INTEGER",
    "text": "TEXT",
    "json": "TEXT",
    "bytea": "BLOB",
    "double precision": "REAL",
}
"""Column types of PostgreSQL, and the SQLite type of each."""
RUNNERS: Final = {"one", "all", "run", "many"}

_IN_BOTH: Final = POSTGRES.keys() & SQLITE.keys()
_CHANGE: Final = re.compile(r"INSERT INTO|DELETE FROM|UPDATE \w+ (\w+ )?SET")


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a SQLite database with its schema."""
    with closing(connect(tmp_path / "holdfast.db", read_only=False)) as connection:
        migrate_sqlite(connection, now=Millis(0))
        connection.row_factory = None
        yield connection


@pytest.fixture
async def postgresql(postgres: PostgresServer) -> AsyncIterator[asyncpg.Connection]:
    """Yield a PostgreSQL database with its schema."""
    connection = await asyncpg.connect(await postgres.create_database("statements"))
    try:
        await migrate_postgres(connection, now=Millis(0))
        yield connection
    finally:
        await connection.close()
        await postgres.drop_database("statements")


def test_both_databases_define_the_same_statements() -> None:
    ours, theirs = APPEND
    assert POSTGRES.keys() - LOCKS - ours == SQLITE.keys() - theirs
    assert POSTGRES.keys() >= LOCKS | ours
    assert SQLITE.keys() >= theirs


def test_a_statement_takes_the_same_parameters_in_the_same_order() -> None:
    differing = {
        name: (SQLITE[name].parameters, POSTGRES[name].parameters)
        for name in _IN_BOTH
        if SQLITE[name].parameters != POSTGRES[name].parameters
    }
    assert differing == {}


def test_a_statement_returns_rows_in_both_or_in_neither() -> None:
    assert [name for name in _IN_BOTH if _returns(SQLITE[name]) != _returns(POSTGRES[name])] == []


def test_every_statement_is_used() -> None:
    words = {word for module in _modules() for word in _strings(module)}
    assert (POSTGRES.keys() | SQLITE.keys()) - words == set()


def test_every_statement_name_in_the_code_exists() -> None:
    named = {name for module in _modules() for name in _named(module)}
    assert len(named) > 100
    assert named - POSTGRES.keys() - SQLITE.keys() == set()


def test_every_call_passes_the_parameters_of_its_statement() -> None:
    wrong = [
        f"{name} takes {sorted(POSTGRES[name].parameters)} and is passed {sorted(passed)}"
        for module in _modules()
        for name, passed in _calls(module)
        if set(POSTGRES[name].parameters) != passed
    ]
    assert wrong == []


def test_every_statement_compiles_on_sqlite(sqlite: sqlite3.Connection) -> None:
    for statement in SQLITE.values():
        sqlite.execute(f"EXPLAIN {statement.sql}", [None] * len(statement.parameters)).fetchall()


async def test_every_statement_prepares_on_postgresql(postgresql: asyncpg.Connection) -> None:
    for statement in POSTGRES.values():
        prepared = await postgresql.prepare(statement.sql)
        assert len(prepared.get_parameters()) == len(statement.parameters), statement.name
        assert _returns(statement) or prepared.get_attributes() == (), statement.name


async def test_both_databases_read_the_same_columns(sqlite: sqlite3.Connection, postgresql: asyncpg.Connection) -> None:
    for name in _IN_BOTH - {"lock_outbox"}:
        statement = SQLITE[name]
        if statement.sql.startswith(("SELECT", "WITH RECURSIVE")):
            found = sqlite.execute(statement.sql, [0] * len(statement.parameters)).description
            prepared = await postgresql.prepare(POSTGRES[name].sql)
            assert [column[0] for column in found] == [column.name for column in prepared.get_attributes()], name


async def test_both_schemas_have_the_same_tables_columns_and_indexes(
    sqlite: sqlite3.Connection, postgresql: asyncpg.Connection
) -> None:
    ours, theirs = sqlite_tables(sqlite), await postgres_tables(postgresql)
    # In SQLite, `events` has a named row id.
    ours["events"].columns.remove(("event_key", "INTEGER", False))
    ours["events"].unique.remove(("event_key",))
    assert {name: _kinds(table) for name, table in ours.items()} == {name: _kinds(t) for name, t in theirs.items()}


def test_the_schema_reader_reads_columns_keys_and_indexes(sqlite: sqlite3.Connection) -> None:
    tables = sqlite_tables(sqlite)
    assert {"run_view", "run_heads", "migrations"} <= tables.keys()
    assert tables["inbox"] == Table(
        [
            ("item_key", "INTEGER", False),
            ("run_key", "INTEGER", False),
            ("number", "INTEGER", False),
            ("kind", "TEXT", False),
            ("data", "TEXT", False),
            ("created_by", "TEXT", True),
            ("created_at", "INTEGER", False),
        ],
        {("item_key",), ("run_key", "number")},
        {},
    )
    assert tables["run_heads"].indexes["run_heads_ready"] == (
        ("pool", "space_key", "queue_key", "run_key"),
        "status = 'queued' AND wait_until IS NULL",
    )


def test_a_repeated_parameter_is_passed_once() -> None:
    assert SQLITE["head"].sql == "SELECT * FROM run_heads WHERE run_key = ?1"
    assert POSTGRES["head"].sql == "SELECT * FROM run_heads WHERE run_key = $1"
    append = POSTGRES["append"]
    assert append.sql.count(f"${append.parameters.index('run_key') + 1}:") == 2


def test_migrations_are_numbered_without_gaps_and_are_the_same_in_both_databases() -> None:
    names = [name for name, _ in statements.migrations("sqlite")]
    assert names == [name for name, _ in statements.migrations("postgres")]
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    assert all(re.fullmatch(r"\d{4}_[a-z_]+", name) for name in names)


def _returns(statement: statements.Statement) -> bool:
    return "RETURNING" in statement.sql or _CHANGE.search(statement.sql) is None


def _kinds(table: Table) -> Table:
    columns = [(name, KINDS.get(kind, kind), null) for name, kind, null in table.columns]
    return Table(columns, table.unique, table.indexes)


def _modules() -> list[ast.Module]:
    return [ast.parse(path.read_text()) for path in sorted(STORE.rglob("*.py"))]


def _strings(node: ast.AST) -> Iterator[str]:
    for found in ast.walk(node):
        if isinstance(found, ast.Constant) and isinstance(found.value, str):
            yield found.value


def _named(module: ast.Module) -> Iterator[str]:
    """Yield the statement names that are run or looked up."""
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Attribute(attr=attr), args=[name, *_]) if attr in RUNNERS:
                yield from _strings(name)
            case ast.Call(func=ast.Name(id="find_row"), args=[_, name, _]):
                yield from _strings(name)
            case ast.Subscript(value=ast.Name(id="STATEMENTS"), slice=name):
                yield from _strings(name)
            case _:
                pass


def _calls(module: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """Yield the name and the parameters of each call that writes them all out."""
    for node in ast.walk(module):
        match node:
            case (
                ast.Call(func=ast.Attribute(attr="one" | "all" | "run"), args=[name], keywords=passed)
                | ast.Call(func=ast.Name(id="find_row"), args=[_, name, _], keywords=passed)
            ):
                if all(keyword.arg is not None for keyword in passed):
                    for statement in _strings(name):
                        yield statement, {keyword.arg or "" for keyword in passed}
            case _:
                pass
