"""Deadlines: the maximum duration of a run. Time spent waiting for a person does not count."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.commit import Lease
from holdfast.domain.errors import LeaseLost
from holdfast.domain.ids import InterruptId, RunId, TimerId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import InterruptResponse
from holdfast.domain.limits import MAX_SAFE_INTEGER, Limits
from holdfast.domain.run import Move, RunStatus, WaitsFor
from holdfast.domain.timer import NewTimer, Timer, TimerClaim, TimerState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, claim
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import (
    COMPLETED,
    FAILED,
    QUEUED,
    WAITING,
    WAITING_FOR_PERSON,
    child_of,
    commit,
    get,
    new_interrupt,
    queued,
    running,
    seconds_from_now,
    status,
)
from tests.conformance.tables import rows_of

SECONDS = timedelta(seconds=1)
HOUR = Limits(max_duration_seconds=3600)
FOR_A_CHILD = Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD)


async def deadlines(store: Store, where: str | Path) -> list[Timer]:
    """Return all deadlines, oldest first."""
    rows = sorted((await rows_of(where))["timers"], key=lambda row: row["timer_key"])
    return [await store.timers.get(SPACE, TimerId(row["id"])) for row in rows if row["kind"] == "deadline"]


async def deadline(store: Store, where: str | Path) -> Timer:
    """Return the only deadline."""
    (timer,) = await deadlines(store, where)
    return timer


async def due(store: Store) -> list[TimerClaim]:
    return await store.timers.claim_due(FIRST, lease=MINUTE)


async def put(store: Store, run: RunId) -> None:
    await store.inbox.put(SPACE, run, kind=InboxKind.MESSAGE, data="hi")


async def asks(store: Store, lease: Lease, name: str = "question", **parts: Any) -> None:
    """Start to wait for a person."""
    await commit(store, lease, interrupts=[new_interrupt(name)], move=WAITING_FOR_PERSON, **parts)


async def test_a_deadline_is_set_when_a_run_is_claimed_for_the_first_time(
    store: Store, clock: HeldClock, where: str | Path
) -> None:
    run = await queued(store, "hi", limits=Limits(max_duration_seconds=90))
    clock.tick(10 * MINUTE)
    assert await deadlines(store, where) == []
    await claim(store)
    timer = await deadline(store, where)
    assert (timer.kind, timer.run_id, timer.space_id) == ("deadline", run.id, SPACE)
    assert (timer.state, timer.due_at, timer.data) == (
        TimerState.SCHEDULED,
        seconds_from_now(clock, 90),
        {"seconds": 90},
    )


async def test_runs_that_are_claimed_together_have_a_deadline_each(
    store: Store, clock: HeldClock, where: str | Path
) -> None:
    for seconds in (None, 10, 20, None, 30):
        await queued(store, limits=Limits(max_duration_seconds=seconds))
    assert len(await store.leases.claim(FIRST, lease=MINUTE, limit=10)) == 5
    assert [timer.due_at for timer in await deadlines(store, where)] == [
        seconds_from_now(clock, 10),
        seconds_from_now(clock, 20),
        seconds_from_now(clock, 30),
    ]


async def test_a_later_claim_leaves_the_deadline_as_it_is(store: Store, clock: HeldClock, where: str | Path) -> None:
    await queued(store, limits=HOUR)
    first = await claim(store)
    timer = await deadline(store, where)
    clock.tick(SECONDS)
    await store.leases.release(first)
    second = await claim(store, SECOND)
    clock.tick(SECONDS)
    await commit(store, second, move=QUEUED)
    await claim(store)
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    clock.tick(MINUTE)
    await claim(store)
    assert await deadline(store, where) == timer


async def test_each_run_of_a_tree_has_a_deadline_of_its_own(store: Store, clock: HeldClock, where: str | Path) -> None:
    parent = await running(store, limits=HOUR)
    child = await child_of(store, parent.run_id, limits=Limits(max_duration_seconds=60))
    clock.tick(MINUTE)
    await claim(store, SECOND)
    found = {timer.run_id: timer.due_at for timer in await deadlines(store, where)}
    assert found == {parent.run_id: seconds_from_now(clock, 3540), child.id: seconds_from_now(clock, 60)}


async def test_a_very_long_duration_limit_still_sets_a_deadline(
    store: Store, clock: HeldClock, where: str | Path
) -> None:
    lease = await running(store, limits=Limits(max_duration_seconds=MAX_SAFE_INTEGER))
    timer = await deadline(store, where)
    assert (timer.data, timer.due_at > seconds_from_now(clock, 999 * 365 * 24 * 3600)) == (
        {"seconds": MAX_SAFE_INTEGER},
        True,
    )
    await asks(store, lease)
    clock.tick(timedelta(days=1000 * 365))
    await put(store, lease.run_id)
    assert await store.timers.next_due() == (await deadline(store, where)).due_at


async def test_a_run_without_a_limit_has_no_deadline(store: Store, where: str | Path) -> None:
    await running(store, limits=Limits(max_iterations=1, token_budget=1))
    assert await deadlines(store, where) == []


async def test_a_deadline_is_due_after_the_maximum_duration(store: Store, clock: HeldClock) -> None:
    lease = await running(store, limits=HOUR)
    clock.tick(3600 * SECONDS - timedelta(milliseconds=1))
    assert await due(store) == []
    clock.tick(timedelta(milliseconds=1))
    (fires,) = await due(store)
    (ended,) = await store.runs.end(SPACE, lease.run_id, to=RunStatus.FAILED, reason="deadline", fires=fires)
    assert (ended.id, ended.status) == (lease.run_id, RunStatus.FAILED)
    assert (await store.timers.get(SPACE, fires.timer.id)).state is TimerState.FIRED


async def test_a_deadline_is_paused_while_its_run_waits_for_a_person(
    store: Store, clock: HeldClock, where: str | Path
) -> None:
    lease = await running(store, limits=HOUR)
    clock.tick(600 * SECONDS)
    await asks(store, lease)
    for _ in range(3):
        timer = await deadline(store, where)
        assert (timer.state, timer.due_at) == (TimerState.PAUSED, seconds_from_now(clock, 3000))
        assert await due(store) == []
        assert await store.timers.next_due() is None
        clock.tick(timedelta(days=2))


@pytest.mark.parametrize("wait", [WAITING, FOR_A_CHILD], ids=["a timer", "a child"])
async def test_a_deadline_keeps_running_while_its_run_waits_for_something_else(
    store: Store, clock: HeldClock, where: str | Path, wait: Move
) -> None:
    lease = await running(store, limits=HOUR)
    before = await deadline(store, where)
    await commit(store, lease, move=wait)
    assert await deadline(store, where) == before
    clock.tick(3600 * SECONDS)
    assert [fires.timer.id for fires in await due(store)] == [before.id]


async def test_a_deadline_keeps_running_while_its_run_is_queued(store: Store, where: str | Path) -> None:
    lease = await running(store, limits=HOUR)
    before = await deadline(store, where)
    await commit(store, lease, move=Move(to=RunStatus.QUEUED, reason=WaitsFor.PERSON))
    assert await deadline(store, where) == before


async def test_a_resumed_deadline_has_exactly_the_remaining_time(
    store: Store, clock: HeldClock, where: str | Path
) -> None:
    lease = await running(store, limits=HOUR)
    left = 3600.0
    for worked in (0.001, 1234.567, 0, 999.999):
        clock.tick(worked * SECONDS)
        left -= worked
        await asks(store, lease, f"q-{worked}", consumed=[item.number for item in await store.journal.inbox(lease)])
        clock.tick(timedelta(days=3, milliseconds=7))
        await put(store, lease.run_id)
        timer = await deadline(store, where)
        assert (timer.state, timer.due_at) == (TimerState.SCHEDULED, seconds_from_now(clock, left))
        lease = await claim(store)
    clock.tick(timedelta(milliseconds=round(left * 1000) - 1))
    assert await due(store) == []
    clock.tick(timedelta(milliseconds=1))
    assert len(await due(store)) == 1


async def test_every_wake_up_of_a_run_resumes_its_deadline(store: Store, clock: HeldClock, where: str | Path) -> None:
    parent = await running(store, limits=HOUR)
    await asks(store, parent)
    await store.interrupts.respond(SPACE, InterruptId("question"), InterruptResponse(response=True))
    assert (await deadline(store, where)).state is TimerState.SCHEDULED
    parent = await claim(store)
    child = await child_of(store, parent.run_id)
    await asks(store, parent, "second", consumed=[1])
    assert (await deadline(store, where)).state is TimerState.PAUSED
    await store.runs.end(SPACE, child.id)
    assert (await deadline(store, where)).state is TimerState.SCHEDULED
    parent = await claim(store)
    await commit(
        store,
        parent,
        consumed=[2],
        interrupts=[new_interrupt("third", expires_at=seconds_from_now(clock, 1))],
        move=WAITING_FOR_PERSON,
    )
    clock.tick(MINUTE)
    await store.interrupts.expire()
    timer = await deadline(store, where)
    assert (timer.state, timer.due_at) == (TimerState.SCHEDULED, seconds_from_now(clock, 3600))


async def test_an_inbox_item_for_a_running_run_leaves_its_deadline(store: Store, where: str | Path) -> None:
    lease = await running(store, limits=HOUR)
    before = await deadline(store, where)
    await put(store, lease.run_id)
    await store.leases.release(lease)
    await put(store, lease.run_id)
    assert await deadline(store, where) == before


async def test_a_deadline_that_passed_just_before_a_wait_fires_when_the_run_resumes(
    store: Store, clock: HeldClock, where: str | Path
) -> None:
    lease = await running(store, limits=Limits(max_duration_seconds=60))
    clock.tick(61 * SECONDS)
    (stale,) = await due(store)
    await asks(store, lease)
    with pytest.raises(LeaseLost):
        await store.runs.end(SPACE, lease.run_id, fires=stale)
    assert await status(store, lease.run_id) is RunStatus.WAITING
    clock.tick(timedelta(days=1))
    await put(store, lease.run_id)
    timer = await deadline(store, where)
    assert (timer.state, timer.due_at) == (TimerState.SCHEDULED, seconds_from_now(clock, -1))
    assert [fires.timer.id for fires in await due(store)] == [timer.id]


@pytest.mark.parametrize("move", [COMPLETED, FAILED], ids=["completed", "failed"])
async def test_a_deadline_is_cancelled_when_its_run_ends(store: Store, where: str | Path, move: Move) -> None:
    lease = await running(store, limits=HOUR)
    await commit(store, lease, move=move)
    assert (await deadline(store, where)).state is TimerState.CANCELLED


async def test_a_paused_deadline_is_cancelled_when_its_run_is_ended(
    store: Store, clock: HeldClock, where: str | Path
) -> None:
    working, waiting = await running(store, limits=HOUR), await running(store, limits=HOUR)
    await asks(store, waiting)
    for lease in (working, waiting):
        await store.runs.end(SPACE, lease.run_id)
    assert {timer.state for timer in await deadlines(store, where)} == {TimerState.CANCELLED}
    clock.tick(timedelta(days=30))
    assert await due(store) == []


async def test_a_paused_deadline_may_be_cancelled_and_does_not_come_back(store: Store, where: str | Path) -> None:
    lease = await running(store, limits=HOUR)
    await asks(store, lease)
    await store.timers.cancel(SPACE, (await deadline(store, where)).id)
    await put(store, lease.run_id)
    assert (await deadline(store, where)).state is TimerState.CANCELLED


async def test_other_timers_of_a_run_that_waits_for_a_person_go_on(store: Store, clock: HeldClock) -> None:
    lease = await running(store, limits=HOUR)
    await asks(store, lease, timers=[NewTimer(kind="reminder", due_at=seconds_from_now(clock, 60), id=TimerId("nag"))])
    clock.tick(MINUTE)
    assert [fires.timer.id for fires in await due(store)] == ["nag"]


async def test_a_deadline_fires_or_its_run_waits_but_never_both(stores: list[Store], clock: HeldClock) -> None:
    """The run starts to wait for a person at the moment its deadline passes."""
    for number in range(20):
        lease = await running(stores[0], limits=Limits(max_duration_seconds=1))
        clock.tick(SECONDS)
        (fires,) = await due(stores[0])
        question = new_interrupt(f"q-{number}")
        ended, _ = await asyncio.gather(
            stores[-1].runs.end(SPACE, lease.run_id, to=RunStatus.FAILED, fires=fires),
            commit(stores[0], lease, interrupts=[question], move=WAITING_FOR_PERSON),
            return_exceptions=True,
        )
        run = await get(stores[0], lease.run_id)
        timer = await stores[0].timers.get(SPACE, fires.timer.id)
        outcome = run.status, timer.state, type(ended)
        assert outcome in {
            (RunStatus.FAILED, TimerState.FIRED, list),
            (RunStatus.WAITING, TimerState.PAUSED, LeaseLost),
        }
        if run.status is RunStatus.WAITING:
            await stores[0].runs.end(SPACE, run.id)
