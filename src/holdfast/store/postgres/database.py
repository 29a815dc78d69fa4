"""The PostgreSQL database: connection pool, group commit, schema migrations and a read-only inspection.

One process at a time applies migrations, under an advisory lock.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar

import asyncpg
import msgspec

from holdfast.concurrency import start_background
from holdfast.domain.errors import Unavailable
from holdfast.domain.instant import Millis
from holdfast.ports.bus import Bus
from holdfast.ports.runtime import Clock
from holdfast.store.postgres.errors import DRIVER_ERRORS, translate_error
from holdfast.store.postgres.transaction import STATEMENTS, Sessions
from holdfast.store.statements import known_migrations, missing_migrations
from holdfast.store.transaction import Batch, BatchItem, BatchResult, Operation, resolve

T = TypeVar("T")

MAX_BATCH_ITEMS: Final = 512
DEFAULT_CONNECTIONS: Final = 10
CONNECT_TIMEOUT_SECONDS: Final = 10.0
COMMAND_TIMEOUT_SECONDS: Final = 30.0
"""A server that sends nothing for this long is considered dead, so that no caller hangs."""
IDLE_IN_TRANSACTION_TIMEOUT_MS: Final = 5_000
"""The longest that a process stopped in the middle of a transaction keeps its locks."""


class PostgresDatabase:
    """Implements `Database`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._queues: dict[int, tuple[_BatchQueue, asyncio.Task[None]]] = {}
        self._closed = False

    async def read(self, operation: Operation[T], *, quick: bool = False) -> T:
        """Run an operation on a snapshot."""
        return await self._sessions.read_with_retry(operation)

    async def write(self, operation: Operation[T], *, enqueues: bool = False) -> T:
        """Run an operation in a transaction, with retries; claims never join it."""
        return await self._sessions.write_with_retry(operation)

    async def write_and_scrub(self, operation: Operation[T]) -> T:
        """Run an operation, then let the server reclaim the space of what it deleted."""
        result = await self._sessions.write_with_retry(operation)
        await self._sessions.vacuum()
        await self._sessions.write_with_retry(lambda tx: tx.run("scrub_done"))
        return result

    def submit_to_batch(self, batch: Batch[BatchItem, BatchResult], item: BatchItem) -> Awaitable[BatchResult]:
        """Apply an item together with other waiting items; each kind of batch has a queue and a task."""
        if self._closed:
            raise Unavailable("the store is closed")
        if id(batch) not in self._queues:
            queue = _BatchQueue(self._sessions, batch)
            task = start_background(queue.work(), name="holdfast-batch", ended_by="PostgresDatabase.close")
            self._queues[id(batch)] = queue, task
        return self._queues[id(batch)][0].put(item)

    async def close(self) -> None:
        """Accept no more items, and write those that are queued."""
        self._closed = True
        for queue, task in self._queues.values():
            queue.close()
            await task


class _Job(msgspec.Struct, eq=False):
    """An item and the future of its caller."""

    item: Any
    future: asyncio.Future[Any]


