"""Connections, and transactions on them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg

from holdfast.domain.errors import OutcomeUnknown, Unavailable
from holdfast.ports.bus import Bus
from holdfast.ports.clock import Clock
from holdfast.store.postgres.block import Block
from holdfast.store.postgres.errors import DRIVER_ERRORS, translate
from holdfast.store.postgres.transaction import PostgresTransaction


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
            async with self._block(reads=True) as block:
                yield self._transaction(block)
        except DRIVER_ERRORS as exc:
            raise translate(exc) from exc

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[PostgresTransaction]:
        """Write, commit, and tell those who watch.

        If the connection breaks before the commit, nothing was written; if it breaks during the commit, nobody knows.
        """
        block: Block | None = None
        try:
            async with self._block() as block:
                transaction = self._transaction(block)
                yield transaction
            self._tell(transaction)
        except DRIVER_ERRORS as exc:
            error = translate(exc)
            if block is not None and block.committing and isinstance(error, Unavailable):
                error = OutcomeUnknown("the connection broke while this was committed: read before you repeat it")
            raise error from exc

    @asynccontextmanager
    async def _block(self, *, reads: bool = False) -> AsyncIterator[Block]:
        """Borrow a connection; if it breaks only when it is given back, what was done with it is done."""
        connection = await self._pool.acquire()
        block = Block(connection, reads=reads)
        try:
            yield block
            await block.commit()
        except BaseException as exc:
            await block.take_back(exc)
            raise
        finally:
            with suppress(*DRIVER_ERRORS):
                await self._pool.release(connection)

    def _tell(self, transaction: PostgresTransaction) -> None:
        wake = transaction.waking.wake()
        if wake is not None:
            self._bus.publish(wake)

    def _transaction(self, block: Block) -> PostgresTransaction:
        return PostgresTransaction(block, self._clock, keeps_time=self._keeps_time)
