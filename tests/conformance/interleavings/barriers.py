"""Two writers on PostgreSQL whose statements wait at barriers until the test releases them."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

import asyncpg
import msgspec
import pytest

from holdfast.bus.local import LocalBus
from holdfast.ports.runtime import Clock
from holdfast.store.postgres import database
from holdfast.store.postgres.transaction import STATEMENTS, PostgresTransaction, Sessions
from holdfast.store.statements import migrations
from holdfast.store.store import Store
from holdfast.store.transaction import JournalEntry, Row

COMMIT: Final = "commit"

_TABLES: Final = frozenset(re.findall(r"CREATE TABLE (\w+)", "".join(text for _, text in migrations("postgres"))))
_PLAIN_READ: Final = re.compile(r"SELECT|WITH RECURSIVE")
_LOCKS: Final = re.compile(r"\bFOR (NO KEY )?(UPDATE|SHARE|KEY SHARE)\b|pg_advisory|\b(INSERT|UPDATE|DELETE)\b")


class Statement(msgspec.Struct, frozen=True):
    """The next statement of a writer."""

    name: str

    def swaps_with(self, other: "Statement") -> bool:
        """Return whether the order of two writers' statements makes no difference.

        A read sees only committed rows. Writes and locks conflict only in a table that both statements use.
        """
        if COMMIT in (self.name, other.name):
            return False
        return self._only_reads or other._only_reads or self._tables.isdisjoint(other._tables)

    @property
    def _sql(self) -> str:
        return STATEMENTS[self.name].sql

    @property
    def _only_reads(self) -> bool:
        return _PLAIN_READ.match(self._sql) is not None and _LOCKS.search(self._sql) is None

    @property
    def _tables(self) -> frozenset[str]:
        return _TABLES.intersection(re.findall(r"\w+", self._sql))


class Barrier:
    """A barrier at which a writer stops before each statement and before its commit."""

    def __init__(self) -> None:
        self.at: Statement | None = None
        self.pid = 0
        self._passed = asyncio.Event()

    async def wait_before(self, statement: str, pid: int) -> None:
        """Wait until the test releases the barrier."""
        self.at, self.pid = Statement(statement), pid
        self._passed.clear()
        await self._passed.wait()

    def release(self) -> None:
        """Release the writer to run its next statement."""
        self.at = None
        self._passed.set()


class BarrierTransaction(PostgresTransaction):
    """A transaction that stops before each of its statements."""

    __slots__ = ("_barrier",)

    def __init__(self, barrier: Barrier, inner: PostgresTransaction) -> None:
        super().__init__(inner._block, inner._clock, use_local_clock=inner._use_local_clock)
        self._barrier = barrier

    async def wait_before(self, statement: str) -> None:
        await self._barrier.wait_before(statement, self._block.pid)

    async def lock(self, *, threads: Iterable[int] = (), runs: Iterable[int] = ()) -> bool:
        if thread_keys := list(threads):
            await self.wait_before("lock_threads")
            await super().lock(threads=thread_keys)
        run_keys = list(runs)
        if run_keys:
            await self.wait_before("lock_heads")
        return await super().lock(runs=run_keys)

    async def one(self, name: str, /, **parameters: Any) -> Row | None:
        await self.wait_before(name)
        return await super().one(name, **parameters)

    async def all(self, name: str, /, **parameters: Any) -> Sequence[Row]:
        await self.wait_before(name)
        return await super().all(name, **parameters)

    async def many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> Sequence[Row]:
        if rows:
            await self.wait_before(name)
        return await super().many(name, rows)

    async def append(self, entries: Sequence[JournalEntry], *, alone: bool = False) -> Sequence[Row]:
        await self.wait_before("append")
        return await super().append(entries, alone=alone)


class BarrierSessions(Sessions):
    """Sessions whose write transactions stop at a barrier."""

    def __init__(self, barrier: Barrier, pool: asyncpg.Pool, **options: Any) -> None:
        super().__init__(pool, **options)
        self._barrier = barrier

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[PostgresTransaction]:
        async with super().writing() as inner:
            gated = BarrierTransaction(self._barrier, inner)
            yield gated
            await gated.wait_before(COMMIT)


@asynccontextmanager
async def open_barrier_store(barrier: Barrier, url: str, *, clock: Clock) -> AsyncIterator[Store]:
    """Open a store whose writes stop at `barrier`."""
    async with AsyncExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(database, "Sessions", partial(BarrierSessions, barrier))
            opening = database.open_database(url, clock=clock, use_local_clock=True, bus=LocalBus(), connections=3)
            opened = await stack.enter_async_context(opening)
        yield Store(opened)
