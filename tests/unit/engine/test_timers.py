"""Due timers fire once, and timers that cannot fire are settled."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from holdfast.bootstrap import SystemClock, open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import TimerId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.instant import Millis, instant, millis
from holdfast.domain.interrupt import InterruptStatus
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.timer import NewTimer, Timer, TimerClaim, TimerState
from holdfast.ports.bus import WakeHint
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE, claim
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import WAITING, commit, get, queued, running, seconds_from_now, status, waiting_run
from tests.unit.engine.workers import LossyBus, background, running_timers, wait_for_status


async def timer(store: Store, clock: HeldClock, kind: str, *, run: Run | None = None, data: Any = None) -> Timer:
    """Set a timer that is due in a second."""
    new = NewTimer(kind=kind, due_at=seconds_from_now(clock, 1), data=data)
    return await store.timers.set(SPACE, new, run=None if run is None else run.id)


async def settled(store: Store, timer: Timer) -> Timer:
    """Wait until a timer is through."""
    while (current := await store.timers.get(SPACE, timer.id)).state is TimerState.SCHEDULED:  # noqa: ASYNC110
        await asyncio.sleep(0.002)
    return current


async def test_a_deadline_ends_its_run(store: Store, bus: LocalBus, clock: HeldClock) -> None:
    lease = await running(store, "hi")
    set_ = await timer(store, clock, "deadline", run=await get(store, lease.run_id), data={"seconds": 60})
    clock.tick(MINUTE)
    async with running_timers(store, bus, clock):
        failed = await wait_for_status(store, lease.run, RunStatus.FAILED)
    assert failed.error is not None
    assert (failed.error.code, failed.error.details) == ("DEADLINE_EXCEEDED", {"limit": 60})
    assert "60 seconds" in failed.error.message
    assert (await store.timers.get(SPACE, set_.id)).state is TimerState.FIRED


async def test_a_deadline_without_seconds_ends_its_run(store: Store, bus: LocalBus, clock: HeldClock) -> None:
    run = await queued(store, "hi")
    await timer(store, clock, "deadline", run=run)
    clock.tick(MINUTE)
    async with running_timers(store, bus, clock):
        failed = await wait_for_status(store, run, RunStatus.FAILED)
    assert failed.error is not None and failed.error.code == "DEADLINE_EXCEEDED"


async def test_a_wake_puts_its_timer_into_the_inbox_and_wakes_the_run(
    store: Store, bus: LocalBus, clock: HeldClock
) -> None:
    lease = await running(store, "hi")
    new = NewTimer(kind="wake", due_at=seconds_from_now(clock, 1), id=TimerId("nap"))
    await commit(store, lease, timers=[new], move=WAITING)
    clock.tick(MINUTE)
    async with running_timers(store, bus, clock):
        await wait_for_status(store, lease.run, RunStatus.QUEUED)
    items = await store.journal.inbox(await claim(store))
    assert [(item.kind, item.data) for item in items] == [(InboxKind.TIMER, {"timer_id": "nap"})]


async def test_a_timer_fires_when_it_is_due_and_not_before(tmp_path: Path) -> None:
    """The fallback interval is not needed: a hint tells the loop that a timer was set, and it sleeps until then."""
    bus, clock = LocalBus(), SystemClock()
    async with open_store(tmp_path / "holdfast.db", bus=bus) as store:
        await store.spaces.create(SPACE, name="Acme")
        async with running_timers(store, bus, clock):
            due = instant(Millis(clock.now() + 100))
            fired = await settled(store, await store.timers.set(SPACE, NewTimer(kind="odd", due_at=due)))
        assert fired.fired_at is not None and millis(fired.fired_at) >= millis(due)


async def test_a_timer_whose_hint_was_lost_fires_after_the_fallback_interval(store: Store, clock: HeldClock) -> None:
    async with running_timers(store, LossyBus(), clock, fallback_seconds=0.02):
        set_ = await timer(store, clock, "odd")
        clock.tick(MINUTE)
        assert (await settled(store, set_)).state is TimerState.FIRED


async def test_a_flood_of_hints_does_not_delay_timers(store: Store, bus: LocalBus, clock: HeldClock) -> None:
    async def publish_hints() -> None:
        while True:
            bus.publish(WakeHint(timers=True))
            await asyncio.sleep(0.001)

    async with running_timers(store, bus, clock), background(publish_hints()):
        set_ = await timer(store, clock, "odd")
        clock.tick(MINUTE)
        assert (await settled(store, set_)).state is TimerState.FIRED


async def test_a_timer_of_an_unknown_kind_is_logged_and_settled(
    store: Store, bus: LocalBus, clock: HeldClock, caplog: pytest.LogCaptureFixture
) -> None:
    set_ = await timer(store, clock, "moon landing")
    clock.tick(MINUTE)
    async with running_timers(store, bus, clock):
        assert (await settled(store, set_)).state is TimerState.FIRED
    assert "`moon landing`" in caplog.text


async def test_timers_of_other_kinds_run_their_action(store: Store, bus: LocalBus, clock: HeldClock) -> None:
    fired: list[TimerClaim] = []

    async def fire(claim: TimerClaim) -> None:
        fired.append(claim)
        await store.timers.settle(claim)

    set_ = await timer(store, clock, "reminder", data={"text": "tea"})
    clock.tick(MINUTE)
    async with running_timers(store, bus, clock, kinds={"reminder": fire}):
        await settled(store, set_)
    assert [claim.timer.data for claim in fired] == [{"text": "tea"}]


async def test_a_run_timer_without_a_run_is_settled(
    store: Store, bus: LocalBus, clock: HeldClock, caplog: pytest.LogCaptureFixture
) -> None:
    set_ = [await timer(store, clock, kind) for kind in ("deadline", "wake")]
    clock.tick(MINUTE)
    async with running_timers(store, bus, clock):
        for each in set_:
            assert (await settled(store, each)).state is TimerState.FIRED
    assert "set it with its `run`" in caplog.text


async def test_a_timer_whose_action_is_impossible_is_settled(store: Store, bus: LocalBus, clock: HeldClock) -> None:
    async def too_late(claim: TimerClaim) -> None:
        await store.inbox.put(SPACE, run.id, kind=InboxKind.TIMER, data=None, fires=claim)

    run = await queued(store, "hi")
    await store.runs.end(SPACE, run.id)
    set_ = await timer(store, clock, "message")
    clock.tick(MINUTE)
    async with running_timers(store, bus, clock, kinds={"message": too_late}):
        assert (await settled(store, set_)).state is TimerState.FIRED


async def test_a_timer_that_is_cancelled_while_it_fires_is_not_settled(
    store: Store, bus: LocalBus, clock: HeldClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def stop_first(claim: TimerClaim) -> None:
        await store.runs.end(SPACE, run.id)
        await store.inbox.put(SPACE, run.id, kind=InboxKind.TIMER, data=None, fires=claim)

    run = await queued(store, "hi")
    set_ = await timer(store, clock, "message", run=run)
    clock.tick(MINUTE)
    async with running_timers(store, bus, clock, kinds={"message": stop_first}):
        assert (await settled(store, set_)).state is TimerState.CANCELLED
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("error", [RuntimeError("a bug"), Unavailable("not now")])
async def test_a_failing_timer_is_retried_after_its_claim_expired_and_delays_no_other(
    store: Store, bus: LocalBus, clock: HeldClock, error: Exception
) -> None:
    attempts = 0

    async def fail_once(claim: TimerClaim) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise error
        await store.timers.settle(claim)

    failing_timer, other_timer = await timer(store, clock, "flaky"), await timer(store, clock, "odd")
    clock.tick(MINUTE)
    async with running_timers(store, bus, clock, kinds={"flaky": fail_once}, fallback_seconds=0.02):
        await settled(store, other_timer)
        assert (await store.timers.get(SPACE, failing_timer.id)).state is TimerState.SCHEDULED
        clock.tick(2 * MINUTE)
        await settled(store, failing_timer)
    assert attempts == 2


async def test_more_timers_than_one_batch_are_all_fired(store: Store, bus: LocalBus, clock: HeldClock) -> None:
    fired: list[TimerId] = []

    async def fire(claim: TimerClaim) -> None:
        fired.append(claim.timer.id)
        await store.timers.settle(claim)

    set_ = [await timer(store, clock, "many") for _ in range(230)]
    clock.tick(MINUTE)
    async with running_timers(store, bus, clock, kinds={"many": fire}):
        for each in set_:
            await settled(store, each)
    assert sorted(fired) == sorted(each.id for each in set_)


async def test_an_expired_interrupt_gets_its_default_outcome(store: Store, bus: LocalBus, clock: HeldClock) -> None:
    run = await waiting_run(store, default="no", expires_at=seconds_from_now(clock, 60))
    async with running_timers(store, bus, clock, fallback_seconds=0.02):
        await asyncio.sleep(0.05)
        assert await status(store, run.id) is RunStatus.WAITING
        clock.tick(2 * MINUTE)
        await wait_for_status(store, run, RunStatus.QUEUED)
    (item,) = await store.journal.inbox(await claim(store))
    assert item.data["response"] == "no"
    (interrupt,) = await store.interrupts.of_run(SPACE, run.id)
    assert interrupt.status is InterruptStatus.EXPIRED


async def test_an_interrupt_expires_on_time_without_the_fallback_interval(tmp_path: Path) -> None:
    bus, clock = LocalBus(), SystemClock()
    async with open_store(tmp_path / "holdfast.db", bus=bus) as store:
        await store.spaces.create(SPACE, name="Acme")
        run = await waiting_run(store, default="no", expires_at=instant(Millis(clock.now() + 100)))
        async with running_timers(store, bus, clock):
            await wait_for_status(store, run, RunStatus.QUEUED)
