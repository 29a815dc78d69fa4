"""The journal of a leased run in SQL (open, commit, inbox), its metrics, and the event log for readers."""

from collections.abc import Awaitable, Sequence
from time import perf_counter
from typing import Final

from holdfast.domain.commit import Commit, Committed, Lease, RunSnapshot
from holdfast.domain.errors import HoldfastError, Invalid, LeaseLost
from holdfast.domain.events import Event, RunStarted, decode_event
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.inbox import InboxItem
from holdfast.domain.instant import instant, millis
from holdfast.domain.message import Message
from holdfast.domain.page import check_page_size
from holdfast.domain.run import RunStatus
from holdfast.domain.stream import STRUCTURAL_TYPES
from holdfast.metrics.meters import Meters
from holdfast.ports.log import LoggedEvent, LogHead
from holdfast.store.commit_rows import PreparedCommit, prepare_commit
from holdfast.store.commits import COMMIT_BATCH
from holdfast.store.creation import run_started_event
from holdfast.store.encoding import dump_json
from holdfast.store.inbox import to_inbox_item
from holdfast.store.interrupts import open_interrupts_of_run
from holdfast.store.messages import MAX_HISTORY_MESSAGES, chain_messages_before, last_messages_of_lease
from holdfast.store.run_rows import run_key_of
from holdfast.store.run_state import current_values, steps_of_run
from holdfast.store.threads import to_thread
from holdfast.store.transaction import Batch, Database, Row, Transaction

MAX_KNOWN_TEXTS: Final = 10_000
"""How many texts of contexts are remembered to be kept already."""

_STRUCTURAL_EVENT_TYPES: Final = dump_json(sorted(STRUCTURAL_TYPES))


class SqlJournal:
    """`Journal`."""

    def __init__(self, database: Database, meters: Meters) -> None:
        self._database = database
        self._commits = CommitMetrics(meters)
        self._known_texts: dict[tuple[int, str], None] = {}

    async def open(self, lease: Lease) -> RunSnapshot:
        """Return where the run stands."""
        alone = lease.run.base_run_id is None  # then there are no messages but its own input
        return await self._database.read(lambda tx: _read_opening(tx, lease), quick=alone and lease.number == 1)

    async def history(self, lease: Lease, *, before: int, limit: int) -> list[Message]:
        """Return earlier messages of the run's chain."""
        check_page_size(limit, maximum=MAX_HISTORY_MESSAGES)

        async def find(tx: Transaction) -> list[Message]:
            await _check_lease(tx, lease)
            return await chain_messages_before(tx, lease.run_key, lease.thread_key, before=before, limit=limit)

        return await self._database.read(find)

    async def commit(self, commit: Commit) -> Committed:
        """Add everything in `commit`, or nothing."""
        prepared = prepare_commit(commit, known_texts=self._known_texts)
        committed = await self._commits.observe(commit, self._database.submit_to_batch(self._commits.batch, prepared))
        if prepared.texts:
            self._remember_texts(commit.lease.space_key, prepared.texts)
        return committed

    async def inbox(self, lease: Lease) -> list[InboxItem]:
        """Return what is unread."""

        async def find(tx: Transaction) -> list[InboxItem]:
            await _check_lease(tx, lease)
            return await _unread_items(tx, lease)

        return await self._database.read(find)

    async def next_task_id(self, lease: Lease, *, step: str) -> int:
        """Take the next number for an item of a plan."""

        async def take(tx: Transaction) -> int:
            await tx.lock(threads=[lease.thread_key])
            await _check_lease(tx, lease)
            names = {"thread_key": lease.thread_key, "step": step}
            row = await tx.one("task_number", **names) or await tx.one("take_task_number", **names)
            assert row is not None
            number: int = row["number"]
            return number

        return await self._database.write(take)

    def _remember_texts(self, space_key: int, texts: Sequence[tuple[str, str]]) -> None:
        for digest, _ in texts:
            self._known_texts[space_key, digest] = None
        while len(self._known_texts) > MAX_KNOWN_TEXTS:
            del self._known_texts[next(iter(self._known_texts))]


async def _read_opening(tx: Transaction, lease: Lease) -> RunSnapshot:
    row = _head_of_held_lease(lease, await tx.one("opening", run_key=lease.run_key, thread_key=lease.thread_key))
    return RunSnapshot(
        thread=to_thread(row, lease.space_id),
        messages=await last_messages_of_lease(tx, lease, limit=row["context_window"]),
        steps=await steps_of_run(tx, lease.run_key) if row["has_steps"] else (),
        values=await current_values(tx, lease.run_key) if row["has_values"] else {},
        inbox=await _unread_items(tx, lease) if row["unread"] else (),
        # A question is asked in a commit that gives the lease back.
        interrupts=await open_interrupts_of_run(tx, lease.run_key) if lease.number > 1 else (),
        events=await _structural_events(tx, lease)
        if row["last_event_seq"] > 1
        else [_run_started_event_of_lease(lease)],
        last_event_seq=row["last_event_seq"],
    )


