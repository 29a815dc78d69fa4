"""Looking at a database file without touching it, also while a process writes to it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Final

from holdfast.store.migrations import known
from holdfast.store.sqlite.connection import connect, translate
from holdfast.store.sqlite.schema import check

PATIENCE: Final = 20.0
"""Seconds after which a look through a large file is ended."""

_MOST_PROBLEMS: Final = 3
_STEPS: Final = 10_000
"""Instructions of SQLite between two looks at the clock."""


def check_schema(path: Path) -> str:
    """Return the version of the schema, or raise what is wrong with the file."""
    try:
        with closing(connect(path, read_only=True)) as connection:
            check(connection)
    except sqlite3.Error as exc:
        raise translate(exc) from exc
    return known("sqlite")[-1].name


def damage(path: Path, *, patience: float = PATIENCE) -> list[str] | None:
    """Return what is damaged in a file, or nothing where that took too long to see."""
    until = monotonic() + patience
    try:
        with closing(connect(path, read_only=True)) as connection:
            connection.set_progress_handler(lambda: monotonic() > until, _STEPS)
            rows = connection.execute(f"PRAGMA quick_check({_MOST_PROBLEMS})").fetchall()
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return None
        raise translate(exc) from exc
    except sqlite3.Error as exc:
        raise translate(exc) from exc
    found = [str(row[0]) for row in rows]
    return [] if found == ["ok"] else found
