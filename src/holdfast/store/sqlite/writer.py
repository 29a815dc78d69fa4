"""The writer thread: all waiting jobs are written in one transaction.

    callers ──(job, future)──► queue ──► BEGIN · job · job · job · COMMIT ──► all futures at once, on the loop

A job that fails rolls back only its own changes.
"""

import asyncio
import sqlite3
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final

import msgspec

from holdfast.domain.errors import Unavailable
from holdfast.ports.bus import Bus, WakeHint
from holdfast.ports.runtime import Clock
from holdfast.store.sqlite.file import translate_error
from holdfast.store.sqlite.transaction import SqliteTransaction, run_operation, run_to_end
from holdfast.store.transaction import Batch, NewRunRow, Operation, WakeBuilder

MAX_JOBS_PER_TRANSACTION: Final = 1024
CLAIM_WAIT_LOOP_TURNS: Final = 1
"""Turns of the loop in which a worker that heard a hint asks for a run."""

# How a job is begun, taken back and kept: what comes first in a transaction needs no savepoint.
_FIRST_JOB_SQL: Final = (), ("ROLLBACK", "BEGIN IMMEDIATE"), ()
_LATER_JOB_SQL: Final = ("SAVEPOINT job",), ("ROLLBACK TO job", "RELEASE job"), ("RELEASE job",)


class _Job(msgspec.Struct, eq=False):
    """An operation, or an item of a batch, and what became of it."""

    future: asyncio.Future[Any]
    operation: Operation[Any] | None = None
    batch: Batch[Any, Any] | None = None
    item: Any = None
    result: Any = None
    error: BaseException | None = None