async def _check_lease(tx: Transaction, lease: Lease) -> None:
    _head_of_held_lease(lease, await tx.one("head", run_key=lease.run_key))


def _head_of_held_lease(lease: Lease, head: Row | None) -> Row:
    if head is None or head["lease_number"] != lease.number:
        raise LeaseLost(f"lease {lease.number} of run `{lease.run_id}` is lost", run_id=lease.run_id)
    return head


async def _unread_items(tx: Transaction, lease: Lease) -> list[InboxItem]:
    return [to_inbox_item(row) for row in await tx.all("inbox_of_run", run_key=lease.run_key)]


async def _structural_events(tx: Transaction, lease: Lease) -> list[Event]:
    rows = await tx.all(
        "events_of_types_after", run_key=lease.run_key, seq=0, types=_STRUCTURAL_EVENT_TYPES, limit=2**31
    )
    return [decode_event(row["data"].encode()) for row in rows]


def _run_started_event_of_lease(lease: Lease) -> RunStarted:
    """Return what every run's log begins with, which needs no reading."""
    return run_started_event(lease.run, millis(lease.run.created_at))


class CommitMetrics:
    """Commits as they are counted in one store."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._done = meters.commits.of("done")
        self.batch = Batch(name=COMMIT_BATCH.name, apply=self._apply)
        """`COMMIT_BATCH`, whose size is taken note of."""

    async def observe(self, commit: Commit, committing: Awaitable[Committed]) -> Committed:
        """Wait for a commit, and count what becomes of it."""
        begun = perf_counter()
        try:
            committed = await committing
        except HoldfastError as error:
            self._meters.commits.of("lease_lost" if isinstance(error, LeaseLost) else "refused").add()
            raise
        self._meters.commit_seconds.observe(perf_counter() - begun)
        self._done.add()
        if commit.move is not None and commit.move.to.terminal:
            self._meters.ended.of(commit.move.to).add()
        return committed

    async def _apply(self, tx: Transaction, commits: Sequence[PreparedCommit]) -> Sequence[Committed | HoldfastError]:
        outcomes = await COMMIT_BATCH.apply(tx, commits)
        self._meters.batch_size.observe(len(commits))
        return outcomes


MAX_QUICK_HEADS: Final = 4
"""Heads that are read at once."""


class SqlEventLog:
    """`EventLog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def after(
        self,
        space: SpaceId,
        run: RunId,
        *,
        seq: int = 0,
        limit: int = 1000,
        types: Sequence[str] | None = None,
    ) -> list[LoggedEvent]:
        """Return events above a number, in order."""
        check_page_size(limit, maximum=10_000)
        if seq < 0:
            raise Invalid("`seq` must be 0 or more", field="seq")

        async def find(tx: Transaction) -> list[LoggedEvent]:
            key = await run_key_of(tx, space, run)
            if types is None:
                rows = await tx.all("events_after", run_key=key, seq=seq, limit=limit)
            else:
                wanted = dump_json(list(types))
                rows = await tx.all("events_of_types_after", run_key=key, seq=seq, types=wanted, limit=limit)
            return [_to_logged_event(row) for row in rows]

        return await self._database.read(find)

    async def heads(self, runs: Sequence[tuple[SpaceId, RunId]]) -> list[LogHead]:
        """Return how far each run is, in one query."""
        return await self._database.read(lambda tx: _read_heads(tx, runs), quick=len(runs) <= MAX_QUICK_HEADS)


async def _read_heads(tx: Transaction, runs: Sequence[tuple[SpaceId, RunId]]) -> list[LogHead]:
    return [_to_head(row) for row in await tx.many("heads_of", list(dict.fromkeys(runs)))]


def _to_logged_event(row: Row) -> LoggedEvent:
    return LoggedEvent(
        seq=row["seq"], type=row["type"], data=row["data"].encode(), created_at=instant(row["created_at"])
    )


def _to_head(row: Row) -> LogHead:
    return LogHead(
        space_id=row["space_id"],
        run_id=row["id"],
        status=RunStatus(row["status"]),
        last_event_seq=row["last_event_seq"],
    )
