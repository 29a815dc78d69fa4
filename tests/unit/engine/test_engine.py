"""`Engine` runs the loops of a process, and releases every run when it ends."""

import asyncio
from datetime import timedelta

import pytest

from holdfast.bootstrap import SystemClock
from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Lease
from holdfast.domain.ids import OwnerId, SpaceId
from holdfast.domain.run import RunStatus
from holdfast.domain.timer import NewTimer
from holdfast.engine.engine import Engine, NotificationLoop
from holdfast.engine.timers import TimerLoop
from holdfast.engine.watcher import Watcher
from holdfast.ports.spaces import Notifications
from holdfast.store.notifications import SqlNotifications
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import get, queued, seconds_from_now, status
from tests.unit.engine.test_notification_loop import numbered
from tests.unit.engine.workers import (
    HANG_TIMEOUT_SECONDS,
    HOUR,
    NEVER_SECONDS,
    Actor,
    complete_run,
    ignore_stop,
    new_worker,
    obey_stop,
    wait_for_status,
)


def new_engine(
    store: Store, bus: LocalBus, actor: Actor | None, *, notifications: Notifications | None = None
) -> Engine:
    """Make an engine that works because of hints, and never because time passes."""
    clock = SystemClock()
    watcher = Watcher(bus=bus, events=store.events, leases=store.leases, clock=clock, fallback_seconds=NEVER_SECONDS)
    timers = TimerLoop(
        timers=store.timers,
        interrupts=store.interrupts,
        runs=store.runs,
        inbox=store.inbox,
        watcher=watcher,
        clock=clock,
        owner=OwnerId("engine"),
        fallback_seconds=NEVER_SECONDS,
    )
    notification_loop = NotificationLoop(
        notifications=notifications or store.notifications, watcher=watcher, fallback_seconds=NEVER_SECONDS
    )
    worker = None if actor is None else new_worker(store, watcher, actor)
    return Engine(watcher=watcher, timers=timers, notifications=notification_loop, worker=worker)


async def test_the_engine_executes_runs_fires_timers_and_dispatches_notifications(
    store: Store, bus: LocalBus, clock: HeldClock
) -> None:
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), new_engine(store, bus, Actor(complete_run(store))).running():
        await wait_for_status(store, await queued(store, "hi"), RunStatus.COMPLETED)
        assert len(await numbered(store, 1)) == 1
        late = await queued(store, "late", wait_until=seconds_from_now(clock, 3600))
        await store.timers.set(SPACE, NewTimer(kind="deadline", due_at=seconds_from_now(clock, -1)), run=late.id)
        await wait_for_status(store, late, RunStatus.FAILED)


async def test_a_process_without_a_worker_leaves_runs_to_others(store: Store, bus: LocalBus, clock: HeldClock) -> None:
    run = await queued(store, "hi")
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), new_engine(store, bus, None).running():
        await store.timers.set(SPACE, NewTimer(kind="deadline", due_at=seconds_from_now(clock, -1)), run=run.id)
        await wait_for_status(store, run, RunStatus.FAILED)
    assert (await get(store, run.id)).session_id is None


async def test_active_runs_are_requeued_after_the_block(store: Store, bus: LocalBus) -> None:
    actor, run = Actor(obey_stop), await queued(store, "hi")
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), new_engine(store, bus, actor).running():
        await actor.started.get()
    assert await status(store, run.id) is RunStatus.QUEUED
    assert actor.cancelled.empty()


async def test_a_failing_block_raises_its_own_error_after_its_runs_are_requeued(store: Store, bus: LocalBus) -> None:
    actor, run = Actor(obey_stop), await queued(store, "hi")
    with pytest.raises(ValueError, match="mine"):
        async with asyncio.timeout(HANG_TIMEOUT_SECONDS), new_engine(store, bus, actor).running():
            await actor.started.get()
            raise ValueError("mine")
    assert await status(store, run.id) is RunStatus.QUEUED


async def test_a_block_may_drain_and_its_end_cancels_no_run(store: Store, bus: LocalBus) -> None:
    async def finish_slowly(lease: Lease, stop: asyncio.Event) -> None:
        await stop.wait()
        await asyncio.sleep(0.05)
        await complete_run(store)(lease, stop)

    actor, run = Actor(finish_slowly), await queued(store, "hi")
    engine = new_engine(store, bus, actor)
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), engine.running():
        await actor.started.get()
        engine.drain(HOUR)
    assert actor.cancelled.empty()
    assert await status(store, run.id) is RunStatus.COMPLETED


async def test_run_returns_when_drained_and_a_second_drain_cancels(store: Store, bus: LocalBus) -> None:
    actor, run = Actor(ignore_stop), await queued(store, "hi")
    engine = new_engine(store, bus, actor)
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(engine.run())
        await actor.started.get()
        engine.drain(HOUR)
        await asyncio.sleep(0.01)
        assert not running.done()
        engine.drain(HOUR)
    assert await status(store, run.id) is RunStatus.QUEUED


async def test_a_cancelled_engine_requeues_its_runs(store: Store, bus: LocalBus) -> None:
    actor, run = Actor(ignore_stop), await queued(store, "hi")
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
        running = asyncio.ensure_future(new_engine(store, bus, actor).run())
        await actor.started.get()
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
    assert await status(store, run.id) is RunStatus.QUEUED


class Broken(SqlNotifications):
    """Notifications with a bug."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def dispatch(self, *, limit: int = 1000) -> list[SpaceId]:
        await self.gate.wait()
        raise ZeroDivisionError("a bug")


async def test_a_failing_engine_raises_its_error_in_the_block_and_requeues_its_runs(
    store: Store, bus: LocalBus
) -> None:
    actor, run, broken = Actor(ignore_stop), await queued(store, "hi"), Broken()
    engine = new_engine(store, bus, actor, notifications=broken)
    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.timeout(HANG_TIMEOUT_SECONDS), engine.running():
            await actor.started.get()
            broken.gate.set()
            await asyncio.Event().wait()
    assert raised.group_contains(ZeroDivisionError, match="a bug")
    assert await status(store, run.id) is RunStatus.QUEUED
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_an_engine_without_a_worker_can_be_drained(store: Store, bus: LocalBus) -> None:
    engine = new_engine(store, bus, None)
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.run())
        await asyncio.sleep(0)
        engine.drain(timedelta())
