"""The PostgreSQL database: connection pool, schema migrations and a read-only inspection.

One process at a time applies migrations, under an advisory lock.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, TypeVar

import asyncpg
import msgspec

from holdfast.domain.errors import Unavailable
from holdfast.domain.instant import Millis
from holdfast.ports.bus import Bus
from holdfast.ports.runtime import Clock
from holdfast.store.postgres.batches import MAX_ATTEMPTS, BatchQueues
from holdfast.store.postgres.errors import DRIVER_ERRORS, translate_error
from holdfast.store.postgres.transaction import STATEMENTS, Sessions
from holdfast.store.statements import known_migrations, missing_migrations
from holdfast.store.transaction import Batch, BatchItem, BatchResult, Operation, RetryTransaction

T = TypeVar("T")

DEFAULT_CONNECTIONS: Final = 10
CONNECT_TIMEOUT_SECONDS: Final = 10.0
COMMAND_TIMEOUT_SECONDS: Final = 30.0
"""Seconds: a server that says nothing for so long is taken for dead, so that no caller hangs."""
IDLE_IN_TRANSACTION_TIMEOUT_MS: Final = 5_000
"""A process that was stopped in the middle of a transaction holds its locks no longer than this."""


class PostgresDatabase:
    """`Database`."""

    def __init__(self, sessions: Sessions, batches: BatchQueues) -> None:
        self._sessions = sessions
        self._batches = batches

    async def read(self, operation: Operation[T], *, quick: bool = False) -> T:
        """Run an operation on a snapshot."""
        async with self._sessions.reading() as transaction:
            return await operation(transaction)

    async def write(self, operation: Operation[T], *, enqueues: bool = False) -> T:
        """Run an operation, again if others were in its way; those who claim do so in transactions of their own."""
        for _ in range(MAX_ATTEMPTS):
            try:
                async with self._sessions.writing() as transaction:
                    return await operation(transaction)
            except RetryTransaction:
                continue
        raise Unavailable("others were in the way each time: try again")

    def submit_to_batch(self, batch: Batch[BatchItem, BatchResult], item: BatchItem) -> Awaitable[BatchResult]:
        """Do an item with whatever else is waiting."""
        return self._batches.submit(batch, item)


@asynccontextmanager
async def open_database(
    url: str, *, clock: Clock, use_local_clock: bool, bus: Bus, connections: int = DEFAULT_CONNECTIONS
) -> AsyncIterator[PostgresDatabase]:
    """Connect and bring the schema up to date.

    With `use_local_clock` leases are measured by `clock` and not by the server's.
    """
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
async def database_on(
    pool: asyncpg.Pool, *, clock: Clock, use_local_clock: bool, bus: Bus
) -> AsyncIterator[PostgresDatabase]:
    """Use a database whose schema is up to date through connections that are there."""
    sessions = Sessions(pool, clock=clock, use_local_clock=use_local_clock, bus=bus)
    batches = BatchQueues(sessions)
    try:
        yield PostgresDatabase(sessions, batches)
    finally:
        await batches.close()


async def open_pool(url: str, connections: int = DEFAULT_CONNECTIONS) -> asyncpg.Pool:
    """Connect."""
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
    """Leave a connection as it is: nothing of ours outlives a transaction, and to reset it is a round trip for each."""


async def _close_pool(pool: asyncpg.Pool) -> None:
    try:
        async with asyncio.timeout(5):
            await pool.close()
    except DRIVER_ERRORS:
        pool.terminate()


async def migrate(connection: asyncpg.Connection, *, now: Millis) -> None:
    """Apply what is missing, each migration in a transaction of its own."""
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
    """What a server is, and how far the schema of its database has come."""

    version: tuple[int, int]
    applied: int
    """Migrations that it has: 0 where nobody has opened it yet."""
    missing: int


async def inspect_database(url: str) -> PostgresInspection:
    """Look at the database of a server; what is wrong with either is raised."""
    try:
        connection = await asyncpg.connect(
            url, timeout=CONNECT_TIMEOUT_SECONDS, command_timeout=COMMAND_TIMEOUT_SECONDS
        )
        try:
            applied = await _applied_migrations(connection)
            version = connection.get_server_version()
        finally:
            await connection.close(timeout=CONNECT_TIMEOUT_SECONDS)
    except DRIVER_ERRORS as exc:
        raise translate_error(exc) from exc
    behind = missing_migrations(applied, known_migrations("postgres"))
    return PostgresInspection(version=(version.major, version.minor), applied=len(applied), missing=len(behind))


async def _applied_migrations(connection: asyncpg.Connection) -> dict[str, str]:
    try:
        rows = await connection.fetch(STATEMENTS["migrations"].sql)
    except asyncpg.UndefinedTableError:
        return {}
    return {row["name"]: row["checksum"] for row in rows}
