"""Reader threads with their own connections, which never block the writer or the event loop.

A read that is cheaper than a thread switch runs on the event loop itself, on a separate connection that never waits.
"""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, TypeAlias, TypeVar

from holdfast.domain.errors import Unavailable
from holdfast.ports.runtime import Clock
from holdfast.store.sqlite.file import connect, translate_error
from holdfast.store.sqlite.transaction import SqliteTransaction, run_operation
from holdfast.store.transaction import Operation, resolve

MAX_READS_PER_BATCH: Final = 16
"""Reads whose results are returned together: each waits for the slowest of them."""

T = TypeVar("T")

_Job: TypeAlias = tuple[Operation[Any], asyncio.Future[Any]]


class Readers:
    """A pool of reader threads."""

    def __init__(self, path: Path, *, clock: Clock, count: int) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._pending: list[_Job] = []
        self._jobs: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._closed = False
        self._loop_connection = connect(path, read_only=True)
        self._loop_connection.execute("PRAGMA busy_timeout = 0")
        connections = [connect(path, read_only=True) for _ in range(count)]
        self._threads = [
            Thread(target=self._work, args=(connection,), name=f"holdfast-reader-{number}", daemon=True)
            for number, connection in enumerate(connections)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, operation: Operation[Any]) -> asyncio.Future[Any]:
        """Queue a read. All reads of one event loop iteration are passed to the threads, and resolved, together."""
        if self._closed:
            raise Unavailable("the store is closed")
        if not self._pending:
            self._loop.call_soon(self._flush)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._pending.append((operation, future))
        return future

    def read_on_loop(self, operation: Operation[T]) -> T:
        """Read on the calling thread, which is that of the event loop."""
        if self._closed:
            raise Unavailable("the store is closed")
        try:
            return self._read(self._loop_connection, operation)
        finally:
            _end_transaction(self._loop_connection)

    def _flush(self) -> None:
        for start in range(0, len(self._pending), MAX_READS_PER_BATCH):
            self._jobs.put(self._pending[start : start + MAX_READS_PER_BATCH])
        self._pending = []

    async def close(self) -> None:
        """Finish the queued reads, then stop the threads."""
        self._closed = True
        self._flush()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        self._loop_connection.close()

    def _work(self, connection: sqlite3.Connection) -> None:
        while (jobs := self._jobs.get()) is not None:
            outcomes: list[Any] = []
            for operation, _ in jobs:
                try:
                    outcomes.append(self._read(connection, operation))
                except Exception as exc:  # noqa: BLE001 - every error must reach the caller and not end the thread
                    outcomes.append(translate_error(exc))
            _end_transaction(connection)
            self._loop.call_soon_threadsafe(_resolve_all, jobs, outcomes)
        connection.close()

    def _read(self, connection: sqlite3.Connection, operation: Operation[T]) -> T:
        if not connection.in_transaction:  # the reads of a batch share a transaction, which an error may end
            connection.execute("BEGIN")
        return run_operation(operation, SqliteTransaction(connection, self._clock.now()))


def _end_transaction(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):  # the transaction only read
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _resolve_all(jobs: Sequence[_Job], outcomes: Sequence[Any]) -> None:
    for (_, future), outcome in zip(jobs, outcomes, strict=True):
        resolve(future, outcome)
