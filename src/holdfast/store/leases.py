"""Leases in SQL: claim queued runs in batches, renew and release leases, and requeue expired runs."""

from collections.abc import Hashable, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec
from msgspec import structs
from msgspec.structs import replace

from holdfast.domain.commit import Lease, RunSnapshot
from holdfast.domain.errors import HoldfastError, Invalid, LeaseLost
from holdfast.domain.ids import OwnerId, RunId
from holdfast.domain.instant import Millis, instant, maybe_instant
from holdfast.domain.limits import MAX_ATTEMPTS, attempts_exhausted, backoff_ms
from holdfast.domain.page import check_page_size
from holdfast.domain.run import Run, RunError, RunStatus
from holdfast.domain.timer import NewTimer
from holdfast.metrics.meters import Meters
from holdfast.ports.log import LogAppend, log_head
from holdfast.ports.queue import QueueState
from holdfast.store.endings import RunEnd, end_run_trees, queue_dependent_runs
from holdfast.store.run_rows import to_run
from holdfast.store.run_state import budget_keys_of_run, has_budget
from holdfast.store.timers import timer_values
from holdfast.store.transaction import Batch, Database, NewRunRow, Row, Transaction

_MILLISECOND: Final = timedelta(milliseconds=1)


class SqlLeases:
    """`Leases`."""

    def __init__(self, database: Database, meters: Meters) -> None:
        self._database = database
        self._meters = meters

    async def claim(self, owner: OwnerId, *, lease: timedelta, limit: int = 1) -> list[Lease]:
        """Lease queued runs to `owner`, the most urgent first."""
        check_page_size(limit, maximum=1000)
        claimed = await self._database.submit_to_batch(CLAIM_BATCH, ClaimRequest(owner, _lease_ms(lease), limit))
        self._meters.claimed.add(len(claimed))
        return claimed

    async def renew(self, owner: OwnerId, leases: Sequence[Lease], *, lease: timedelta) -> list[Lease]:
        """Extend leases and return those that still hold."""
        length = _lease_ms(lease)

        async def extend(tx: Transaction) -> list[Lease]:
            rows = await tx.many(
                "renew_leases", [(tx.lease_now, length, held.run_key, held.number, owner) for held in leases]
            )
            expiry = {(row["run_key"], row["lease_number"]): instant(row["lease_expires_at"]) for row in rows}
            held = [lease for lease in leases if (lease.run_key, lease.number) in expiry]
            return [structs.replace(lease, expires_at=expiry[lease.run_key, lease.number]) for lease in held]

        return await self._database.write(extend)

    async def release(self, lease: Lease, *, delay: timedelta = timedelta()) -> None:
        """Give a run back, or say that the worker of an ended one has let go."""

        async def give_back(tx: Transaction) -> None:
            await tx.lock(threads=[lease.thread_key], runs=[lease.run_key])
            wait = tx.now + delay // _MILLISECOND if delay else None
            row = await tx.one(
                "release_head", run_key=lease.run_key, lease_number=lease.number, now=tx.now, wait_until=wait
            )
            if row is not None:
                tx.wake(run=(lease.space_id, lease.run_id), queue=not delay, delayed=bool(delay))
            elif not await _release_ended_run(tx, lease.run_key, lease.number + 1):  # `end` raised it
                raise LeaseLost(f"lease {lease.number} of run `{lease.run_id}` is lost", run_id=lease.run_id)

        try:
            await self._database.write(give_back)
        except LeaseLost:
            self._meters.leases_lost.add()
            raise

    async def expire(self, *, cap: int = MAX_ATTEMPTS) -> list[RunId]:
        """Take back what dead workers held."""
        expired = await self._database.read(_expired_heads)
        taken = [RunId(row["id"]) for row in expired if await self._take_back(row, cap=cap)]
        self._meters.leases_expired.add(len(taken))
        return taken

    async def queue_state(self) -> QueueState:
        """Return whether a run may be claimed."""

        async def look(tx: Transaction) -> QueueState:
            row = await tx.one("queue_state", now=tx.lease_now)
            assert row is not None
            return QueueState(ready=bool(row["ready"]), next_at=maybe_instant(row["next_at"]))

        return await self._database.read(look)

    async def _take_back(self, expired: Row, *, cap: int) -> bool:
        return await self._database.write(lambda tx: requeue_expired_run(tx, expired, cap=cap))


