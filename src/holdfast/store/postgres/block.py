"""The borders of a transaction."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from holdfast.store.postgres.errors import DRIVER_ERRORS
from holdfast.store.transaction import Row

ROLLBACK_TIMEOUT: Final = 5.0
"""Seconds after which a connection is given up."""


class Block:
    """What happens between them. It begins with its first statement; one that is alone needs no borders."""

    def __init__(self, connection: asyncpg.Connection, *, reads: bool = False) -> None:
        self._connection = connection
        self._borders = connection.transaction(isolation="repeatable_read" if reads else None, readonly=reads)
        self._begun = False
        self.committing = False
        """Whether, if the connection breaks now, nobody knows what became of it."""

    @property
    def pid(self) -> int:
        """Return the number of the server's process."""
        pid: int = self._connection.get_server_pid()
        return pid

    async def fetch(self, sql: str, *values: Any) -> Sequence[Row]:
        """Run a statement and return its rows."""
        if not self._begun:
            self._begun = True  # it may have also if this is interrupted
            await self._borders.start()
        rows: Sequence[Row] = await self._connection.fetch(sql, *values)
        return rows

    async def fetch_alone(self, sql: str, *values: Any) -> Sequence[Row]:
        """Run the only statement that there is, for good, and return its rows."""
        self.committing = True
        try:
            rows: Sequence[Row] = await self._connection.fetch(sql, *values)
        except asyncpg.PostgresError as exc:  # where the server refused it, nothing came of it
            self.committing = isinstance(exc, asyncpg.PostgresConnectionError)
            raise
        self.committing = False
        return rows

    async def commit(self) -> None:
        """Make what was done durable."""
        if self._begun:
            self.committing = True
            await self._borders.commit()
            self.committing = False

    async def take_back(self, error: BaseException) -> None:
        """Roll back; where even that fails, the server does it when the connection closes."""
        try:
            if isinstance(error, TimeoutError):
                raise error  # whatever is asked next would wait without end for the server to answer first
            if self._begun:
                async with asyncio.timeout(ROLLBACK_TIMEOUT):  # `wait_for` may lose a cancellation before Python 3.12
                    await self._borders.rollback()
        except DRIVER_ERRORS:
            self._connection.terminate()
