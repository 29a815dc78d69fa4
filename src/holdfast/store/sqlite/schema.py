"""The schema of the SQLite file, brought up to date."""

import sqlite3
from collections.abc import Iterator

from holdfast.domain.errors import StoreReadOnly
from holdfast.domain.instant import Millis
from holdfast.store.migrations import known, missing
from holdfast.store.sqlite.transaction import STATEMENTS


def migrate(connection: sqlite3.Connection, *, now: Millis) -> None:
    """Apply what is missing, each migration in a transaction of its own."""
    connection.execute(STATEMENTS["make_migrations_table"].sql)
    for migration in missing(_applied(connection), known("sqlite")):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in _split(migration.sql):
                connection.execute(statement)
            connection.execute(STATEMENTS["add_migration"].sql, (migration.name, migration.checksum, now))
            connection.execute("COMMIT")
        except sqlite3.Error:
            connection.execute("ROLLBACK")
            raise


def check(connection: sqlite3.Connection) -> None:
    """Raise unless the schema is that of this version: who only reads cannot bring it up to date."""
    try:
        behind = missing(_applied(connection), known("sqlite"))
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise StoreReadOnly(f"the database has no schema of Holdfast: open it once to write ({exc})") from exc
    if behind:
        raise StoreReadOnly(f"the database is older than `{behind[0].name}`: open it once to write")


def _applied(connection: sqlite3.Connection) -> dict[str, str]:
    return {row["name"]: row["checksum"] for row in connection.execute(STATEMENTS["migrations"].sql)}


def _split(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement
