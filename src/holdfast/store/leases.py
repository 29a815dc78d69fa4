"""Leases in SQL: claim queued runs in batches, renew and release leases, and requeue expired runs."""

from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.claim_round import ClaimRound
from holdfast.domain.commit import Lease, LeaseRef, RunSnapshot
from holdfast.domain.errors import HoldfastError, Invalid, LeaseLost
from holdfast.domain.ids import ApiKeyId, OwnerId, RunId
from holdfast.domain.instant import Millis, instant, maybe_instant, millis
from holdfast.domain.limits import MAX_ATTEMPTS, attempts_exhausted, backoff_ms
from holdfast.domain.page import check_page_size
from holdfast.domain.run import Run, RunError, RunStatus
from holdfast.domain.timer import NewTimer
from holdfast.domain.worker import DEFAULT_CLAIM, ClaimFilter
from holdfast.metrics.meters import Meters
from holdfast.ports.log import LogAppend, log_head
from holdfast.ports.queue import QueueState, TokenBinding
from holdfast.store.claims import ClaimRequest, claim_heads
from holdfast.store.run_end import RunEnd, end_run_trees, lock_run_trees, queue_dependent_runs
from holdfast.store.run_rows import to_run
from holdfast.store.run_state import budget_keys_of_run, has_budget
from holdfast.store.timers import timer_values
from holdfast.store.transaction import Batch, Database, Row, SqlPort, Transaction, reads, store_time

_MILLISECOND: Final = timedelta(milliseconds=1)
MAX_ROUNDS: Final = 1000
"""Sets of pools and spaces whose round is remembered; a forgotten one begins again."""


class SqlLeases(SqlPort):
    """Implements `Leases`."""

    def __init__(self, database: Database, meters: Meters) -> None:
        super().__init__(database)
        self._meters = meters
        self._rounds: dict[ClaimFilter, ClaimRound] = {}

    async def claim(
        self, owner: OwnerId, *, lease: timedelta, limit: int = 1, where: ClaimFilter = DEFAULT_CLAIM
    ) -> list[Lease]:
        """Lease queued runs to `owner`."""
        return await self.claim_bound(owner, lease=lease, limit=limit, where=where, binding=None)

    async def claim_bound(
        self, owner: OwnerId, *, lease: timedelta, limit: int, where: ClaimFilter, binding: TokenBinding | None
    ) -> list[Lease]:
        """Lease queued runs to `owner`, and bind the leases to tokens."""
        check_page_size(limit, maximum=1000)
        turns = self._rounds.get(where) or self._add_round(where)
        request = ClaimRequest(owner, _lease_ms(lease), limit, where, turns, binding)
        claimed = await self._database.submit_to_batch(CLAIM_BATCH, request)
        self._meters.claimed.add(len(claimed))
        return claimed

    async def renew(self, owner: OwnerId, leases: Sequence[Lease], *, lease: timedelta) -> list[Lease]:
        """Extend leases and return those that are still held."""
        lease_ms = _lease_ms(lease)

        async def extend(tx: Transaction) -> list[Lease]:
            values = [(tx.lease_now, lease_ms, each.run_key, each.number, owner) for each in leases]
            rows = await tx.many("renew_leases", values)
            expiry = {(row["run_key"], row["lease_number"]): instant(row["lease_expires_at"]) for row in rows}
            held = [lease for lease in leases if (lease.run_key, lease.number) in expiry]
            return [replace(lease, expires_at=expiry[lease.run_key, lease.number]) for lease in held]

        return await self._database.write(extend)

    async def release(self, lease: Lease, *, delay: timedelta = timedelta()) -> None:
        """Return a run to the queue, or record that the worker of an ended run has stopped."""

        async def release(tx: Transaction) -> None:
            await tx.lock(threads=[lease.thread_key], runs=[lease.run_key])
            wait = await store_time(tx) + delay // _MILLISECOND if delay else None
            row = await tx.one(
                "release_head", run_key=lease.run_key, lease_number=lease.number, now=tx.now, wait_until=wait
            )
            if row is not None:
                tx.hints.add(run=(lease.space_id, lease.run_id), queue=not delay, delayed=bool(delay))
            elif not await _release_ended_run(tx, lease.run_key, lease.number + 1):  # ending a run raises the number
                raise LeaseLost(f"lease {lease.number} of run `{lease.run_id}` is lost", run_id=lease.run_id)

        try:
            await self._database.write(release)
        except LeaseLost:
            self._meters.leases_lost.add()
            raise

    async def release_leftover(self, leases: Sequence[Lease]) -> None:
        """Release the leases of runs that are still running under them."""

        async def running(tx: Transaction) -> set[tuple[int, int]]:
            rows = await tx.many("leases_of_running", [(lease.run_key,) for lease in leases])
            return {(row["run_key"], row["lease_number"]) for row in rows}

        held = await self._database.read(running, quick=True)
        for lease in leases:
            if (lease.run_key, lease.number) in held:
                with suppress(LeaseLost):
                    await self.release(lease)

    async def fail(self, lease: Lease, error: RunError) -> None:
        """End a run as failed, if the lease is still held."""

        async def end(tx: Transaction) -> list[Run]:
            await lock_run_trees(tx, [lease.run_key])
            head = await tx.one("head", run_key=lease.run_key)
            if head is None or head["lease_number"] != lease.number:
                return []
            outcome = RunEnd(to=RunStatus.FAILED, reason="internal error", error=error)
            return await end_run_trees(tx, [lease.run_key], outcome)

        self._meters.ended.of(RunStatus.FAILED).add(len(await self._database.write(end)))

    async def expire(self, *, cap: int = MAX_ATTEMPTS, spare: Container[int] = ()) -> list[RunId]:
        """Take back the runs of expired leases."""
        expired = await self._database.read(lambda tx: tx.all("expired_heads", now=tx.lease_now))
        return await self.take_back((head for head in expired if head["run_key"] not in spare), cap=cap)

    async def take_back(self, heads: Iterable[Row], *, cap: int = MAX_ATTEMPTS) -> list[RunId]:
        """Requeue or fail runs whose workers are dead, and return those that did not change since they were read."""
        requeued = [
            RunId(head["id"])
            for head in heads
            if await self._database.write(partial(requeue_expired_run, expired=head, cap=cap))
        ]
        self._meters.leases_expired.add(len(requeued))
        return requeued

    def _add_round(self, where: ClaimFilter) -> ClaimRound:
        if len(self._rounds) >= MAX_ROUNDS:
            del self._rounds[next(iter(self._rounds))]
        self._rounds[where] = ClaimRound()
        return self._rounds[where]

    @reads
    async def queue_state(self, tx: Transaction) -> QueueState:
        """Return whether a run may be claimed."""
        row = await tx.one("queue_state", now=tx.lease_now)
        assert row is not None
        return QueueState(ready=bool(row["ready"]), next_at=maybe_instant(row["next_at"]))


async def requeue_expired_run(tx: Transaction, expired: Row, *, cap: int) -> bool:
    """Requeue or fail a run whose worker is dead, unless it changed since `expired` was read."""
    run_key = expired["run_key"]
    if RunStatus(expired["status"]).terminal:
        await tx.lock(threads=[expired["thread_key"]], runs=[run_key])
        return await _release_ended_run(tx, run_key, expired["lease_number"])
    if attempts_exhausted(expired["attempt"], cap):
        return await _fail_exhausted_run(tx, expired)
    delay = backoff_ms(expired["attempt"])
    row = await tx.one(
        "requeue_expired",
        run_key=run_key,
        lease_number=expired["lease_number"],
        seen_expiry=expired["lease_expires_at"],
        wait_until=await store_time(tx) + delay if delay else None,
        now=tx.now,
    )
    if row is not None:
        await tx.run("count_lost_lease", id=expired["lease_owner"])
    else:  # the lease was renewed, or the run was ended with its parent
        await tx.lock(threads=[expired["thread_key"]], runs=[run_key])
        return await _release_ended_run(tx, run_key, expired["lease_number"] + 1)
    tx.hints.add(queue=not delay, delayed=bool(delay))
    return True


async def release_all_leases(tx: Transaction, *, cap: int) -> None:
    """Release every run, timer and delivery at once: the process that held them is gone."""
    for head in await tx.all("expired_heads", now=2**62):
        await requeue_expired_run(tx, head, cap=cap)
    for statement in ("free_timers", "free_deliveries"):
        await tx.run(statement)


async def _fail_exhausted_run(tx: Transaction, expired: Row) -> bool:
    message = f"the run was started {expired['attempt']} times and its worker died each time before a step settled"
    error = RunError(code="ATTEMPTS_EXHAUSTED", message=message)
    await tx.lock(threads=[expired["thread_key"]], runs=[expired["run_key"]])
    head = await tx.one("head", run_key=expired["run_key"])
    if head is None or head["lease_expires_at"] != expired["lease_expires_at"]:
        return False
    await end_run_trees(tx, [expired["run_key"]], RunEnd(to=RunStatus.FAILED, reason="attempts exhausted", error=error))
    return await _release_ended_run(tx, expired["run_key"], expired["lease_number"] + 1)


async def _release_ended_run(tx: Transaction, run_key: int, lease_number: int) -> bool:
    if await tx.one("release_ended_head", run_key=run_key, lease_number=lease_number) is None:
        return False
    await queue_dependent_runs(tx, [run_key])
    return True


def _lease_ms(lease: timedelta) -> int:
    if lease < _MILLISECOND:
        raise Invalid("a lease must last at least a millisecond", field="lease")
    return lease // _MILLISECOND


_MAX_DEADLINE_SECONDS: Final = 1000 * 365 * 24 * 3600
"""A date further away may not be representable."""


class ClaimedRun(msgspec.Struct, frozen=True):
    """A claimed run with its keys, and its snapshot if that needs no read."""

    run: Run
    space_key: int
    thread_key: int
    parent_key: int | None
    snapshot: RunSnapshot | None = None


async def _claim_batch(tx: Transaction, claims: Sequence[ClaimRequest]) -> list[list[Lease] | HoldfastError]:
    """Serve several claims; the runs whose turn is first go to the earliest claims."""
    groups: dict[tuple[OwnerId, int, ClaimFilter], list[ClaimRequest]] = {}
    for claim in claims:
        groups.setdefault((claim.owner, claim.lease_ms, claim.where), []).append(claim)
    claimed: dict[ClaimRequest, list[Lease]] = {}
    for (owner, lease_ms, _), group in groups.items():
        heads = await claim_heads(tx, group[0], limit=sum(claim.limit for claim in group))
        leases = await _to_leases(tx, owner, lease_ms, heads)
        for claim in group:
            claimed[claim], leases = leases[: claim.limit], leases[claim.limit :]
    await tx.many("issue_worker_leases", [row for claim, leases in claimed.items() for row in _bound(claim, leases)])
    return [claimed[claim] for claim in claims]


def _bound(claim: ClaimRequest, leases: Sequence[Lease]) -> list[tuple[int, int, bytes, ApiKeyId | None]]:
    """Return the rows that bind leases to tokens."""
    if claim.binding is None:
        return []
    hash_of, api_key = claim.binding
    return [
        (
            lease.run_key,
            lease.number,
            hash_of(LeaseRef(space_id=lease.space_id, run_id=lease.run_id, number=lease.number)),
            api_key,
        )
        for lease in leases
    ]


CLAIM_BATCH: Final = Batch(key=lambda claim: claim, apply=_claim_batch, durable=False)


async def _to_leases(tx: Transaction, owner: OwnerId, lease_ms: int, heads: Sequence[Row]) -> list[Lease]:
    runs = await _claimed_runs(tx, heads)
    leases = [await to_lease(tx, owner, head, runs[head["run_key"]]) for head in heads]
    deadlines = []
    for lease in leases:
        seconds = lease.run.limits.max_duration_seconds
        if lease.number == 1 and seconds is not None:
            claimed_at = millis(lease.expires_at) - lease_ms
            due_at = Millis(claimed_at + min(seconds, _MAX_DEADLINE_SECONDS) * 1000)
            timer = NewTimer(kind="deadline", due_at=instant(due_at), data={"seconds": seconds})
            deadlines.append(timer_values(tx, timer, space=lease.space_key, run_key=lease.run_key))
        tx.hints.add(grown=LogAppend(head=log_head(lease.run), at=tx.now))
    await tx.many("add_timers", deadlines)
    tx.hints.add(timers=bool(deadlines))
    return leases


async def _claimed_runs(tx: Transaction, heads: Sequence[Row]) -> dict[int, ClaimedRun]:
    """Return claimed runs by key; runs that this transaction inserted are not read back."""
    claimed: dict[int, ClaimedRun] = {}
    for head in heads:
        new = tx.new_runs.get(head["run_key"])
        if new is not None:
            run = replace(
                new.run,
                status=RunStatus.RUNNING,
                attempt=head["attempt"],
                started_at=instant(head["started_at"]),
                session_id=head["session_id"],
            )
            snapshot = None if head["unread"] else new.snapshot()
            claimed[head["run_key"]] = ClaimedRun(run, new.space_key, new.thread_key, new.parent_key, snapshot)
    stored = [(head["run_key"],) for head in heads if head["run_key"] not in claimed]
    for row in await tx.many("runs_by_key", stored):
        claimed[row["run_key"]] = ClaimedRun(to_run(row), row["space_key"], row["thread_key"], row["parent_key"])
    return claimed


async def to_lease(tx: Transaction, owner: OwnerId, head: Row, claimed: ClaimedRun) -> Lease:
    """Return the lease that the head of a run describes."""
    run = claimed.run
    spends = claimed.parent_key is not None or has_budget(run.limits)
    budgets = await budget_keys_of_run(tx, head["run_key"]) if spends else ()
    if head["budgeted_space"] is not None:
        budgets = (*budgets, -head["budgeted_space"])
    return Lease(
        space_id=run.space_id,
        run_id=run.id,
        thread_id=run.thread_id,
        owner=owner,
        number=head["lease_number"],
        expires_at=instant(head["lease_expires_at"]),
        space_key=claimed.space_key,
        run_key=head["run_key"],
        thread_key=claimed.thread_key,
        parent_key=claimed.parent_key,
        budget_keys=budgets,
        run=run,
        snapshot=claimed.snapshot,
        reminders_due=bool(head["reminders_due"]),
        space_limited=bool(head["space_limited"]),
    )
