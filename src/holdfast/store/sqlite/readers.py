"""Readers: threads with connections of their own, which never block the writer or the loop."""

import asyncio
import sqlite3
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from holdfast.domain.errors import Unavailable
from holdfast.ports.clock import Clock
from holdfast.store.sqlite.connection import connect, translate
from holdfast.store.sqlite.transaction import SqliteTransaction, run
from holdfast.store.transaction import Operation


class Readers:
    """A few threads that read."""

    def __init__(self, path: Path, *, clock: Clock, count: int) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Operation[Any], asyncio.Future[Any]] | None] = SimpleQueue()
        self._closed = False
        connections = [connect(path, read_only=True) for _ in range(count)]
        self._threads = [
            Thread(target=self._work, args=(connection,), name=f"holdfast-reader-{number}", daemon=True)
            for number, connection in enumerate(connections)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, operation: Operation[Any]) -> asyncio.Future[Any]:
        """Hand over something to read."""
        if self._closed:
            raise Unavailable("the store is closed")
        future: asyncio.Future[Any] = self._loop.create_future()
        self._jobs.put((operation, future))
        return future

    async def close(self) -> None:
        """Read what is waiting to be read, then stop."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _work(self, connection: sqlite3.Connection) -> None:
        while (job := self._jobs.get()) is not None:
            operation, future = job
            try:
                result, error = self._read(connection, operation), None
            except Exception as exc:  # noqa: BLE001 - whatever it is, it must reach the caller and not end the thread
                result, error = None, translate(exc)
            self._loop.call_soon_threadsafe(_resolve, future, result, error)
        connection.close()

    def _read(self, connection: sqlite3.Connection, operation: Operation[Any]) -> Any:
        connection.execute("BEGIN")
        try:
            return run(operation, SqliteTransaction(connection, self._clock.now()))
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _resolve(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
