"""The journal of a leased run in SQL (open, commit, inbox), its metrics, and the event log for readers."""

from collections.abc import Sequence
from time import perf_counter
from typing import Final

from holdfast.domain.commit import Commit, Committed, Lease, RunSnapshot
from holdfast.domain.errors import HoldfastError, Invalid, LeaseLost
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.inbox import InboxItem
from holdfast.domain.instant import instant, millis
from holdfast.domain.limits import Usage
from holdfast.domain.message import Message
from holdfast.domain.page import check_page_size
from holdfast.domain.run import RunStatus
from holdfast.metrics.meters import Meters
from holdfast.ports.log import LoggedEvent, LogHead
from holdfast.store.commit_rows import PreparedCommit, prepare_commit, usage_values
from holdfast.store.commits import COMMIT_BATCH
from holdfast.store.creation import run_started_event
from holdfast.store.encoding import dump_json
from holdfast.store.inbox import to_inbox_item
from holdfast.store.interrupts import open_interrupts_of_run
from holdfast.store.messages import MAX_HISTORY_MESSAGES, chain_messages_before, last_messages_of_lease
from holdfast.store.run_end import structural_events
from holdfast.store.run_rows import run_key_of
from holdfast.store.run_state import add_spending, current_values, steps_of_run
from holdfast.store.threads import to_thread
from holdfast.store.transaction import Batch, Database, Row, SqlPort, Transaction, reads, writes
from holdfast.store.usage import record_usage

MAX_KNOWN_TEXTS: Final = 10_000
"""Digests of context texts that a journal remembers as stored, so that it need not write them again."""


class SqlJournal(SqlPort):
    """Implements `Journal`, and counts commits."""

    def __init__(self, database: Database, meters: Meters) -> None:
        super().__init__(database)
        self._meters = meters
        self._done = meters.commits.of("done")
        self._batch = Batch(key=COMMIT_BATCH.key, apply=self._apply)
        self._known_texts: dict[tuple[int, str], None] = {}

    async def open(self, lease: Lease) -> RunSnapshot:
        """Return a snapshot of the run."""
        # The first lease of a run without a base reads only a few rows: the run's own input.
        quick = lease.run.base_run_id is None and lease.number == 1
        return await self._database.read(lambda tx: _read_snapshot(tx, lease), quick=quick)

    @reads
    async def history(self, tx: Transaction, lease: Lease, *, before: int, limit: int) -> list[Message]:
        """Return earlier messages of the run's chain."""
        check_page_size(limit, maximum=MAX_HISTORY_MESSAGES)
        await _check_lease(tx, lease)
        return await chain_messages_before(tx, lease.run_key, lease.thread_key, before=before, limit=limit)

    async def commit(self, commit: Commit) -> Committed:
        """Write everything in `commit`, or nothing."""
        prepared = prepare_commit(commit, known_texts=self._known_texts)
        started = perf_counter()
        try:
            committed = await self._database.submit_to_batch(self._batch, prepared)
        except HoldfastError as error:
            self._meters.commits.of("lease_lost" if isinstance(error, LeaseLost) else "refused").add()
            raise
        self._meters.commit_seconds.observe(perf_counter() - started)
        self._done.add()
        if commit.move is not None and commit.move.to.terminal:
            self._meters.ended.of(commit.move.to).add()
        for digest, _ in prepared.texts:
            self._known_texts[commit.lease.space_key, digest] = None
        while len(self._known_texts) > MAX_KNOWN_TEXTS:
            del self._known_texts[next(iter(self._known_texts))]
        return committed

    async def _apply(self, tx: Transaction, commits: Sequence[PreparedCommit]) -> Sequence[Committed | HoldfastError]:
        outcomes = await COMMIT_BATCH.apply(tx, commits)
        self._meters.batch_size.observe(len(commits))
        return outcomes

    @writes
    async def charge_ended(self, tx: Transaction, lease: Lease, usage: Usage) -> bool:
        """Add the usage of a cut-off call to a run that was ended from outside."""
        await tx.lock(runs=[lease.run_key])
        head = await tx.one("head", run_key=lease.run_key)
        # Ending a run raises its lease number; its worker is recorded until it has released the run.
        if head is None or not RunStatus(head["status"]).terminal:
            return False
        if (head["lease_owner"], head["lease_number"]) != (lease.owner, lease.number + 1):
            return False
        await tx.many("add_usage", [(*usage_values(usage), 0, lease.run_key)])
        await add_spending(tx, [(lease, usage)])
        await record_usage(tx, [(lease, usage, ())])
        return True

    @reads
    async def inbox(self, tx: Transaction, lease: Lease) -> list[InboxItem]:
        """Return the unread inbox items."""
        await _check_lease(tx, lease)
        return await _unread_items(tx, lease)

    @writes
    async def next_task_id(self, tx: Transaction, lease: Lease, *, step: str) -> int:
        """Reserve the next plan item number."""
        await tx.lock(threads=[lease.thread_key])
        await _check_lease(tx, lease)
        names = {"thread_key": lease.thread_key, "step": step}
        row = await tx.one("task_number", **names) or await tx.one("take_task_number", **names)
        assert row is not None
        return int(row["number"])


