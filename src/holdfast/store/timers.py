"""Timers in SQL."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from holdfast.domain.errors import Conflict, HoldfastError, IdTaken, LeaseLost
from holdfast.domain.ids import OwnerId, RunId, SpaceId, TimerId
from holdfast.domain.instant import Instant, Millis, instant, maybe_instant, millis
from holdfast.domain.page import check_page_size
from holdfast.domain.run import RunStatus
from holdfast.domain.timer import NewTimer, Timer, TimerClaim, TimerState, check_new_timer
from holdfast.store.encoding import dump_optional_json, load_optional_json
from holdfast.store.run_rows import run_key_of
from holdfast.store.spaces import lock_space_shared
from holdfast.store.transaction import Batch, Row, SqlPort, Transaction, find_row, reads, writes

CLOCK_NOTE_INTERVAL_MS: Final = 2_000
"""Milliseconds between two notes of the clock while something waits; a wait is late by at most this after a step."""
CLOCK_STEP_TOLERANCE_MS: Final = 1_000
"""Steps back that are shorter are ignored."""


class SqlTimers(SqlPort):
    """Implements `Timers`."""

    @writes
    async def set(self, tx: Transaction, space: SpaceId, new: NewTimer, *, run: RunId | None = None) -> Timer:
        """Set a timer."""
        check_new_timer(new)
        key = await lock_space_shared(tx, space)
        run_key = None if run is None else await _lock_active_run(tx, space, run)
        timer_id = new.id or TimerId(tx.new_id("tmr"))
        if await tx.one("timer", space=space, id=timer_id) is not None:
            raise IdTaken(f"there is a timer `{timer_id}` already", id=timer_id)
        await tx.many("add_timers", [timer_values(tx, new, timer_id, space=key, run_key=run_key)])
        tx.hints.add(timers=True)
        return _to_timer(tx, await find_row(tx, "timer", "timer", space=space, id=timer_id))

    @reads
    async def get(self, tx: Transaction, space: SpaceId, timer: TimerId) -> Timer:
        """Return the timer."""
        return _to_timer(tx, await find_row(tx, "timer", "timer", space=space, id=timer))

    @writes
    async def claim_due(
        self, tx: Transaction, owner: OwnerId, *, lease: timedelta, limit: int = 100
    ) -> list[TimerClaim]:
        """Claim due timers, earliest first."""
        check_page_size(limit, maximum=1000)
        lease_ms = lease // timedelta(milliseconds=1)
        claims = []
        for claimed in await tx.all("claim_timers", owner=owner, now=tx.lease_now, lease=lease_ms, limit=limit):
            row = await tx.one("timer_by_key", timer_key=claimed["timer_key"])
            assert row is not None
            claims.append(TimerClaim(timer=_to_timer(tx, row), key=row["timer_key"], number=claimed["claim_number"]))
        return sorted(claims, key=lambda claim: (claim.timer.due_at, claim.key))

    async def settle(self, claim: TimerClaim, *, next_due: Instant | None = None) -> None:
        """Mark a claimed timer as fired, or make it due again."""
        due = None if next_due is None else millis(next_due)
        await self._database.write(lambda tx: settle_timer(tx, claim, next_due=due))

    @writes
    async def cancel(self, tx: Transaction, space: SpaceId, timer: TimerId) -> None:
        """Cancel a timer."""
        key = (await find_row(tx, "timer", "timer", space=space, id=timer))["timer_key"]
        if await tx.one("cancel_timer", timer_key=key) is not None:
            return
        if (await find_row(tx, "timer", "timer", space=space, id=timer))["state"] == TimerState.FIRED:
            raise Conflict(f"timer `{timer}` has fired")

    async def follow_clock(self) -> timedelta:
        """Shift what waits for the end of a duration if the clock went back."""
        row = await self._database.read(lambda tx: tx.one("clock_state", now=tx.lease_now))
        assert row is not None
        seen_at = 0 if row["seen_at"] is None else row["seen_at"]
        if row["now"] >= seen_at and not (row["waits"] and row["now"] >= seen_at + CLOCK_NOTE_INTERVAL_MS):
            return timedelta()
        return await self._database.submit_to_batch(_CLOCK_BATCH, None)

    @reads
    async def next_due(self, tx: Transaction) -> Instant | None:
        """Return when the next timer is due."""
        row = await tx.one("next_due", now=tx.lease_now)
        return None if row is None else maybe_instant(row["due_at"])


async def _follow_clock(tx: Transaction, callers: Sequence[None]) -> list[timedelta | HoldfastError]:
    row = await tx.one("note_clock", now=tx.lease_now)
    assert row is not None
    by = row["went_back"]
    if by < CLOCK_STEP_TOLERANCE_MS:
        return [timedelta() for _ in callers]
    for statement in ("shift_timers", "shift_heads", "shift_interrupts", "shift_tickets", "shift_deliveries"):
        await tx.run(statement, by=by)
    tx.hints.add(timers=True, queue=True, delayed=True, deliveries=True)
    return [timedelta(milliseconds=by) for _ in callers]


# Not durable: a note that a power failure loses is made again.
_CLOCK_BATCH: Final = Batch(key=lambda caller: caller, apply=_follow_clock, durable=False)


async def settle_timer(tx: Transaction, claim: TimerClaim, *, next_due: Millis | None = None) -> None:
    """Settle a claimed timer in the transaction that applies its effect."""
    row = await tx.one("settle_timer", timer_key=claim.key, number=claim.number, next_due=next_due, now=tx.now)
    if row is None:
        raise LeaseLost(f"timer `{claim.timer.id}` was settled, taken over or cancelled", timer_id=claim.timer.id)
    tx.hints.add(timers=next_due is not None)


def timer_values(
    tx: Transaction,
    new: NewTimer,
    timer_id: TimerId | None = None,
    *,
    space: int,
    run_key: int | None,
    clock_offset: int = 0,
) -> tuple[Any, ...]:
    """Return the values of the statement `add_timers` for a timer; `clock_offset` is added to its due time."""
    timer_id = timer_id or new.id or TimerId(tx.new_id("tmr"))
    due_at = millis(new.due_at) + clock_offset
    return space, run_key, timer_id, new.kind, due_at, dump_optional_json(new.data), tx.now


async def _lock_active_run(tx: Transaction, space: SpaceId, run: RunId) -> int:
    key: int = await run_key_of(tx, space, run)
    await tx.lock(runs=[key])
    head = await tx.one("head", run_key=key)
    if head is None or RunStatus(head["status"]).terminal:
        raise Conflict(f"run `{run}` has ended: a timer cannot be set for it", run_id=run)
    return key


def _to_timer(tx: Transaction, row: Row) -> Timer:
    state = TimerState(row["state"])
    # The row of a paused timer holds the remaining time, counted from now.
    due_at = row["due_at"] + tx.now if state is TimerState.PAUSED else row["due_at"]
    return Timer(
        id=row["id"],
        space_id=row["space_id"],
        run_id=row["run_id"],
        kind=row["kind"],
        due_at=instant(due_at),
        data=load_optional_json(row["data"]),
        state=state,
        fired_at=maybe_instant(row["fired_at"]),
        created_at=instant(row["created_at"]),
    )
