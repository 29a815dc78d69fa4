"""The schema of the SQLite file, brought up to date."""

import sqlite3
from collections.abc import Iterator

from holdfast.domain.instant import Millis
from holdfast.store.migrations import known, missing
from holdfast.store.sqlite.transaction import STATEMENTS


def migrate(connection: sqlite3.Connection, *, now: Millis) -> None:
    """Apply what is missing, each migration in a transaction of its own."""
    connection.execute(STATEMENTS["make_migrations_table"].sql)
    applied = {row["name"]: row["checksum"] for row in connection.execute(STATEMENTS["migrations"].sql)}
    for migration in missing(applied, known("sqlite")):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in _split(migration.sql):
                connection.execute(statement)
            connection.execute(STATEMENTS["add_migration"].sql, (migration.name, migration.checksum, now))
            connection.execute("COMMIT")
        except sqlite3.Error:
            connection.execute("ROLLBACK")
            raise


def _split(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
