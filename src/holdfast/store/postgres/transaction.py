"""PostgreSQL transactions: statements, row locks, commit and rollback on pooled connections."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final, TypeVar

import asyncpg

from holdfast.domain.errors import OutcomeUnknown, Unavailable
from holdfast.domain.ids import ENTROPY_BYTES, SpaceId, ThreadId, sortable_id
from holdfast.domain.instant import Millis
from holdfast.ports.bus import Bus
from holdfast.ports.runtime import Clock
from holdfast.store.postgres.errors import DRIVER_ERRORS, translate_error
from holdfast.store.statements import load_statements
from holdfast.store.transaction import JournalEntry, NewRunRow, Operation, RetryTransaction, Row, WakeHints

ROLLBACK_TIMEOUT_SECONDS: Final = 5.0
"""Time after which a connection is closed instead of rolled back."""
VACUUM_TIMEOUT_SECONDS: Final = 3_600.0
MAX_TRANSACTION_ATTEMPTS: Final = 20
"""Attempts at a transaction that conflicts with others: more than a pool has connections, which may all be dead."""
_SESSION_ENDED: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InterfaceError,
    ConnectionError,
)
"""The errors of a statement on a session that the server has ended."""

T = TypeVar("T")


class LazyTransaction:
    """A transaction that starts with its first statement, so that a single statement can run without one."""

    def __init__(self, connection: asyncpg.Connection, *, reads: bool = False) -> None:
        self._connection = connection
        self._transaction = connection.transaction(isolation="repeatable_read" if reads else None, readonly=reads)
        self._started = False
        self._reads = reads
        self.committing = False
        """Whether the outcome is unknown if the connection breaks now."""

    @property
    def pid(self) -> int:
        """The process id of the server's backend."""
        pid: int = self._connection.get_server_pid()
        return pid

    async def fetch(self, sql: str, *values: Any) -> Sequence[Row]:
        """Run a statement and return its rows."""
        if not self._started:
            self._started = True  # before the call, because an interrupted call may have started it
            await self._transaction.start()
        rows: Sequence[Row] = await self._connection.fetch(sql, *values)
        return rows

    async def fetch_autocommit(self, sql: str, *values: Any) -> Sequence[Row]:
        """Run a single statement that commits itself, and return its rows."""
        self.committing = True
        try:
            rows: Sequence[Row] = await self._connection.fetch(sql, *values)
        except asyncpg.PostgresError as exc:  # a statement that the server rejected has no effect
            self.committing = isinstance(exc, asyncpg.PostgresConnectionError)
            raise
        self.committing = False
        return rows

    async def commit(self) -> None:
        """Commit, if the transaction has started."""
        if self._started:
            self.committing = not self._reads  # a read has no outcome, and can run again
            await self._transaction.commit()
            self.committing = False

    async def rollback(self, error: BaseException) -> None:
        """Roll back; if that fails, close the connection, which makes the server roll back."""
        try:
            if isinstance(error, TimeoutError | asyncpg.InternalClientError):
                # A rollback would wait for the response to the statement that timed out. A connection on which the
                # server sent an error while no statement ran stays busy until it is closed.
                raise error
            if self._started:
                # Not `wait_for`: before Python 3.12 it may lose a cancellation.
                async with asyncio.timeout(ROLLBACK_TIMEOUT_SECONDS):
                    await self._transaction.rollback()
        except DRIVER_ERRORS:
            self._terminate()
        except asyncio.CancelledError:  # the caller was cancelled again
            self._terminate()
            raise

    def _terminate(self) -> None:
        with suppress(asyncpg.InterfaceError):  # the driver has noticed the end of the session, and released it
            self._connection.terminate()


STATEMENTS: Final = load_statements("postgres", lambda index: f"${index}")


