"""A transaction on PostgreSQL."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

import asyncpg

from holdfast.domain.ids import ENTROPY_BYTES, RunId, SpaceId, ThreadId, sortable_id
from holdfast.domain.instant import Millis
from holdfast.store.statements import load
from holdfast.store.transaction import Row
from holdfast.store.waking import Waking

STATEMENTS: Final = load("postgres", lambda index: f"${index}")


class PostgresTransaction:
    """`Transaction`."""

    __slots__ = ("_connection", "lease_now", "now", "waking")

    def __init__(self, connection: asyncpg.Connection, *, now: Millis, lease_now: Millis | None) -> None:
        self._connection = connection
        self.now = now
        self.lease_now = lease_now
        self.waking = Waking()

    async def lock_named(self, threads: Sequence[tuple[SpaceId, ThreadId]]) -> None:
        """Take row locks, by the keys that the names stand for."""
        await self.many("lock_named_threads", threads)

    async def lock(self, *, threads: Iterable[int] = (), runs: Iterable[int] = ()) -> bool:
        """Take row locks, in the one order that everybody takes them in."""
        if thread_keys := list(threads):
            await self._connection.fetch(STATEMENTS["lock_threads"].sql, thread_keys)
        if run_keys := list(runs):
            await self._connection.fetch(STATEMENTS["lock_heads"].sql, run_keys)
        return True

    async def one(self, name: str, /, **parameters: Any) -> Row | None:
        """Run a statement and return its only row."""
        statement = STATEMENTS[name]
        row: Row | None = await self._connection.fetchrow(
            statement.sql, *[parameters[parameter] for parameter in statement.parameters]
        )
        return row

    async def all(self, name: str, /, **parameters: Any) -> Sequence[Row]:
        """Run a statement and return its rows."""
        statement = STATEMENTS[name]
        rows: Sequence[Row] = await self._connection.fetch(
            statement.sql, *[parameters[parameter] for parameter in statement.parameters]
        )
        return rows

    async def run(self, name: str, /, **parameters: Any) -> None:
        """Run a statement that returns nothing."""
        await self.one(name, **parameters)

    async def many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> Sequence[Row]:
        """Run a statement once, with an array for each parameter."""
        if not rows:
            return []
        found: Sequence[Row] = await self._connection.fetch(STATEMENTS[name].sql, *map(list, zip(*rows, strict=True)))
        return found

    def new_id(self, prefix: str) -> str:
        """Make an id."""
        return sortable_id(prefix, at=self.now, entropy=os.urandom(ENTROPY_BYTES))

    def wake(self, *, run: tuple[SpaceId, RunId] | None = None, queue: bool = False, news: bool = False) -> None:
        """Remember whom to tell."""
        self.waking.add(run=run, queue=queue, news=news)
