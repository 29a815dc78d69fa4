"""Timers: each due timer fires once across processes."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.commit import Commit
from holdfast.domain.errors import Conflict, IdTaken, Invalid, LeaseLost, NotFound, TooLarge
from holdfast.domain.ids import OwnerId, RunId, SpaceId, TimerId
from holdfast.domain.instant import Instant
from holdfast.domain.timer import NewTimer, Timer, TimerClaim, TimerState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, finish
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import COMPLETED, commit, queued, running, seconds_from_now
from tests.conformance.tables import rows_of

SECONDS = timedelta(seconds=1)
MISSING = TimerId("tmr_missing")

Setter = Callable[..., Awaitable[Timer]]


@pytest.fixture
def set_timer(store: Store, clock: HeldClock) -> Setter:
    """Return a function that sets a timer due in that many seconds."""

    async def set_timer(seconds: float = 0, *, run: RunId | None = None, **fields: Any) -> Timer:
        new = NewTimer(**{"kind": "reminder", "due_at": seconds_from_now(clock, seconds), **fields})
        return await store.timers.set(SPACE, new, run=run)

    return set_timer


async def due(store: Store, owner: OwnerId = FIRST, *, lease: timedelta = MINUTE, limit: int = 100) -> list[TimerClaim]:
    return await store.timers.claim_due(owner, lease=lease, limit=limit)


def ids(claims: list[TimerClaim]) -> list[str]:
    return [claim.timer.id for claim in claims]


async def state(store: Store, timer: Timer) -> TimerState:
    return (await store.timers.get(SPACE, timer.id)).state


async def test_a_timer_is_read_back_unchanged(store: Store, clock: HeldClock) -> None:
    run = await queued(store, "hi")
    new = NewTimer(kind="deadline", due_at=seconds_from_now(clock, 1.234), data={"why": ["x", None]}, id=TimerId("t-1"))
    made = await store.timers.set(SPACE, new, run=run.id)
    assert made == Timer(
        id=TimerId("t-1"),
        space_id=SPACE,
        run_id=run.id,
        kind="deadline",
        due_at=new.due_at,
        data={"why": ["x", None]},
        state=TimerState.SCHEDULED,
        fired_at=None,
        created_at=seconds_from_now(clock, 0),
    )
    assert await store.timers.get(SPACE, made.id) == made


async def test_a_timer_is_given_an_id_unless_one_is_chosen(set_timer: Setter) -> None:
    made = [await set_timer() for _ in range(2)]
    assert made[0].id != made[1].id
    assert all(timer.id.startswith("tmr_") and timer.run_id is None for timer in made)


async def test_a_due_time_in_another_time_zone_is_normalised(set_timer: Setter) -> None:
    made = await set_timer(due_at=Instant("2030-01-01T09:00:00+09:00"))
    assert made.due_at == "2030-01-01T00:00:00.000Z"


async def test_a_timer_id_already_used_is_refused(store: Store, set_timer: Setter, where: str | Path) -> None:
    await set_timer(id=TimerId("t-1"))
    before = await rows_of(where)
    with pytest.raises(IdTaken, match="there is a timer `t-1` already"):
        await set_timer(5, id=TimerId("t-1"), kind="other")
    assert await rows_of(where) == before


async def test_an_invalid_timer_is_refused(store: Store, set_timer: Setter, where: str | Path) -> None:
    before = await rows_of(where)
    wrong: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"kind": "x" * 65}, TooLarge),
        ({"kind": "a\x00b"}, Invalid),
        ({"id": TimerId("no spaces")}, Invalid),
        ({"due_at": Instant("soon")}, Invalid),
        ({"due_at": Instant("2026-01-01T00:00:00")}, Invalid),
        ({"data": "\ud800"}, Invalid),
        ({"run": RunId("run_missing")}, NotFound),
    ]
    for fields, error in wrong:
        with pytest.raises(error):
            await set_timer(**fields)
    with pytest.raises(NotFound, match="there is no space"):
        await store.timers.set(SpaceId("missing"), NewTimer(kind="reminder", due_at=Instant("2030-01-01T00:00:00Z")))
    assert await rows_of(where) == before


async def test_a_missing_timer_is_not_found(store: Store) -> None:
    for call in (store.timers.get, store.timers.cancel):
        with pytest.raises(NotFound, match="there is no timer `tmr_missing`"):
            await call(SPACE, MISSING)


async def test_a_timer_is_due_from_its_time_on_and_not_before(
    store: Store, set_timer: Setter, clock: HeldClock
) -> None:
    timer = await set_timer(10)
    clock.tick(timedelta(seconds=9, milliseconds=999))
    assert await due(store) == []
    clock.tick(timedelta(milliseconds=1))
    (claim,) = await due(store)
    assert claim.timer == timer


async def test_due_timers_come_earliest_first(store: Store, set_timer: Setter, clock: HeldClock) -> None:
    made = [(await set_timer(seconds)).id for seconds in (5, 1, 3, 1)]
    clock.tick(10 * SECONDS)
    assert ids(await due(store)) == [made[1], made[3], made[2], made[0]]


async def test_at_most_the_limit_is_claimed_and_the_rest_stay_claimable(
    store: Store, set_timer: Setter, clock: HeldClock
) -> None:
    made = [(await set_timer(number)).id for number in range(5)]
    clock.tick(10 * SECONDS)
    assert ids(await due(store, limit=2)) == made[:2]
    assert ids(await due(store, SECOND, limit=2)) == made[2:4]
    assert ids(await due(store, limit=2)) == made[4:]
    for limit in (0, -1, 1001):
        with pytest.raises(Invalid):
            await due(store, limit=limit)


async def test_a_claimed_timer_is_received_by_nobody_else(store: Store, set_timer: Setter) -> None:
    timer = await set_timer()
    assert ids(await due(store)) == [timer.id]
    assert await due(store, SECOND) == []
    assert await due(store) == []


async def test_two_concurrent_claims_never_receive_the_same_timer(
    stores: list[Store], set_timer: Setter, where: str | Path
) -> None:
    made = [(await set_timer()).id for _ in range(60)]

    async def take(number: int) -> list[TimerClaim]:
        taken: list[TimerClaim] = []
        while claims := await due(stores[number % len(stores)], OwnerId(f"owner-{number}"), limit=3):
            assert len(claims) <= 3
            taken += claims
        return taken

    taken = [claim for claims in await asyncio.gather(*map(take, range(8))) for claim in claims]
    assert sorted(ids(taken)) == sorted(made)
    await asyncio.gather(*(stores[n % len(stores)].timers.settle(claim) for n, claim in enumerate(taken)))
    assert {row["state"] for row in (await rows_of(where))["timers"]} == {TimerState.FIRED}


async def test_an_expired_claim_is_taken_over_and_the_stale_one_settles_nothing(
    stores: list[Store], set_timer: Setter, clock: HeldClock, where: str | Path
) -> None:
    timer = await set_timer()
    (stale,) = await due(stores[0], lease=MINUTE)
    clock.tick(MINUTE - timedelta(milliseconds=1))
    assert await due(stores[-1], SECOND) == []
    clock.tick(timedelta(milliseconds=1))
    (fresh,) = await due(stores[-1], SECOND)
    assert fresh.timer == stale.timer == timer
    before = await rows_of(where)
    for next_due in (None, seconds_from_now(clock, 60)):
        with pytest.raises(LeaseLost, match=f"timer `{timer.id}`"):
            await stores[0].timers.settle(stale, next_due=next_due)
    assert await rows_of(where) == before
    await stores[-1].timers.settle(fresh)
    assert await state(stores[0], timer) is TimerState.FIRED


async def test_an_expired_claim_still_settles_until_it_is_taken_over(
    store: Store, set_timer: Setter, clock: HeldClock
) -> None:
    timer = await set_timer()
    (claim,) = await due(store)
    clock.tick(2 * MINUTE)
    await store.timers.settle(claim)
    assert await state(store, timer) is TimerState.FIRED


async def test_a_settled_timer_has_fired_and_is_never_due_again(
    store: Store, set_timer: Setter, clock: HeldClock
) -> None:
    timer = await set_timer()
    (claim,) = await due(store)
    clock.tick(SECONDS)
    await store.timers.settle(claim)
    fired = await store.timers.get(SPACE, timer.id)
    assert (fired.state, fired.fired_at, fired.due_at) == (TimerState.FIRED, seconds_from_now(clock, 0), timer.due_at)
    clock.tick(10 * MINUTE)
    assert await due(store) == []
    with pytest.raises(LeaseLost):
        await store.timers.settle(claim)


async def test_a_repeating_timer_is_due_again_at_its_next_due_time(
    store: Store, set_timer: Setter, clock: HeldClock
) -> None:
    timer = await set_timer()
    for turn in range(3):
        (claim,) = await due(store, FIRST if turn % 2 else SECOND)
        fired_at = seconds_from_now(clock, 0)
        await store.timers.settle(claim, next_due=seconds_from_now(clock, 60))
        again = await store.timers.get(SPACE, timer.id)
        assert (again.state, again.due_at, again.fired_at) == (
            TimerState.SCHEDULED,
            seconds_from_now(clock, 60),
            fired_at,
        )
        assert await due(store) == []
        clock.tick(MINUTE)
    (last,) = await due(store)
    await store.timers.settle(last)
    assert await state(store, timer) is TimerState.FIRED


async def test_a_claim_settles_once_even_if_the_timer_repeats(
    store: Store, set_timer: Setter, clock: HeldClock, where: str | Path
) -> None:
    await set_timer()
    (claim,) = await due(store)
    await store.timers.settle(claim, next_due=seconds_from_now(clock, 60))
    before = await rows_of(where)
    for next_due in (None, seconds_from_now(clock, 90)):
        with pytest.raises(LeaseLost):
            await store.timers.settle(claim, next_due=next_due)
    with pytest.raises(Invalid):
        await store.timers.settle(claim, next_due=Instant("soon"))
    assert await rows_of(where) == before


async def test_a_cancelled_timer_never_fires(store: Store, set_timer: Setter, clock: HeldClock) -> None:
    waiting, claimed = await set_timer(10), await set_timer()
    (claim,) = await due(store)
    for timer in (waiting, claimed, waiting):
        await store.timers.cancel(SPACE, timer.id)
    clock.tick(10 * MINUTE)
    assert await due(store) == []
    with pytest.raises(LeaseLost):
        await store.timers.settle(claim)
    assert [await state(store, timer) for timer in (waiting, claimed)] == [TimerState.CANCELLED] * 2


async def test_a_timer_that_has_fired_cannot_be_cancelled(store: Store, set_timer: Setter) -> None:
    timer = await set_timer()
    (claim,) = await due(store)
    await store.timers.settle(claim)
    with pytest.raises(Conflict, match=f"timer `{timer.id}` has fired"):
        await store.timers.cancel(SPACE, timer.id)
    assert await state(store, timer) is TimerState.FIRED


async def test_cancelling_a_timer_during_its_settlement_reports_that_it_fired(
    stores: list[Store], set_timer: Setter
) -> None:
    for _ in range(15):
        timer = await set_timer()
        (claim,) = await due(stores[0])
        settled, cancelled = await asyncio.gather(
            stores[0].timers.settle(claim), stores[-1].timers.cancel(SPACE, timer.id), return_exceptions=True
        )
        fired = await state(stores[0], timer) is TimerState.FIRED
        assert settled is None if fired else isinstance(settled, LeaseLost)
        assert isinstance(cancelled, Conflict) if fired else cancelled is None


async def test_a_timer_of_a_run_is_cancelled_when_that_run_ends(store: Store, set_timer: Setter) -> None:
    finishing, ending = await running(store, "a"), await queued(store, "b")
    timers = [await set_timer(10, run=run) for run in (finishing.run_id, ending.id, None)]
    await finish(store, finishing)
    await store.runs.end(SPACE, ending.id)
    states = [await state(store, timer) for timer in timers]
    assert states == [TimerState.CANCELLED, TimerState.CANCELLED, TimerState.SCHEDULED]


async def test_an_ended_run_accepts_no_timer(store: Store, set_timer: Setter) -> None:
    lease = await running(store, "a")
    await commit(store, lease, move=COMPLETED)
    with pytest.raises(Conflict, match="a timer cannot be set for it"):
        await set_timer(10, run=lease.run_id)
    assert await store.timers.next_due() is None


async def test_a_commit_sets_and_cancels_timers_of_its_run(store: Store, set_timer: Setter, clock: HeldClock) -> None:
    lease, other = await running(store, "a"), await queued(store, "b")
    new = [NewTimer(kind="retry", due_at=seconds_from_now(clock, 5), id=TimerId(name)) for name in ("one", "two")]
    foreign = await set_timer(5, run=other.id, id=TimerId("three"))
    await store.journal.commit(Commit(lease=lease, timers=new))
    assert (await store.timers.get(SPACE, TimerId("one"))).run_id == lease.run_id
    await store.journal.commit(Commit(lease=lease, cancelled_timers=[TimerId("one"), foreign.id]))
    clock.tick(10 * SECONDS)
    assert sorted(ids(await due(store))) == ["three", "two"]


async def test_the_next_due_time_leaves_out_claimed_timers(store: Store, set_timer: Setter, clock: HeldClock) -> None:
    assert await store.timers.next_due() is None
    first, second = await set_timer(10), await set_timer(20)
    assert await store.timers.next_due() == first.due_at
    clock.tick(10 * SECONDS)
    (claim,) = await due(store)
    assert await store.timers.next_due() == second.due_at
    clock.tick(MINUTE)
    assert await store.timers.next_due() == first.due_at
    await store.timers.settle(claim)
    await store.timers.cancel(SPACE, second.id)
    assert await store.timers.next_due() is None