async def requeue_expired_run(tx: Transaction, expired: Row, *, cap: int, without_delay: bool = False) -> bool:
    """Free a run whose worker is dead, if nothing happened to it since `expired` was read."""
    run_key = expired["run_key"]
    if RunStatus(expired["status"]).terminal:
        await tx.lock(threads=[expired["thread_key"]], runs=[run_key])
        return await _release_ended_run(tx, run_key, expired["lease_number"])
    if attempts_exhausted(expired["attempt"], cap):
        return await _fail_exhausted_run(tx, expired)
    delay = None if without_delay else tx.now + backoff_ms(expired["attempt"])
    row = await tx.one(
        "requeue_expired",
        run_key=run_key,
        lease_number=expired["lease_number"],
        seen_expiry=expired["lease_expires_at"],
        wait_until=delay,
        now=tx.now,
    )
    if row is None:  # it was renewed, or ended with its parent
        await tx.lock(threads=[expired["thread_key"]], runs=[run_key])
        return await _release_ended_run(tx, run_key, expired["lease_number"] + 1)
    tx.wake(queue=without_delay, delayed=not without_delay)
    return True


async def release_all_leases(tx: Transaction, *, cap: int) -> None:
    """Free every run and every timer at once: the process that held them is gone."""
    for head in await tx.all("expired_heads", now=2**62):
        await requeue_expired_run(tx, head, cap=cap, without_delay=True)
    await tx.run("free_timers")


async def _expired_heads(tx: Transaction) -> Sequence[Row]:
    return await tx.all("expired_heads", now=tx.lease_now)


async def _fail_exhausted_run(tx: Transaction, expired: Row) -> bool:
    tried = expired["attempt"]
    message = f"the run was started {tried} times and its worker died each time before a step settled"
    error = RunError(code="ATTEMPTS_EXHAUSTED", message=message)
    await tx.lock(threads=[expired["thread_key"]], runs=[expired["run_key"]])
    head = await tx.one("head", run_key=expired["run_key"])
    if head is None or head["lease_expires_at"] != expired["lease_expires_at"]:
        return False
    await end_run_trees(tx, [expired["run_key"]], RunEnd(to=RunStatus.FAILED, reason="attempts exhausted", error=error))
    return await _release_ended_run(tx, expired["run_key"], expired["lease_number"] + 1)


async def _release_ended_run(tx: Transaction, run_key: int, lease_number: int) -> bool:
    if await tx.one("let_go", run_key=run_key, lease_number=lease_number) is None:
        return False
    await queue_dependent_runs(tx, [run_key])
    return True


def _lease_ms(lease: timedelta) -> int:
    if lease < _MILLISECOND:
        raise Invalid("a lease must last at least a millisecond", field="lease")
    return lease // _MILLISECOND


_MAX_DEADLINE_SECONDS: Final = 1000 * 365 * 24 * 3600
"""Seconds: a moment that is much further off cannot be written down."""


class ClaimRequest(msgspec.Struct, frozen=True, eq=False):
    """A worker's wish for runs, under leases of so many milliseconds."""

    owner: OwnerId
    length: int
    limit: int


