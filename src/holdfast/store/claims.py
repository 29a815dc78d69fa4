"""How runs are claimed, for all workers of a process that ask at once."""

from collections.abc import Hashable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.commit import Lease
from holdfast.domain.errors import HoldfastError
from holdfast.domain.ids import OwnerId
from holdfast.domain.instant import Millis, instant
from holdfast.domain.opening import Opening
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.timer import NewTimer
from holdfast.ports.event_log import Growth, head_of
from holdfast.store.budgets import budget_path, has_budget
from holdfast.store.run_rows import to_run
from holdfast.store.timers import timer_values
from holdfast.store.transaction import Batch, Newborn, Row, Transaction

_LONGEST: Final = 1000 * 365 * 24 * 3600
"""Seconds: a moment that is much further off cannot be written down."""


class Claim(msgspec.Struct, frozen=True, eq=False):
    """A worker's wish for runs, under leases of so many milliseconds."""

    owner: OwnerId
    length: int
    limit: int


class _Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it was claimed, with its keys, and where it stands if that is known."""

    run: Run
    space_key: int
    thread_key: int
    parent_key: int | None
    opening: Opening | None = None


async def _claim(tx: Transaction, claims: Sequence[Claim]) -> list[list[Lease] | HoldfastError]:
    """Give each claim what it may have, the most urgent runs to those who asked first."""
    await tx.run("wake_delayed", now=tx.lease_now)
    alike: dict[tuple[OwnerId, int], list[Claim]] = {}
    for claim in claims:
        alike.setdefault((claim.owner, claim.length), []).append(claim)
    given: dict[Claim, list[Lease]] = {}
    for (owner, length), asking in alike.items():
        leases = await _take(tx, owner, length, limit=sum(claim.limit for claim in asking))
        for claim in asking:
            given[claim], leases = leases[: claim.limit], leases[claim.limit :]
    return [given[claim] for claim in claims]


def _each(claim: Claim) -> Hashable:
    return claim


CLAIMS: Final = Batch(name=_each, apply=_claim, lasting=False)


async def _take(tx: Transaction, owner: OwnerId, length: int, *, limit: int) -> list[Lease]:
    rows = await tx.all("claim_heads", owner=owner, now=tx.lease_now, lease=length, limit=limit)
    tx.wake(emptied=len(rows) < limit)
    ordered = sorted(rows, key=lambda row: (row["queue_key"], row["run_key"]))
    runs = await _runs(tx, rows)
    leases = [await _lease(tx, owner, head, runs[head["run_key"]]) for head in ordered]
    deadlines = [_deadline(tx, lease) for lease in leases if _begins_with_deadline(lease)]
    await tx.many("add_timers", deadlines)
    tx.wake(timers=bool(deadlines))
    for lease in leases:
        tx.wake(grown=Growth(head=head_of(lease.run), at=tx.now))
    return leases


def _begins_with_deadline(lease: Lease) -> bool:
    return lease.number == 1 and lease.run.limits.max_duration_seconds is not None


def _deadline(tx: Transaction, lease: Lease) -> tuple[Any, ...]:
    """Return the timer that ends a run which works for longer than it may."""
    seconds = lease.run.limits.max_duration_seconds
    assert seconds is not None
    due_at = Millis(tx.now + min(seconds, _LONGEST) * 1000)
    timer = NewTimer(kind="deadline", due_at=instant(due_at), data={"seconds": seconds})
    return timer_values(tx, timer, space=lease.space_key, run_key=lease.run_key)


async def _runs(tx: Transaction, heads: Sequence[Row]) -> dict[int, _Claimed]:
    """Return claimed runs by their keys; those that this transaction has made need not be read."""
    made = {head["run_key"]: _made(tx.born[head["run_key"]], head) for head in heads if head["run_key"] in tx.born}
    stored = [(head["run_key"],) for head in heads if head["run_key"] not in made]
    return made | {row["run_key"]: _read(row) for row in await tx.many("runs_by_key", stored)}


def _made(newborn: Newborn, head: Row) -> _Claimed:
    run = replace(
        newborn.run,
        status=RunStatus.RUNNING,
        attempt=head["attempt"],
        started_at=instant(head["started_at"]),
        session_id=head["session_id"],
    )
    return _Claimed(
        run=run,
        space_key=newborn.space_key,
        thread_key=newborn.thread_key,
        parent_key=newborn.parent_key,
        opening=None if head["unread"] else newborn.opening(),
    )


def _read(row: Row) -> _Claimed:
    return _Claimed(
        run=to_run(row),
        space_key=row["space_key"],
        thread_key=row["thread_key"],
        parent_key=row["parent_key"],
    )


async def _lease(tx: Transaction, owner: OwnerId, head: Row, claimed: _Claimed) -> Lease:
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
        budget_keys=await budget_path(tx, head["run_key"]) if spends else (),
        run=run,
        opening=claimed.opening,
    )
