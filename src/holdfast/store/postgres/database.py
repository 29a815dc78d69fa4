"""The PostgreSQL database: connection pool, schema migrations and a read-only inspection.

One process at a time applies migrations, under an advisory lock.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, TypeVar

import asyncpg
import msgspec

from holdfast.domain.instant import Millis
from holdfast.ports.bus import Bus
from holdfast.ports.runtime import Clock
from holdfast.store.postgres.batches import BatchQueues
from holdfast.store.postgres.errors import DRIVER_ERRORS, translate_error
from holdfast.store.postgres.transaction import STATEMENTS, Sessions
from holdfast.store.statements import known_migrations, missing_migrations
from holdfast.store.transaction import Batch, BatchItem, BatchResult, Operation

T = TypeVar("T")

DEFAULT_CONNECTIONS: Final = 10
CONNECT_TIMEOUT_SECONDS: Final = 10.0
COMMAND_TIMEOUT_SECONDS: Final = 30.0
"""A server that sends nothing for this long is considered dead, so that no caller hangs."""
IDLE_IN_TRANSACTION_TIMEOUT_MS: Final = 5_000
"""The longest that a process stopped in the middle of a transaction keeps its locks."""


class PostgresDatabase:
    """Implements `Database`."""

    def __init__(self, sessions: Sessions, batches: BatchQueues) -> None:
        self._sessions = sessions
        self._batches = batches

    async def read(self, operation: Operation[T], *, quick: bool = False) -> T:
        """Run an operation on a snapshot."""
        async with self._sessions.reading() as transaction:
            return await operation(transaction)

    async def write(self, operation: Operation[T], *, enqueues: bool = False) -> T:
        """Run an operation in a transaction, with retries; claims never join it."""
        return await self._sessions.write_with_retry(operation)

    def submit_to_batch(self, batch: Batch[BatchItem, BatchResult], item: BatchItem) -> Awaitable[BatchResult]:
        """Apply an item together with other waiting items."""
        return self._batches.submit(batch, item)


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
async def database_on(
    pool: asyncpg.Pool, *, clock: Clock, use_local_clock: bool, bus: Bus
) -> AsyncIterator[PostgresDatabase]:
    """Open a database over an existing pool; its schema is up to date."""
    sessions = Sessions(pool, clock=clock, use_local_clock=use_local_clock, bus=bus)
    batches = BatchQueues(sessions)
    try:
        yield PostgresDatabase(sessions, batches)
    finally:
        await batches.close()


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
