"""Timer effects: the effect of a timer and its settlement are one transaction (`fires=` of create, put and end)."""

import asyncio
from pathlib import Path

import pytest

from holdfast.domain.errors import Conflict, IdTaken, IllegalMove, LeaseLost, NotFound, ThreadClosed
from holdfast.domain.ids import RunId, ThreadId, TimerId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.new_run import CreatedRun, NewRun
from holdfast.domain.run import RunStatus
from holdfast.domain.thread import NewThread, ThreadPatch, ThreadStatus
from holdfast.domain.timer import NewTimer, TimerClaim, TimerState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, finish, new_thread, user
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import COMPLETED, WAITING, commit, queued, running, seconds_from_now, status
from tests.conformance.tables import rows_of

TIMER = TimerId("alarm")


async def claimed_timer(store: Store, clock: HeldClock, *, run: RunId | None = None) -> TimerClaim:
    """Set a due timer and claim it."""
    await store.timers.set(SPACE, NewTimer(kind="alarm", due_at=seconds_from_now(clock, 0), id=TIMER), run=run)
    (claim,) = await store.timers.claim_due(FIRST, lease=MINUTE)
    return claim


async def state(store: Store) -> TimerState:
    return (await store.timers.get(SPACE, TIMER)).state


async def assert_claimable(store: Store, clock: HeldClock) -> None:
    """Check that the timer is claimable again once the claim has expired."""
    assert await state(store) is TimerState.SCHEDULED
    clock.tick(MINUTE)
    (again,) = await store.timers.claim_due(SECOND, lease=MINUTE)
    await store.timers.settle(again)


async def test_a_run_that_a_timer_makes_settles_the_timer(store: Store, clock: HeldClock) -> None:
    claim = await claimed_timer(store, clock)
    made = await store.runs.create(SPACE, NewRun(thread=NewThread(), messages=[user("wake")]), fires=claim)
    assert made.run.status is RunStatus.QUEUED
    timer = await store.timers.get(SPACE, TIMER)
    assert (timer.state, timer.fired_at) == (TimerState.FIRED, seconds_from_now(clock, 0))


async def test_a_create_that_fails_leaves_the_timer_claimable(
    store: Store, clock: HeldClock, where: str | Path
) -> None:
    closed = await new_thread(store, SPACE)
    await store.threads.update(SPACE, closed, ThreadPatch(status=ThreadStatus.ARCHIVED))
    taken = await queued(store, "x", id=RunId("taken"))
    claim = await claimed_timer(store, clock)
    before = await rows_of(where)
    for new, error in [
        (NewRun(thread=closed), ThreadClosed),
        (NewRun(thread=ThreadId("thr_missing")), NotFound),
        (NewRun(thread=NewThread(), id=taken.id), IdTaken),
    ]:
        with pytest.raises(error):
            await store.runs.create(SPACE, new, fires=claim)
        assert await rows_of(where) == before
    await assert_claimable(store, clock)


async def test_a_stale_claim_creates_nothing(store: Store, clock: HeldClock, where: str | Path) -> None:
    stale = await claimed_timer(store, clock)
    clock.tick(MINUTE)
    (fresh,) = await store.timers.claim_due(SECOND, lease=MINUTE)
    before = await rows_of(where)
    with pytest.raises(LeaseLost):
        await store.runs.create(SPACE, NewRun(thread=NewThread()), fires=stale)
    assert await rows_of(where) == before
    await store.runs.create(SPACE, NewRun(thread=NewThread()), fires=fresh)


async def test_a_timer_creates_one_run_under_concurrent_claims(stores: list[Store], clock: HeldClock) -> None:
    claim = await claimed_timer(stores[0], clock)
    outcomes = await asyncio.gather(
        *(
            stores[number % len(stores)].runs.create(SPACE, NewRun(thread=NewThread()), fires=claim)
            for number in range(8)
        ),
        return_exceptions=True,
    )
    (made,) = [outcome for outcome in outcomes if isinstance(outcome, CreatedRun)]
    assert sum(isinstance(outcome, LeaseLost) for outcome in outcomes) == 7
    assert [run.id for run in (await stores[0].runs.page(SPACE)).items] == [made.run.id]


async def test_a_replayed_create_settles_its_timer_too(store: Store, clock: HeldClock) -> None:
    new = NewRun(thread=NewThread(), idempotency_key="daily")
    first = await store.runs.create(SPACE, new)
    again = await store.runs.create(SPACE, new, fires=await claimed_timer(store, clock))
    assert again.replayed and again.run.id == first.run.id
    assert await state(store) is TimerState.FIRED


