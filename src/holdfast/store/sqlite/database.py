"""The SQLite database: one writer thread and a few reader threads over one file."""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Final, TypeVar, cast

from holdfast.domain.errors import StoreReadOnly
from holdfast.domain.limits import MAX_ATTEMPTS
from holdfast.ports.bus import Bus
from holdfast.ports.runtime import Clock
from holdfast.store.leases import release_all_leases
from holdfast.store.sqlite.file import FileOwnership, check_migrated, connect, migrate, translate_error
from holdfast.store.sqlite.readers import Readers
from holdfast.store.sqlite.writer import Writer
from holdfast.store.transaction import Batch, BatchItem, BatchResult, Operation, Transaction

T = TypeVar("T")

READER_THREADS: Final = 2
SWITCH_INTERVAL_SECONDS: Final = 0.0005
"""Writer and event loop share the GIL: at Python's default interval a busy thread would delay each commit."""


class SqliteDatabase:
    """Implements `Database`."""

    def __init__(self, writer: Writer | None, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def read(self, operation: Operation[T], *, quick: bool = False) -> T:
        """Run an operation on a snapshot; a quick one on the event loop, which costs less than a thread switch."""
        if quick:
            # On any error, a reader thread repeats the read: it can wait for locks, and translates the error.
            with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                found = self._readers.read_on_loop(operation)
                await asyncio.sleep(0)  # a caller that reads in a loop must not block the event loop
                return found
        return cast(T, await self._readers.submit(operation))

    async def write(self, operation: Operation[T], *, enqueues: bool = False) -> T:
        """Run an operation in a transaction with other waiting jobs."""
        return cast(T, await self._require_writer().submit(operation, enqueues=enqueues))

    async def write_and_scrub(self, operation: Operation[T]) -> T:
        """Run an operation with secure deletion, then rewrite the file and empty its log."""
        writer = self._require_writer()
        result = cast(T, await writer.submit(operation, scrub=True))
        await writer.submit(lambda tx: tx.run("scrub_done"))
        return result

    def submit_to_batch(self, batch: Batch[BatchItem, BatchResult], item: BatchItem) -> Awaitable[BatchResult]:
        """Apply an item in a transaction with other waiting jobs."""
        return self._require_writer().submit_to_batch(batch, item)

    def _require_writer(self) -> Writer:
        if self._writer is None:
            raise StoreReadOnly("the store was opened read-only")
        return self._writer


async def _nothing(tx: Transaction) -> None:
    """Change nothing."""


@asynccontextmanager
async def open_database(
    path: Path, *, clock: Clock, bus: Bus, read_only: bool = False
) -> AsyncIterator[SqliteDatabase]:
    """Lock the file, migrate its schema, and release the leases of a dead process."""
    async with AsyncExitStack() as stack:
        try:
            writer = None
            if read_only:
                with closing(connect(path, read_only=True)) as connection:
                    check_migrated(connection)
            else:
                stack.callback(FileOwnership(path).release)
                connection = connect(path, read_only=False)
                stack.callback(connection.close)
                migrate(connection, now=clock.now())
                sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_SECONDS))
                writer = Writer(connection, path, clock=clock, bus=bus)
                stack.push_async_callback(writer.close)
            readers = Readers(path, clock=clock, count=READER_THREADS)
        except sqlite3.Error as exc:
            raise translate_error(exc) from exc
        stack.push_async_callback(readers.close)
        database = SqliteDatabase(writer, readers)
        if writer is not None:
            await database.write(lambda tx: release_all_leases(tx, cap=MAX_ATTEMPTS))
            if await database.read(lambda tx: tx.one("scrub_wanted")) is not None:
                await database.write_and_scrub(_nothing)  # a process was killed before it had scrubbed the file
        yield database