async def _read_snapshot(tx: Transaction, lease: Lease) -> RunSnapshot:
    row = _check_head(lease, await tx.one("opening", run_key=lease.run_key, thread_key=lease.thread_key))
    if row["last_event_seq"] > 1:
        events = await structural_events(tx, lease.run_key)
    else:  # only the start event, which can be rebuilt without a read
        events = [run_started_event(lease.run, millis(lease.run.created_at))]
    return RunSnapshot(
        thread=to_thread(row, lease.space_id),
        messages=await last_messages_of_lease(tx, lease, limit=row["context_window"]),
        steps=await steps_of_run(tx, lease.run_key) if row["has_steps"] else (),
        values=await current_values(tx, lease.run_key) if row["has_values"] else {},
        inbox=await _unread_items(tx, lease) if row["unread"] else (),
        # A commit that adds an interrupt releases the lease, so a first lease has none.
        interrupts=await open_interrupts_of_run(tx, lease.run_key) if lease.number > 1 else (),
        events=events,
        last_event_seq=row["last_event_seq"],
    )


async def _check_lease(tx: Transaction, lease: Lease) -> None:
    _check_head(lease, await tx.one("head", run_key=lease.run_key))


def _check_head(lease: Lease, head: Row | None) -> Row:
    """Return the head of a run, or raise if the lease is lost."""
    if head is None or head["lease_number"] != lease.number:
        raise LeaseLost(f"lease {lease.number} of run `{lease.run_id}` is lost", run_id=lease.run_id)
    return head


async def _unread_items(tx: Transaction, lease: Lease) -> list[InboxItem]:
    return [to_inbox_item(row) for row in await tx.all("inbox_of_run", run_key=lease.run_key)]


MAX_QUICK_HEADS: Final = 4
"""Heads up to which a read counts as quick, and may run on the event loop."""


class SqlEventLog(SqlPort):
    """Implements `EventLog`."""

    @reads
    async def after(
        self,
        tx: Transaction,
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
        key = await run_key_of(tx, space, run)
        if types is None:
            rows = await tx.all("events_after", run_key=key, seq=seq, limit=limit)
        else:
            encoded = dump_json(list(types))
            rows = await tx.all("events_of_types_after", run_key=key, seq=seq, types=encoded, limit=limit)
        return [
            LoggedEvent(
                seq=row["seq"], type=row["type"], data=row["data"].encode(), created_at=instant(row["created_at"])
            )
            for row in rows
        ]

    async def heads(self, runs: Sequence[tuple[SpaceId, RunId]]) -> list[LogHead]:
        """Return the log head of each run, in one query."""

        async def read(tx: Transaction) -> list[LogHead]:
            return [
                LogHead(
                    space_id=row["space_id"],
                    run_id=row["id"],
                    status=RunStatus(row["status"]),
                    last_event_seq=row["last_event_seq"],
                )
                for row in await tx.many("heads_of", list(dict.fromkeys(runs)))
            ]

        return await self._database.read(read, quick=len(runs) <= MAX_QUICK_HEADS)
