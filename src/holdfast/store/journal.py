"""The journal in SQL."""

from collections.abc import Sequence
from typing import Final

from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.errors import LeaseLost
from holdfast.domain.events import Event, RunStarted, decode
from holdfast.domain.inbox import InboxItem
from holdfast.domain.instant import millis
from holdfast.domain.message import Message
from holdfast.domain.opening import Opening
from holdfast.domain.page import check_limit
from holdfast.domain.stream import STRUCTURAL_TYPES
from holdfast.metrics.meters import Meters
from holdfast.store.beginnings import first_event
from holdfast.store.counting import CountedCommits
from holdfast.store.encoding import dump
from holdfast.store.inbox import to_item
from holdfast.store.interrupts import open_interrupts
from holdfast.store.messages import MOST, chain_before, leased_chain_end
from holdfast.store.prepared import prepare
from holdfast.store.steps import steps_of_run
from holdfast.store.threads import to_thread
from holdfast.store.transaction import Database, Row, Transaction
from holdfast.store.values import values_at_end

MOST_KNOWN_TEXTS: Final = 10_000
"""How many texts of contexts are remembered to be kept already."""

_STRUCTURAL: Final = dump(sorted(STRUCTURAL_TYPES))


class SqlJournal:
    """`Journal`."""

    def __init__(self, database: Database, meters: Meters) -> None:
        self._database = database
        self._commits = CountedCommits(meters)
        self._known_texts: dict[tuple[int, str], None] = {}

    async def open(self, lease: Lease) -> Opening:
        """Return where the run stands."""
        alone = lease.run.base_run_id is None  # then there are no messages but its own input
        return await self._database.read(lambda tx: _open(tx, lease), quick=alone and lease.number == 1)

    async def history(self, lease: Lease, *, before: int, limit: int) -> list[Message]:
        """Return earlier messages of the run's chain."""
        check_limit(limit, most=MOST)

        async def find(tx: Transaction) -> list[Message]:
            await _check_held(tx, lease)
            return await chain_before(tx, lease.run_key, lease.thread_key, before=before, limit=limit)

        return await self._database.read(find)

    async def commit(self, commit: Commit) -> Committed:
        """Add everything in `commit`, or nothing."""
        prepared = prepare(commit, known_texts=self._known_texts)
        committed = await self._commits.counted(commit, self._database.together(self._commits.batch, prepared))
        if prepared.texts:
            self._remember_texts(commit.lease.space_key, prepared.texts)
        return committed

    async def inbox(self, lease: Lease) -> list[InboxItem]:
        """Return what is unread."""

        async def find(tx: Transaction) -> list[InboxItem]:
            await _check_held(tx, lease)
            return await _unread(tx, lease)

        return await self._database.read(find)

    async def next_task_id(self, lease: Lease, *, step: str) -> int:
        """Take the next number for an item of a plan."""

        async def take(tx: Transaction) -> int:
            await tx.lock(threads=[lease.thread_key])
            await _check_held(tx, lease)
            names = {"thread_key": lease.thread_key, "step": step}
            row = await tx.one("task_number", **names) or await tx.one("take_task_number", **names)
            assert row is not None
            number: int = row["number"]
            return number

        return await self._database.write(take)

    def _remember_texts(self, space_key: int, texts: Sequence[tuple[str, str]]) -> None:
        for digest, _ in texts:
            self._known_texts[space_key, digest] = None
        while len(self._known_texts) > MOST_KNOWN_TEXTS:
            del self._known_texts[next(iter(self._known_texts))]


async def _open(tx: Transaction, lease: Lease) -> Opening:
    row = _held(lease, await tx.one("opening", run_key=lease.run_key, thread_key=lease.thread_key))
    return Opening(
        thread=to_thread(row, lease.space_id),
        messages=await leased_chain_end(tx, lease, limit=row["context_window"]),
        steps=await steps_of_run(tx, lease.run_key) if row["has_steps"] else (),
        values=await values_at_end(tx, lease.run_key) if row["has_values"] else {},
        inbox=await _unread(tx, lease) if row["unread"] else (),
        # A question is asked in a commit that gives the lease back.
        interrupts=await open_interrupts(tx, lease.run_key) if lease.number > 1 else (),
        events=await _structural_events(tx, lease) if row["last_event_seq"] > 1 else [_first_event(lease)],
        last_event_seq=row["last_event_seq"],
    )


async def _check_held(tx: Transaction, lease: Lease) -> None:
    _held(lease, await tx.one("head", run_key=lease.run_key))


def _held(lease: Lease, head: Row | None) -> Row:
    if head is None or head["lease_number"] != lease.number:
        raise LeaseLost(f"lease {lease.number} of run `{lease.run_id}` is lost", run_id=lease.run_id)
    return head


async def _unread(tx: Transaction, lease: Lease) -> list[InboxItem]:
    return [to_item(row) for row in await tx.all("inbox_of_run", run_key=lease.run_key)]


async def _structural_events(tx: Transaction, lease: Lease) -> list[Event]:
    rows = await tx.all("events_of_types_after", run_key=lease.run_key, seq=0, types=_STRUCTURAL, limit=2**31)
    return [decode(row["data"].encode()) for row in rows]


def _first_event(lease: Lease) -> RunStarted:
    """Return what every run's log begins with, which needs no reading."""
    return first_event(lease.run, millis(lease.run.created_at))
