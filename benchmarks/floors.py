"""The floor: the same rows in the same number of durable commits, without Holdfast.

On SQLite a bare writer thread that takes whatever waits into one transaction, with `executemany`; on PostgreSQL one
task that does the same with array inserts over asyncpg.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeAlias

import asyncpg

Rows: TypeAlias = Sequence[tuple[str, list[tuple[Any, ...]]]]
"""Statements, each with its rows."""


class Floor(Protocol):
    """Makes rows durable."""

    def write(self, rows: Rows) -> asyncio.Future[None]:
        """Return once the rows are on disk."""


class SqliteFloor:
    """A bare group commit in one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Rows, asyncio.Future[None]] | None] = SimpleQueue()
        self._thread = Thread(target=self._work)
        self._thread.start()

    def write(self, rows: Rows) -> asyncio.Future[None]:
        """Pass rows to the writer thread."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._jobs.put((rows, future))
        return future

    async def close(self) -> None:
        """Stop the writer thread."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        while (job := self._jobs.get()) is not None:
            jobs = [job]
            while True:
                try:
                    following = self._jobs.get_nowait()
                except Empty:
                    break
                if following is None:
                    self._jobs.put(None)
                    break
                jobs.append(following)
            try:
                connection.execute("BEGIN IMMEDIATE")
                for statement, rows in _joined(jobs).items():
                    connection.executemany(statement, rows)
                connection.execute("COMMIT")
                error = None
            except sqlite3.Error as exc:
                error = exc
            self._loop.call_soon_threadsafe(_resolve, jobs, error)
        connection.close()


class PostgresFloor:
    """A bare group commit in one task."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._jobs: list[tuple[Rows, asyncio.Future[None]]] = []
        self._arrived = asyncio.Event()

    def write(self, rows: Rows) -> asyncio.Future[None]:
        """Pass rows to the writer task."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._jobs.append((rows, future))
        self._arrived.set()
        return future

    async def work(self) -> None:
        """Write until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            jobs, self._jobs = self._jobs, []
            try:
                async with self._connection.transaction():
                    for statement, rows in _joined(jobs).items():
                        await self._connection.fetch(statement, *map(list, zip(*rows, strict=True)))
                error = None
            except asyncpg.PostgresError as exc:
                error = exc
            _resolve(jobs, error)


@asynccontextmanager
async def floor(database: str | Path) -> AsyncIterator[Floor]:
    """Open the floor on a database that has the schema."""
    if isinstance(database, Path):
        sqlite = SqliteFloor(database)
        try:
            yield sqlite
        finally:
            await sqlite.close()
        return
    connection = await asyncpg.connect(database)
    postgres = PostgresFloor(connection)
    task = asyncio.get_running_loop().create_task(postgres.work())
    try:
        yield postgres
    finally:
        task.cancel()
        await connection.close()


def _joined(jobs: Sequence[tuple[Rows, asyncio.Future[None]]]) -> dict[str, list[tuple[Any, ...]]]:
    joined: dict[str, list[tuple[Any, ...]]] = {}
    for rows, _ in jobs:
        for statement, values in rows:
            joined.setdefault(statement, []).extend(values)
    return joined


def _resolve(jobs: Sequence[tuple[Rows, asyncio.Future[None]]], error: Exception | None) -> None:
    for _, future in jobs:
        if error is not None:
            future.set_exception(error)
        elif not future.done():
            future.set_result(None)
