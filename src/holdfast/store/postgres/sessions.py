"""Connections, and transactions on them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import asyncpg

from holdfast.domain.errors import OutcomeUnknown, Unavailable
from holdfast.ports.bus import Bus
from holdfast.ports.clock import Clock
from holdfast.store.postgres.errors import DRIVER_ERRORS, translate
from holdfast.store.postgres.transaction import PostgresTransaction

ROLLBACK_TIMEOUT: Final = 5.0
"""Seconds after which a connection is given up."""


class Sessions:
    """Transactions of one process."""

    def __init__(self, pool: asyncpg.Pool, *, clock: Clock, keeps_time: bool, bus: Bus) -> None:
        self._pool = pool
        self._clock = clock
        self._keeps_time = keeps_time
        self._bus = bus

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[PostgresTransaction]:
        """Read from one snapshot."""
        try:
            async with self._connection() as connection:
                block = connection.transaction(isolation="repeatable_read", readonly=True)
                try:
                    await block.start()
                    yield self._transaction(connection)
                    await block.commit()
                except BaseException as exc:
                    await _take_back(block, connection, exc)
                    raise
        except DRIVER_ERRORS as exc:
            raise translate(exc) from exc

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[PostgresTransaction]:
        """Write, commit, and tell those who watch.

        If the connection breaks before the commit, nothing was written; if it breaks during the commit, nobody knows.
        """
        committing = False
        try:
            async with self._connection() as connection:
                transaction = self._transaction(connection)
                block = connection.transaction()
                try:
                    await block.start()
                    yield transaction
                    committing = True
                    await block.commit()
                except BaseException as exc:
                    await _take_back(block, connection, exc)
                    raise
                committing = False
                self._tell(transaction)
        except DRIVER_ERRORS as exc:
            error = translate(exc)
            if committing and isinstance(error, Unavailable):
                error = OutcomeUnknown("the connection broke while this was committed: read before you repeat it")
            raise error from exc

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncpg.Connection]:
        """Borrow a connection; if it breaks only when it is given back, what was done with it is done."""
        connection = await self._pool.acquire()
        try:
            yield connection
        finally:
            with suppress(*DRIVER_ERRORS):
                await self._pool.release(connection)

    def _tell(self, transaction: PostgresTransaction) -> None:
        wake = transaction.waking.wake()
        if wake is not None:
            self._bus.publish(wake)

    def _transaction(self, connection: asyncpg.Connection) -> PostgresTransaction:
        now = self._clock.now()
        return PostgresTransaction(connection, now=now, lease_now=now if self._keeps_time else None)


async def _take_back(
    block: asyncpg.transaction.Transaction, connection: asyncpg.Connection, error: BaseException
) -> None:
    """Roll back; where even that fails, the server does it when the connection closes."""
    try:
        if isinstance(error, TimeoutError):
            raise error  # whatever is asked next would wait without end for the server to answer first
        await asyncio.wait_for(block.rollback(), ROLLBACK_TIMEOUT)
    except DRIVER_ERRORS:
        connection.terminate()
