"""Numbered points around every writing statement, at which a process can be killed.

    BEGIN        1 before it   2 after it
    statement    3 after it    4 after the next …
    COMMIT       5 before it   6 sent, no response yet (PostgreSQL)   7 after it, before it is published

It patches the drivers of the process: use it in victim processes only.
"""

import asyncio
import os
import signal
import sqlite3
from collections.abc import Callable
from itertools import count
from typing import Any, Final

_UNCOUNTED: Final = ("SELECT", "WITH RECURSIVE", "PRAGMA", "SAVEPOINT", "RELEASE", "ROLLBACK TO", "BEGIN ISOLATION")


class CommitPoints:
    """Counts the passed points, and kills this process at one of them."""

    def __init__(self, *, fatal: int | None = None) -> None:
        self.names: list[str] = []
        self._fatal = fatal
        self._numbers: count[int] | None = None

    def start(self) -> None:
        """Start counting."""
        self._numbers = count(1)

    def reach(self, name: str) -> None:
        """Pass the next point."""
        if self._numbers is None:
            return
        self.names.append(name)
        if next(self._numbers) == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, sql: str) -> None:
        """Pass the point before `sql`."""
        if sql.startswith(("BEGIN", "COMMIT")) and not sql.startswith(_UNCOUNTED):
            self.reach(f"before {_title(sql)}")

    def after(self, sql: str) -> None:
        """Pass the point after `sql`."""
        if not sql.startswith(_UNCOUNTED):
            self.reach(f"after {_title(sql)}")

    def number_sqlite(self) -> None:
        """Count around each statement of a connection that may write."""
        points = self

        class Numbered(sqlite3.Connection):
            def __init__(self, database: str, *arguments: Any, **options: Any) -> None:
                super().__init__(database, *arguments, **options)
                self._writes = "mode=ro" not in database

            def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
                return self._around(super().execute, sql, parameters)

            def executemany(self, sql: str, parameters: Any) -> sqlite3.Cursor:
                return self._around(super().executemany, sql, parameters)

            def _around(self, run: Callable[[str, Any], sqlite3.Cursor], sql: str, parameters: Any) -> sqlite3.Cursor:
                if not self._writes:
                    return run(sql, parameters)
                points.before(sql)
                cursor = run(sql, parameters)
                points.after(sql)
                return cursor

        connect = sqlite3.connect

        def numbered(database: str, **options: Any) -> sqlite3.Connection:
            return connect(database, factory=Numbered, **options)

        sqlite3.connect = numbered  # type: ignore[assignment]

    def number_postgres(self) -> None:
        """Count around each statement of every connection."""
        import asyncpg

        for method in ("execute", "fetch", "fetchrow"):
            setattr(asyncpg.Connection, method, self._numbered(getattr(asyncpg.Connection, method)))

    def _numbered(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def numbered(connection: Any, sql: str, *arguments: Any, **options: Any) -> Any:
            self.before(sql)
            if sql.startswith("COMMIT"):
                # Runs once the driver has written to the socket and waits for the response.
                asyncio.get_running_loop().call_soon(self.reach, f"sent {_title(sql)}")
            result = await method(connection, sql, *arguments, **options)
            self.after(sql)
            return result

        return numbered


def _title(sql: str) -> str:
    return " ".join(sql.split()[:3]).rstrip(";")