class PostgresTransaction:
    """Implements `Transaction`."""

    __slots__ = ("_block", "_clock", "_use_local_clock", "new_runs", "lease_now", "now", "hints")

    def __init__(self, block: LazyTransaction, clock: Clock, *, use_local_clock: bool) -> None:
        """Begin; with `use_local_clock` leases are measured by `clock`."""
        self._block = block
        self._clock = clock
        self._use_local_clock = use_local_clock
        self._read_clock()
        self.new_runs: dict[int, NewRunRow] = {}
        self.hints = WakeHints()

    async def lock_threads_by_name(self, threads: Sequence[tuple[SpaceId, ThreadId]]) -> None:
        """Lock thread rows in the order of their keys."""
        await self.many("lock_named_threads", threads)
        self._read_clock()

    async def lock(self, *, threads: Iterable[int] = (), runs: Iterable[int] = ()) -> bool:
        """Lock rows in the order that every transaction uses."""
        if thread_keys := list(threads):
            await self._block.fetch(STATEMENTS["lock_threads"].sql, thread_keys)
        if run_keys := list(runs):
            await self._block.fetch(STATEMENTS["lock_heads"].sql, run_keys)
        self._read_clock()
        return True

    async def one(self, name: str, /, **parameters: Any) -> Row | None:
        """Run a statement and return its only row."""
        rows = await self._block.fetch(STATEMENTS[name].sql, *_ordered(name, parameters))
        return rows[0] if rows else None

    async def all(self, name: str, /, **parameters: Any) -> Sequence[Row]:
        """Run a statement and return its rows."""
        return await self._block.fetch(STATEMENTS[name].sql, *_ordered(name, parameters))

    async def run(self, name: str, /, **parameters: Any) -> None:
        """Run a statement that returns nothing."""
        await self.one(name, **parameters)

    async def many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> Sequence[Row]:
        """Run a statement once, with an array for each parameter."""
        if not rows:
            return []
        return await self._block.fetch(STATEMENTS[name].sql, *map(list, zip(*rows, strict=True)))

    async def append(self, entries: Sequence[JournalEntry], *, alone: bool = False) -> Sequence[Row]:
        """Fence, number and add events in one statement, which runs without a transaction if `alone`."""
        columns = {
            "run_key": [entry.run_key for entry in entries],
            "lease_number": [entry.lease_number for entry in entries],
            "added": [len(entry.events) for entry in entries],
            "consumed": [entry.consumed for entry in entries],
            "progresses": [entry.makes_progress for entry in entries],
            "stops": [entry.stops for entry in entries],
            "run_of_event": [entry.run_key for entry in entries for _ in entry.events],
            "following": [following for entry in entries for following in reversed(range(len(entry.events)))],
            "type": [type_ for entry in entries for type_, _ in entry.events],
            "data": [data for entry in entries for _, data in entry.events],
            "now": self.now,
        }
        fetch = self._block.fetch_autocommit if alone else self._block.fetch
        return await fetch(STATEMENTS["append"].sql, *_ordered("append", columns))

    def _read_clock(self) -> None:
        """Set the time to now: after waiting for a lock, the transaction must be later than those it waited for."""
        self.now = self._clock.now()
        self.lease_now: Millis | None = self.now if self._use_local_clock else None

    def new_id(self, prefix: str) -> str:
        """Generate an id."""
        return sortable_id(prefix, at=self.now, entropy=os.urandom(ENTROPY_BYTES))


def _ordered(name: str, parameters: Mapping[str, Any]) -> list[Any]:
    return [parameters[parameter] for parameter in STATEMENTS[name].parameters]


class Sessions:
    """Opens the transactions of one process."""

    def __init__(self, pool: asyncpg.Pool, *, clock: Clock, use_local_clock: bool, bus: Bus) -> None:
        self._pool = pool
        self._clock = clock
        self._use_local_clock = use_local_clock
        self._bus = bus

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[PostgresTransaction]:
        """Open a read transaction on one snapshot."""
        block: LazyTransaction | None = None
        try:
            async with self._block(reads=True) as block:
                yield PostgresTransaction(block, self._clock, use_local_clock=self._use_local_clock)
        except DRIVER_ERRORS as exc:
            raise _session_error(exc, block) from exc

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[PostgresTransaction]:
        """Open a write transaction; commit it, and publish its wake-up hints.

        If the connection breaks before the commit, nothing was written and the transaction can be retried; if it
        breaks during it, the outcome is unknown.
        """
        block: LazyTransaction | None = None
        try:
            async with self._block() as block:
                transaction = PostgresTransaction(block, self._clock, use_local_clock=self._use_local_clock)
                yield transaction
            hint = transaction.hints.build()
            if hint is not None:
                self._bus.publish(hint)
        except DRIVER_ERRORS as exc:
            raise _session_error(exc, block) from exc

    async def vacuum(self) -> None:
        """Vacuum the tables, which cannot be done in a transaction."""
        try:
            async with self._pool.acquire() as connection:
                await connection.execute("VACUUM", timeout=VACUUM_TIMEOUT_SECONDS)
        except DRIVER_ERRORS as exc:
            raise translate_error(exc) from exc

    async def read_with_retry(self, operation: Operation[T]) -> T:
        """Run an operation in a read transaction; retry it if its connection was closed before."""
        return await _with_retry(self.reading, operation)

    async def write_with_retry(self, operation: Operation[T]) -> T:
        """Run an operation in a write transaction; retry it if it conflicts with others."""
        return await _with_retry(self.writing, operation)

    @asynccontextmanager
    async def _block(self, *, reads: bool = False) -> AsyncIterator[LazyTransaction]:
        """Open a transaction on a pooled connection; an error while releasing the connection is ignored."""
        connection = await self._pool.acquire()
        block = LazyTransaction(connection, reads=reads)
        try:
            yield block
            await block.commit()
        except BaseException as exc:
            await block.rollback(exc)
            raise
        finally:
            with suppress(*DRIVER_ERRORS):
                await self._pool.release(connection)


def _session_error(exc: BaseException, block: LazyTransaction | None) -> BaseException:
    """Return what an error of the driver means for the transaction of `block`, or for acquiring its connection.

    A server ends sessions that were idle in a transaction for too long, which happens to a process that was stopped
    or starved. Before the commit it has written nothing then.
    """
    error = translate_error(exc)
    if block is None or not isinstance(error, Unavailable):
        return error
    if block.committing:
        return OutcomeUnknown("the connection broke during the commit: check the result before you retry")
    if isinstance(exc, _SESSION_ENDED):
        return RetryTransaction("the server ended the session before the commit")
    return error


async def _with_retry(
    session: Callable[[], AbstractAsyncContextManager[PostgresTransaction]], operation: Operation[T]
) -> T:
    for _ in range(MAX_TRANSACTION_ATTEMPTS):
        try:
            async with session() as transaction:
                return await operation(transaction)
        except RetryTransaction:
            continue
    raise Unavailable(f"the transaction conflicted or lost its connection {MAX_TRANSACTION_ATTEMPTS} times: try again")