async def test_an_item_that_a_timer_puts_settles_the_timer_and_wakes_the_run(store: Store, clock: HeldClock) -> None:
    lease = await running(store, "a")
    await commit(store, lease, move=WAITING)
    claim = await claimed_timer(store, clock, run=lease.run_id)
    number = await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.TIMER, data={"timer": TIMER}, fires=claim)
    assert number == 1
    assert await status(store, lease.run_id) is RunStatus.QUEUED
    assert await state(store) is TimerState.FIRED


async def test_a_put_that_fails_leaves_the_timer_claimable(store: Store, clock: HeldClock, where: str | Path) -> None:
    lease = await running(store, "a")
    await commit(store, lease, move=COMPLETED)
    claim = await claimed_timer(store, clock)
    before = await rows_of(where)
    with pytest.raises(Conflict, match="it reads no more input"):
        await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.TIMER, data=None, fires=claim)
    assert await rows_of(where) == before
    await assert_claimable(store, clock)


async def test_a_stale_claim_puts_nothing(store: Store, clock: HeldClock, where: str | Path) -> None:
    lease = await running(store, "a")
    await commit(store, lease, move=WAITING)
    stale = await claimed_timer(store, clock, run=lease.run_id)
    await store.timers.cancel(SPACE, TIMER)
    before = await rows_of(where)
    with pytest.raises(LeaseLost):
        await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.TIMER, data=None, fires=stale)
    assert await rows_of(where) == before
    assert await status(store, lease.run_id) is RunStatus.WAITING


async def test_an_end_that_a_timer_makes_settles_the_timer(store: Store, clock: HeldClock) -> None:
    lease = await running(store, "a")
    claim = await claimed_timer(store, clock, run=lease.run_id)
    (ended,) = await store.runs.end(SPACE, lease.run_id, to=RunStatus.FAILED, reason="too late", fires=claim)
    assert (ended.status, ended.status_reason) == (RunStatus.FAILED, "too late")
    assert await state(store) is TimerState.FIRED


async def test_an_end_that_fails_leaves_the_timer_claimable(store: Store, clock: HeldClock, where: str | Path) -> None:
    lease = await running(store, "a")
    await commit(store, lease, move=COMPLETED)
    claim = await claimed_timer(store, clock)
    before = await rows_of(where)
    for run, error in [(lease.run_id, IllegalMove), (RunId("run_missing"), NotFound)]:
        with pytest.raises(error):
            await store.runs.end(SPACE, run, fires=claim)
        assert await rows_of(where) == before
    await assert_claimable(store, clock)


async def test_a_stale_claim_ends_nothing(store: Store, clock: HeldClock, where: str | Path) -> None:
    lease = await running(store, "a")
    stale = await claimed_timer(store, clock, run=lease.run_id)
    await store.timers.settle(stale, next_due=seconds_from_now(clock, 60))
    before = await rows_of(where)
    with pytest.raises(LeaseLost):
        await store.runs.end(SPACE, lease.run_id, fires=stale)
    assert await rows_of(where) == before
    assert await status(store, lease.run_id) is RunStatus.RUNNING


async def test_a_run_that_finishes_while_its_deadline_fires_ends_once(stores: list[Store], clock: HeldClock) -> None:
    for number in range(10):
        lease = await running(stores[0], "a")
        timer = NewTimer(kind="deadline", due_at=seconds_from_now(clock, 0), id=TimerId(f"t-{number}"))
        await stores[0].timers.set(SPACE, timer, run=lease.run_id)
        (claim,) = await stores[-1].timers.claim_due(SECOND, lease=MINUTE)
        finished, ended = await asyncio.gather(
            finish(stores[0], lease), stores[-1].runs.end(SPACE, lease.run_id, fires=claim), return_exceptions=True
        )
        after = await status(stores[0], lease.run_id)
        fired = (await stores[0].timers.get(SPACE, claim.timer.id)).state
        if finished is None:
            assert (after, fired) == (RunStatus.COMPLETED, TimerState.CANCELLED)
            assert isinstance(ended, LeaseLost)
        else:
            assert (after, fired) == (RunStatus.CANCELLED, TimerState.FIRED)
            assert isinstance(finished, LeaseLost) and isinstance(ended, list)
