"""Reader threads with their own connections, which never block the writer or the event loop.

A read that is cheaper than a thread hand-over runs on the event loop itself, on one more connection that never waits.
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
from holdfast.store.transaction import Operation

MAX_READS_PER_BATCH: Final = 16
"""Reads that are answered together: each waits for the slowest of them."""

T = TypeVar("T")

_Job: TypeAlias = tuple[Operation[Any], asyncio.Future[Any]]
_ReadResult: TypeAlias = tuple[Any, BaseException | None]


class Readers:
    """A few threads that read."""

    def __init__(self, path: Path, *, clock: Clock, count: int) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._gathered: list[_Job] = []
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
        """Take something to read; what one turn of the loop asks for goes over, and comes back, at once."""
        if self._closed:
            raise Unavailable("the store is closed")
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._gathered.append((operation, future))
        return future

    def read_on_loop(self, operation: Operation[T]) -> T:
        """Read on the calling thread, which is the loop's."""
        if self._closed:
            raise Unavailable("the store is closed")
        try:
            return self._read(self._loop_connection, operation)
        finally:
            _end_transaction(self._loop_connection)

    def _hand_over(self) -> None:
        for start in range(0, len(self._gathered), MAX_READS_PER_BATCH):
            self._jobs.put(self._gathered[start : start + MAX_READS_PER_BATCH])
        self._gathered = []

    async def close(self) -> None:
        """Read what is waiting to be read, then stop."""
        self._closed = True
        self._hand_over()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        self._loop_connection.close()

    def _work(self, connection: sqlite3.Connection) -> None:
        while (jobs := self._jobs.get()) is not None:
            answers: list[_ReadResult] = []
            for operation, _ in jobs:
                try:
                    answers.append((self._read(connection, operation), None))
                except Exception as exc:  # noqa: BLE001 - whatever it is, it must reach the caller and not end the thread
                    answers.append((None, translate_error(exc)))
            _end_transaction(connection)
            self._loop.call_soon_threadsafe(_resolve, jobs, answers)
        connection.close()

    def _read(self, connection: sqlite3.Connection, operation: Operation[T]) -> T:
        if not connection.in_transaction:  # the first begins one for all, and an error may end it
            connection.execute("BEGIN")
        return run_operation(operation, SqliteTransaction(connection, self._clock.now()))


def _end_transaction(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):  # it only read
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _resolve(jobs: Sequence[_Job], answers: Sequence[_ReadResult]) -> None:
    for (_, future), (result, error) in zip(jobs, answers, strict=True):
        if future.done():
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