class _BatchQueue:
    """Items of one batch kind, applied in order: while one batch is written, the queue collects the next one."""

    def __init__(self, sessions: Sessions, batch: Batch[Any, Any]) -> None:
        self._sessions = sessions
        self._batch = batch
        self._waiting: deque[_Job] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    def put(self, item: Any) -> asyncio.Future[Any]:
        """Add an item."""
        job = _Job(item, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._arrived.set()
        return job.future

    def close(self) -> None:
        """Stop once the queue is empty."""
        self._closed = True
        self._arrived.set()

    async def work(self) -> None:
        """Write batches until closed."""
        while self._waiting or not self._closed:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                await self._write(self._take())

    def _take(self) -> list[_Job]:
        """Take items with different keys; the second item of a key waits for the next batch."""
        taken: list[_Job] = []
        keys = set()
        while self._waiting and len(taken) < MAX_BATCH_ITEMS:
            key = self._batch.key(self._waiting[0].item)
            if key in keys:
                break
            keys.add(key)
            taken.append(self._waiting.popleft())
        return taken

    async def _write(self, jobs: Sequence[_Job]) -> None:
        """Write a batch; if it fails for a reason that one of its items may have caused, write them one by one."""
        items = [job.item for job in jobs]
        try:
            outcomes = await self._sessions.write_with_retry(lambda tx: self._batch.apply(tx, items))
        except Unavailable as exc:
            for job in jobs:
                resolve(job.future, exc)
        except Exception as exc:  # noqa: BLE001 - every error must reach the caller and not end the queue
            if len(jobs) == 1:
                resolve(jobs[0].future, exc)
            else:
                for job in jobs:
                    await self._write([job])
        else:
            for job, outcome in zip(jobs, outcomes, strict=True):
                resolve(job.future, outcome)


@asynccontextmanager
async def open_database(
    url: str, *, clock: Clock, use_local_clock: bool, bus: Bus, connections: int = DEFAULT_CONNECTIONS
) -> AsyncIterator[PostgresDatabase]:
    """Connect and migrate the schema. With `use_local_clock`, leases are measured by `clock`, not by the server's."""
    async with AsyncExitStack() as stack:
        try:
            pool = await open_pool(url, connections)
            stack.push_async_callback(_close_pool, pool)
            async with pool.acquire() as connection:
                await migrate(connection, now=clock.now())
        except DRIVER_ERRORS as exc:
            raise translate_error(exc) from exc
        yield await stack.enter_async_context(database_on(pool, clock=clock, use_local_clock=use_local_clock, bus=bus))


@asynccontextmanager
async def open_single_connection(
    url: str, *, clock: Clock, use_local_clock: bool, bus: Bus
) -> AsyncIterator[PostgresDatabase]:
    """Open a database, whose schema is up to date, over one connection."""
    try:
        pool = await open_pool(url, connections=1)
    except DRIVER_ERRORS as exc:
        raise translate_error(exc) from exc
    try:
        async with database_on(pool, clock=clock, use_local_clock=use_local_clock, bus=bus) as database:
            yield database
    finally:
        await _close_pool(pool)


@asynccontextmanager
async def database_on(
    pool: asyncpg.Pool, *, clock: Clock, use_local_clock: bool, bus: Bus
) -> AsyncIterator[PostgresDatabase]:
    """Open a database over an existing pool; its schema is up to date."""
    database = PostgresDatabase(Sessions(pool, clock=clock, use_local_clock=use_local_clock, bus=bus))
    try:
        yield database
    finally:
        await database.close()


async def open_pool(url: str, connections: int = DEFAULT_CONNECTIONS) -> asyncpg.Pool:
    """Open a connection pool."""
    return await asyncpg.create_pool(
        url,
        min_size=1,
        max_size=connections,
        timeout=CONNECT_TIMEOUT_SECONDS,
        command_timeout=COMMAND_TIMEOUT_SECONDS,
        statement_cache_size=512,
        reset=_skip_reset,
        server_settings={
            "application_name": "holdfast",
            "jit": "off",
            "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_TIMEOUT_MS),
        },
    )


async def _skip_reset(connection: asyncpg.Connection) -> None:
    """Do not reset a released connection: no state outlives a transaction, and each reset costs a round trip."""


async def _close_pool(pool: asyncpg.Pool) -> None:
    try:
        async with asyncio.timeout(5):
            await pool.close()
    except DRIVER_ERRORS:
        pool.terminate()


async def migrate(connection: asyncpg.Connection, *, now: Millis) -> None:
    """Apply missing migrations, each in a transaction of its own."""
    await connection.execute(STATEMENTS["lock_migrations"].sql)
    try:
        await connection.execute(STATEMENTS["make_migrations_table"].sql)
        rows = await connection.fetch(STATEMENTS["migrations"].sql)
        for migration in missing_migrations(
            {row["name"]: row["checksum"] for row in rows}, known_migrations("postgres")
        ):
            async with connection.transaction():
                await connection.execute(migration.sql)
                await connection.execute(STATEMENTS["add_migration"].sql, migration.name, migration.checksum, now)
    finally:
        await connection.execute(STATEMENTS["unlock_migrations"].sql)


class PostgresInspection(msgspec.Struct, frozen=True, kw_only=True):
    """The version of a server and the migration state of its database."""

    version: tuple[int, int]
    applied: int
    """Applied migrations: 0 if Holdfast never opened the database."""
    missing: int


async def inspect_database(url: str) -> PostgresInspection:
    """Inspect a database without changing it, or raise the error that it has."""
    try:
        connection = await asyncpg.connect(
            url, timeout=CONNECT_TIMEOUT_SECONDS, command_timeout=COMMAND_TIMEOUT_SECONDS
        )
        try:
            try:
                rows = await connection.fetch(STATEMENTS["migrations"].sql)
            except asyncpg.UndefinedTableError:
                rows = []
            version = connection.get_server_version()
        finally:
            await connection.close(timeout=CONNECT_TIMEOUT_SECONDS)
    except DRIVER_ERRORS as exc:
        raise translate_error(exc) from exc
    missing = missing_migrations({row["name"]: row["checksum"] for row in rows}, known_migrations("postgres"))
    return PostgresInspection(version=(version.major, version.minor), applied=len(rows), missing=len(missing))
