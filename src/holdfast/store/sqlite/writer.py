"""The writer thread: all waiting jobs are written in one transaction.

    callers ──(job, future)──► queue ──► BEGIN · job · job · job · COMMIT ──► all futures at once, on the loop

A job that fails rolls back only its own changes.
"""

import asyncio
import sqlite3
from collections.abc import Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final

import msgspec

from holdfast.domain.errors import Unavailable
from holdfast.ports.bus import Bus, WakeHint
from holdfast.ports.runtime import Clock
from holdfast.store.sqlite.file import scrub_file, translate_error
from holdfast.store.sqlite.transaction import SqliteTransaction, run_operation, run_to_end
from holdfast.store.transaction import Batch, NewRunRow, Operation, WakeHints, resolve

MAX_JOBS_PER_TRANSACTION: Final = 1024
CLAIM_WAIT_LOOP_TURNS: Final = 1
"""Event loop iterations that a worker needs to claim a run after a `coming` hint."""

# Statements that begin, roll back and keep a job: the first job of a transaction needs no savepoint.
_FIRST_JOB_SQL: Final = (), ("ROLLBACK", "BEGIN IMMEDIATE"), ()
_LATER_JOB_SQL: Final = ("SAVEPOINT job",), ("ROLLBACK TO job", "RELEASE job"), ("RELEASE job",)


class _Job(msgspec.Struct, eq=False):
    """An operation or an item of a batch, and its outcome: a result or an error."""

    future: asyncio.Future[Any]
    operation: Operation[Any] | None = None
    batch: Batch[Any, Any] | None = None
    item: Any = None
    outcome: Any = None
    scrub: bool = False
    """Whether the file is scrubbed after the transaction, before the caller has the result."""