class _ClaimedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it was claimed, with its keys, and where it stands if that is known."""

    run: Run
    space_key: int
    thread_key: int
    parent_key: int | None
    opening: RunSnapshot | None = None


async def _claim_batch(tx: Transaction, claims: Sequence[ClaimRequest]) -> list[list[Lease] | HoldfastError]:
    """Give each claim what it may have, the most urgent runs to those who asked first."""
    await tx.run("wake_delayed", now=tx.lease_now)
    alike: dict[tuple[OwnerId, int], list[ClaimRequest]] = {}
    for claim in claims:
        alike.setdefault((claim.owner, claim.length), []).append(claim)
    given: dict[ClaimRequest, list[Lease]] = {}
    for (owner, length), asking in alike.items():
        leases = await _claim_runs(tx, owner, length, limit=sum(claim.limit for claim in asking))
        for claim in asking:
            given[claim], leases = leases[: claim.limit], leases[claim.limit :]
    return [given[claim] for claim in claims]


def _batch_key(claim: ClaimRequest) -> Hashable:
    return claim


CLAIM_BATCH: Final = Batch(name=_batch_key, apply=_claim_batch, durable=False)


async def _claim_runs(tx: Transaction, owner: OwnerId, length: int, *, limit: int) -> list[Lease]:
    rows = await tx.all("claim_heads", owner=owner, now=tx.lease_now, lease=length, limit=limit)
    tx.wake(emptied=len(rows) < limit)
    ordered = sorted(rows, key=lambda row: (row["queue_key"], row["run_key"]))
    runs = await _claimed_runs(tx, rows)
    leases = [await _to_lease(tx, owner, head, runs[head["run_key"]]) for head in ordered]
    deadlines = [_deadline_values(tx, lease) for lease in leases if _begins_with_deadline(lease)]
    await tx.many("add_timers", deadlines)
    tx.wake(timers=bool(deadlines))
    for lease in leases:
        tx.wake(grown=LogAppend(head=log_head(lease.run), at=tx.now))
    return leases


def _begins_with_deadline(lease: Lease) -> bool:
    return lease.number == 1 and lease.run.limits.max_duration_seconds is not None


def _deadline_values(tx: Transaction, lease: Lease) -> tuple[Any, ...]:
    """Return the timer that ends a run which works for longer than it may."""
    seconds = lease.run.limits.max_duration_seconds
    assert seconds is not None
    due_at = Millis(tx.now + min(seconds, _MAX_DEADLINE_SECONDS) * 1000)
    timer = NewTimer(kind="deadline", due_at=instant(due_at), data={"seconds": seconds})
    return timer_values(tx, timer, space=lease.space_key, run_key=lease.run_key)


async def _claimed_runs(tx: Transaction, heads: Sequence[Row]) -> dict[int, _ClaimedRun]:
    """Return claimed runs by their keys; those that this transaction has made need not be read."""
    made = {
        head["run_key"]: _claimed_new_run(tx.new_runs[head["run_key"]], head)
        for head in heads
        if head["run_key"] in tx.new_runs
    }
    stored = [(head["run_key"],) for head in heads if head["run_key"] not in made]
    return made | {row["run_key"]: _claimed_stored_run(row) for row in await tx.many("runs_by_key", stored)}


def _claimed_new_run(newborn: NewRunRow, head: Row) -> _ClaimedRun:
    run = replace(
        newborn.run,
        status=RunStatus.RUNNING,
        attempt=head["attempt"],
        started_at=instant(head["started_at"]),
        session_id=head["session_id"],
    )
    return _ClaimedRun(
        run=run,
        space_key=newborn.space_key,
        thread_key=newborn.thread_key,
        parent_key=newborn.parent_key,
        opening=None if head["unread"] else newborn.opening(),
    )


def _claimed_stored_run(row: Row) -> _ClaimedRun:
    return _ClaimedRun(
        run=to_run(row),
        space_key=row["space_key"],
        thread_key=row["thread_key"],
        parent_key=row["parent_key"],
    )


async def _to_lease(tx: Transaction, owner: OwnerId, head: Row, claimed: _ClaimedRun) -> Lease:
    run = claimed.run
    spends = claimed.parent_key is not None or has_budget(run.limits)
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
        budget_keys=await budget_keys_of_run(tx, head["run_key"]) if spends else (),
        run=run,
        snapshot=claimed.opening,
    )