class Writer:
    """A thread that owns the only connection that writes."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *, clock: Clock, bus: Bus) -> None:
        self._connection = connection
        self._path = path
        self._file = _file_identity(path)
        self._durable = True
        self._has_changes = False
        """Whether the transaction has something in it that must be kept when a job fails."""
        self._new_runs: dict[int, NewRunRow] = {}
        """The runs that the transaction has made, unless it took something back since."""
        self._clock = clock
        self._bus = bus
        self._loop = asyncio.get_running_loop()
        self._gathered: list[_Job] = []
        self._claim_announced = False
        """Whether it was said that a run is coming: once, or those who follow each other would hold up the first."""
        self._turns_left = 0
        """How many turns of the loop to wait for more."""
        self._jobs: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._closed = False
        self._thread = Thread(target=self._work, name="holdfast-writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation[Any], *, enqueues: bool = False) -> asyncio.Future[Any]:
        """Hand over an operation."""
        return self._submit(_Job(self._loop.create_future(), operation=operation), enqueues=enqueues)

    def submit_to_batch(self, batch: Batch[Any, Any], item: Any) -> asyncio.Future[Any]:
        """Hand over an item of a batch."""
        return self._submit(_Job(self._loop.create_future(), batch=batch, item=item), enqueues=batch.enqueues)

    def _submit(self, job: _Job, *, enqueues: bool) -> asyncio.Future[Any]:
        """Take a job; all that one turn of the loop asks for goes over at once.

        Otherwise the thread would wake up at the first, and fight with those who ask for the interpreter. What puts
        runs into the queue waits until a worker can have asked for them: then they are claimed in one transaction.
        """
        if self._closed:
            raise Unavailable("the store is closed")
        if not self._gathered:
            self._loop.call_soon(self._gather)
        self._gathered.append(job)
        if enqueues and not self._claim_announced:
            self._claim_announced, self._turns_left = True, CLAIM_WAIT_LOOP_TURNS
            self._bus.publish(WakeHint(coming=True))
        return job.future

    def _gather(self) -> None:
        if self._turns_left:
            self._turns_left -= 1
            self._loop.call_soon(self._gather)
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        if self._gathered:
            self._jobs.put(self._gathered)
            self._gathered, self._claim_announced = [], False

    async def close(self) -> None:
        """Do what is waiting, then stop."""
        self._closed = True
        self._hand_over()
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        jobs: list[_Job] = []
        while self._take(jobs):
            waking = WakeBuilder()
            self._write(jobs, waking)
            self._loop.call_soon_threadsafe(self._resolve, jobs, waking)
            jobs = []

    def _take(self, jobs: list[_Job]) -> bool:
        """Fill `jobs` with what is waiting; return whether there is anything left to do."""
        asked = self._jobs.get()
        while asked is not None:
            jobs += asked
            if len(jobs) >= MAX_JOBS_PER_TRANSACTION:
                return True
            try:
                asked = self._jobs.get_nowait()
            except Empty:
                return True
        if jobs:
            self._jobs.put(None)
        return bool(jobs)

    def _write(self, jobs: Sequence[_Job], waking: WakeBuilder) -> None:
        try:
            self._check_file()
            self._choose_sync(durable=any(job.batch is None or job.batch.durable for job in jobs))
            self._connection.execute("BEGIN IMMEDIATE")
            self._has_changes, self._new_runs = False, {}
            for part in _split_jobs(jobs):
                self._do(part, waking)
        except Exception as exc:  # noqa: BLE001 - whatever it is, it must reach every caller and not end the thread
            self._fail(jobs, translate_error(exc))
            return
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as exc:
            self._fail(jobs, translate_error(exc, committing=True))

    def _choose_sync(self, *, durable: bool) -> None:
        """Have the next transaction reach the disk before it is over, or with the one after it."""
        if durable is not self._durable:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable

    def _check_file(self) -> None:
        """Raise if the file was taken away: SQLite would go on, and all of it would be lost."""
        if _file_identity(self._path) != self._file:
            raise Unavailable(f"`{self._path.name}` was moved or deleted: put it back, or open the store again")

    def _do(self, part: Sequence[_Job], waking: WakeBuilder) -> None:
        """Do an operation, or items of a batch together and, if that fails, one by one."""
        error = self._attempt(part, waking)
        if error is not None and len(part) > 1:
            for job in part:
                self._do([job], waking)
        elif error is not None:
            part[0].error = error

    def _attempt(self, part: Sequence[_Job], waking: WakeBuilder) -> BaseException | None:
        transaction = SqliteTransaction(self._connection, self._clock.now(), self._new_runs)
        begin, take_back, keep = _LATER_JOB_SQL if self._has_changes else _FIRST_JOB_SQL
        self._execute(begin)
        try:
            _apply_jobs(part, transaction)
        except Exception as exc:
            if not self._connection.in_transaction:
                raise  # the disk is full or broken: SQLite has taken back everything
            self._execute(take_back)
            self._new_runs.clear()
            return translate_error(exc)
        self._execute(keep)
        self._has_changes = True
        waking.merge(transaction.wake_builder)
        return None

    def _execute(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self._connection.execute(statement)

    def _fail(self, jobs: Sequence[_Job], error: BaseException) -> None:
        with suppress(sqlite3.Error):  # on a broken disk even this may fail, and they must be answered
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        for job in jobs:
            job.error = error

    def _resolve(self, jobs: Sequence[_Job], waking: WakeBuilder) -> None:
        for job in jobs:
            if job.future.done():
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)
        wake = waking.build()
        if wake is not None:
            self._bus.publish(wake)


def _file_identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from every other one, wherever it is moved."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _split_jobs(jobs: Sequence[_Job]) -> Iterator[list[_Job]]:
    """Split jobs into operations, one by one and in order, and what is done together between two of them."""
    waiting: list[_Job] = []
    for job in jobs:
        if job.operation is None:
            waiting.append(job)
        else:
            yield from _group_by_batch(waiting)
            waiting = []
            yield [job]
    yield from _group_by_batch(waiting)


def _group_by_batch(jobs: Sequence[_Job]) -> Iterator[list[_Job]]:
    """Gather items of one batch, so that no part has two of one name and those of one name stay in order."""
    parts: list[list[_Job]] = []
    latest: dict[int, tuple[list[_Job], set[Hashable]]] = {}
    for job in jobs:
        assert job.batch is not None
        name = job.batch.name(job.item)
        found = latest.get(id(job.batch))
        if found is None or name in found[1]:
            found = latest[id(job.batch)] = [], set()
            parts.append(found[0])
        found[0].append(job)
        found[1].add(name)
    yield from parts


def _apply_jobs(part: Sequence[_Job], transaction: SqliteTransaction) -> None:
    """Do the work of `part` and note what became of it."""
    batch = part[0].batch
    if part[0].operation is not None:
        part[0].result = run_operation(part[0].operation, transaction)
    elif batch is not None:
        outcomes = run_to_end(batch.apply(transaction, [job.item for job in part]))
        for job, outcome in zip(part, outcomes, strict=True):
            if isinstance(outcome, Exception):
                job.error = outcome
            else:
                job.result = outcome
