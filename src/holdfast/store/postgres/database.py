"""The database of the PostgreSQL store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, TypeVar

import asyncpg

from holdfast.domain.errors import Unavailable
from holdfast.ports.bus import Bus
from holdfast.ports.clock import Clock
from holdfast.store.postgres.batches import TRIES, Batches
from holdfast.store.postgres.errors import DRIVER_ERRORS, translate
from holdfast.store.postgres.schema import migrate
from holdfast.store.postgres.sessions import Sessions
from holdfast.store.transaction import Again, Batch, Item, Operation, Result

T = TypeVar("T")

CONNECTIONS: Final = 10
CONNECT_TIMEOUT: Final = 10.0
COMMAND_TIMEOUT: Final = 30.0
"""Seconds: a server that says nothing for so long is taken for dead, so that no caller hangs."""
IDLE_TIMEOUT_MS: Final = 5_000
"""A process that was stopped in the middle of a transaction holds its locks no longer than this."""


class PostgresDatabase:
    """`Database`."""

    def __init__(self, sessions: Sessions, batches: Batches) -> None:
        self._sessions = sessions
        self._batches = batches

    async def read(self, operation: Operation[T], *, quick: bool = False) -> T:
        """Run an operation on a snapshot."""
        async with self._sessions.reading() as transaction:
            return await operation(transaction)

    async def write(self, operation: Operation[T], *, queues: bool = False) -> T:
        """Run an operation, again if others were in its way; those who claim do so in transactions of their own."""
        for _ in range(TRIES):
            try:
                async with self._sessions.writing() as transaction:
                    return await operation(transaction)
            except Again:
                continue
        raise Unavailable("others were in the way each time: try again")

    def together(self, batch: Batch[Item, Result], item: Item) -> Awaitable[Result]:
        """Do an item with whatever else is waiting."""
        return self._batches.submit(batch, item)


@asynccontextmanager
async def open_database(
    url: str, *, clock: Clock, keeps_time: bool, bus: Bus, connections: int = CONNECTIONS
) -> AsyncIterator[PostgresDatabase]:
    """Connect and bring the schema up to date.

    With `keeps_time` leases are measured by `clock` and not by the server's.
    """
    async with AsyncExitStack() as stack:
        try:
            pool = await open_pool(url, connections)
            stack.push_async_callback(_close, pool)
            async with pool.acquire() as connection:
                await migrate(connection, now=clock.now())
        except DRIVER_ERRORS as exc:
            raise translate(exc) from exc
        yield await stack.enter_async_context(database_on(pool, clock=clock, keeps_time=keeps_time, bus=bus))


@asynccontextmanager
async def database_on(
    pool: asyncpg.Pool, *, clock: Clock, keeps_time: bool, bus: Bus
) -> AsyncIterator[PostgresDatabase]:
    """Use a database whose schema is up to date through connections that are there."""
    sessions = Sessions(pool, clock=clock, keeps_time=keeps_time, bus=bus)
    batches = Batches(sessions)
    try:
        yield PostgresDatabase(sessions, batches)
    finally:
        await batches.close()


async def open_pool(url: str, connections: int = CONNECTIONS) -> asyncpg.Pool:
    """Connect."""
    return await asyncpg.create_pool(
        url,
        min_size=1,
        max_size=connections,
        timeout=CONNECT_TIMEOUT,
        command_timeout=COMMAND_TIMEOUT,
        statement_cache_size=512,
        reset=_keep,
        server_settings={
            "application_name": "holdfast",
            "jit": "off",
            "idle_in_transaction_session_timeout": str(IDLE_TIMEOUT_MS),
        },
    )


async def _keep(connection: asyncpg.Connection) -> None:
    """Leave a connection as it is: nothing of ours outlives a transaction, and to reset it is a round trip for each."""


async def _close(pool: asyncpg.Pool) -> None:
    try:
        async with asyncio.timeout(5):
            await pool.close()
    except DRIVER_ERRORS:
        pool.terminate()