class Writer:
    """The writer thread, which owns the only connection that writes."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *, clock: Clock, bus: Bus) -> None:
        self._connection = connection
        self._path = path
        self._file = _file_identity(path)
        self._durable = True
        self._has_changes = False
        """Whether earlier jobs changed something in the transaction, which must survive the failure of a later job."""
        self._new_runs: dict[int, NewRunRow] = {}
        """The runs that the transaction inserted since its last rollback of a job."""
        self._clock = clock
        self._bus = bus
        self._loop = asyncio.get_running_loop()
        self._pending: list[_Job] = []
        self._announced = False
        """Whether the `coming` hint was sent for the pending jobs: once, or a series of jobs would delay the first."""
        self._turns_left = 0
        """Event loop iterations to wait for more jobs."""
        self._jobs: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._closed = False
        self._thread = Thread(target=self._work, name="holdfast-writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation[Any], *, enqueues: bool = False, scrub: bool = False) -> asyncio.Future[Any]:
        """Queue an operation; with `scrub` nothing that it deleted is in the file when it returns."""
        return self._submit(_Job(self._loop.create_future(), operation=operation, scrub=scrub), enqueues=enqueues)

    def submit_to_batch(self, batch: Batch[Any, Any], item: Any) -> asyncio.Future[Any]:
        """Queue an item of a batch."""
        return self._submit(_Job(self._loop.create_future(), batch=batch, item=item), enqueues=batch.enqueues)

    def _submit(self, job: _Job, *, enqueues: bool) -> asyncio.Future[Any]:
        """Queue a job. All jobs of one event loop iteration are passed to the thread together.

        Otherwise the thread would wake up at the first job and compete with the callers for the GIL. Jobs that queue
        runs wait a little longer, so that a worker's claim can join their transaction.
        """
        if self._closed:
            raise Unavailable("the store is closed")
        if not self._pending:
            self._loop.call_soon(self._flush_later)
        self._pending.append(job)
        if enqueues and not self._announced:
            self._announced, self._turns_left = True, CLAIM_WAIT_LOOP_TURNS
            self._bus.publish(WakeHint(coming=True))
        return job.future

    def _flush_later(self) -> None:
        if self._turns_left:
            self._turns_left -= 1
            self._loop.call_soon(self._flush_later)
        else:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._jobs.put(self._pending)
            self._pending, self._announced = [], False

    async def close(self) -> None:
        """Finish the queued jobs, then stop the thread."""
        self._closed = True
        self._flush()
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        jobs: list[_Job] = []
        while self._take(jobs):
            hints = WakeHints()
            scrubs = any(job.scrub for job in jobs)
            if scrubs:
                self._connection.execute("PRAGMA secure_delete = ON")
            self._write(jobs, hints)
            if scrubs:
                self._scrub([job for job in jobs if job.scrub])
            self._loop.call_soon_threadsafe(self._resolve, jobs, hints)
            jobs = []

    def _take(self, jobs: list[_Job]) -> bool:
        """Fill `jobs` with the queued jobs; return false once the queue is closed and empty."""
        queued = self._jobs.get()
        while queued is not None:
            jobs += queued
            if len(jobs) >= MAX_JOBS_PER_TRANSACTION:
                return True
            try:
                queued = self._jobs.get_nowait()
            except Empty:
                return True
        if jobs:
            self._jobs.put(None)
        return bool(jobs)

    def _write(self, jobs: Sequence[_Job], hints: WakeHints) -> None:
        try:
            if _file_identity(self._path) != self._file:  # SQLite would go on writing, and lose everything
                raise Unavailable(f"`{self._path.name}` was moved or deleted: put it back, or open the store again")
            self._choose_sync(durable=any(job.batch is None or job.batch.durable for job in jobs))
            self._connection.execute("BEGIN IMMEDIATE")
            self._has_changes, self._new_runs = False, {}
            for group in _split_jobs(jobs):
                self._run_group(group, hints)
        except Exception as exc:  # noqa: BLE001 - every error must reach every caller and not end the thread
            self._fail(jobs, translate_error(exc))
            return
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as exc:
            self._fail(jobs, translate_error(exc, committing=True))

    def _scrub(self, jobs: Sequence[_Job]) -> None:
        """Rewrite the whole file and empty its log; a job that changed something fails if that is not possible."""
        try:
            scrub_file(self._connection)
        except sqlite3.Error as exc:
            for job in jobs:
                if not isinstance(job.outcome, BaseException):
                    job.outcome = translate_error(exc)

    def _choose_sync(self, *, durable: bool) -> None:
        """Sync the next transaction to disk at its commit, or else with the next durable one."""
        if durable is not self._durable:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable

    def _run_group(self, group: Sequence[_Job], hints: WakeHints) -> None:
        """Apply a group of jobs together and, if that fails, one by one."""
        error = self._attempt(group, hints)
        if error is not None and len(group) > 1:
            for job in group:
                self._run_group([job], hints)
        elif error is not None:
            group[0].outcome = error

    def _attempt(self, group: Sequence[_Job], hints: WakeHints) -> BaseException | None:
        """Apply a group of jobs; on failure roll back their changes and return the error."""
        transaction = SqliteTransaction(self._connection, self._clock.now(), self._new_runs)
        begin, roll_back, keep = _LATER_JOB_SQL if self._has_changes else _FIRST_JOB_SQL
        self._execute(begin)
        try:
            _apply_jobs(group, transaction)
        except Exception as exc:
            if not self._connection.in_transaction:
                raise  # the disk is full or broken: SQLite has rolled back everything
            self._execute(roll_back)
            self._new_runs.clear()
            return translate_error(exc)
        self._execute(keep)
        self._has_changes = True
        hints.merge(transaction.hints)
        return None

    def _execute(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self._connection.execute(statement)

    def _fail(self, jobs: Sequence[_Job], error: BaseException) -> None:
        with suppress(sqlite3.Error):  # on a broken disk this may fail too, and the jobs still need their error
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        for job in jobs:
            job.outcome = error

    def _resolve(self, jobs: Sequence[_Job], hints: WakeHints) -> None:
        for job in jobs:
            resolve(job.future, job.outcome)
        hint = hints.build()
        if hint is not None:
            self._bus.publish(hint)


def _file_identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file, which stay the same if it is moved; `None` if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _split_jobs(jobs: Sequence[_Job]) -> list[list[_Job]]:
    """Split jobs into groups: each operation alone and in order, and the batch items between two operations by batch.

    No group has two items with the same key, and items with the same key keep their order.
    """
    groups: list[list[_Job]] = []
    latest: dict[int, tuple[list[_Job], set[Hashable]]] = {}
    for job in jobs:
        if job.batch is None:
            groups.append([job])
            latest.clear()
            continue
        key = job.batch.key(job.item)
        found = latest.get(id(job.batch))
        if found is None or key in found[1]:
            found = latest[id(job.batch)] = [], set()
            groups.append(found[0])
        found[0].append(job)
        found[1].add(key)
    return groups


def _apply_jobs(group: Sequence[_Job], transaction: SqliteTransaction) -> None:
    """Run the jobs of `group` and store their results."""
    batch = group[0].batch
    if group[0].operation is not None:
        group[0].outcome = run_operation(group[0].operation, transaction)
    elif batch is not None:
        outcomes = run_to_end(batch.apply(transaction, [job.item for job in group]))
        for job, outcome in zip(group, outcomes, strict=True):
            job.outcome = outcome
