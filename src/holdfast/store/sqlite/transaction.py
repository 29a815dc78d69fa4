"""A transaction on SQLite: nothing in it ever waits, so an operation runs from start to end in one go."""

import os
import sqlite3
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Final, TypeVar, cast

from holdfast.domain.ids import ENTROPY_BYTES, RunId, SpaceId, ThreadId, sortable_id
from holdfast.domain.instant import Millis
from holdfast.store.statements import load
from holdfast.store.transaction import Operation
from holdfast.store.waking import Waking

T = TypeVar("T")

STATEMENTS: Final = load("sqlite", lambda index: f"?{index}")


class SqliteTransaction:
    """`Transaction`."""

    __slots__ = ("_connection", "lease_now", "now", "waking")

    def __init__(self, connection: sqlite3.Connection, now: Millis) -> None:
        self._connection = connection
        self.now = now
        self.lease_now: Millis | None = now
        self.waking = Waking()

    async def lock_named(self, threads: Sequence[tuple[SpaceId, ThreadId]]) -> None:
        """Do nothing: there is one writer."""

    async def lock(self, *, threads: Iterable[int] = (), runs: Iterable[int] = ()) -> bool:
        """Do nothing: there is one writer."""
        return False

    async def one(self, name: str, /, **parameters: Any) -> sqlite3.Row | None:
        """Run a statement and return its only row."""
        statement = STATEMENTS[name]
        values = [parameters[parameter] for parameter in statement.parameters]
        rows = self._connection.execute(statement.sql, values).fetchall()
        return rows[0] if rows else None

    async def all(self, name: str, /, **parameters: Any) -> list[sqlite3.Row]:
        """Run a statement and return its rows."""
        statement = STATEMENTS[name]
        values = [parameters[parameter] for parameter in statement.parameters]
        return self._connection.execute(statement.sql, values).fetchall()

    async def run(self, name: str, /, **parameters: Any) -> None:
        """Run a statement that returns nothing."""
        statement = STATEMENTS[name]
        self._connection.execute(statement.sql, [parameters[parameter] for parameter in statement.parameters])

    async def many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> list[sqlite3.Row]:
        """Run a statement for each row."""
        if not rows:
            return []
        statement = STATEMENTS[name]
        if statement.returns:
            execute = self._connection.execute
            return [row for values in rows for row in execute(statement.sql, values).fetchall()]
        self._connection.executemany(statement.sql, rows)
        return []

    def new_id(self, prefix: str) -> str:
        """Make an id."""
        return sortable_id(prefix, at=self.now, entropy=os.urandom(ENTROPY_BYTES))

    def wake(self, *, run: tuple[SpaceId, RunId] | None = None, queue: bool = False, news: bool = False) -> None:
        """Remember whom to tell."""
        self.waking.add(run=run, queue=queue, news=news)


def run(operation: Operation[T], transaction: SqliteTransaction) -> T:
    """Run an operation to its end."""
    return finish(operation(transaction))


def finish(awaitable: Awaitable[T]) -> T:
    """Drive something that never waits."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as end:
        return cast(T, end.value)
    raise RuntimeError("an operation waited for something other than its transaction")
