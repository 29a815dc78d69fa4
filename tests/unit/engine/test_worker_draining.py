"""A draining worker loses nothing: its runs finish or are requeued at once."""

import asyncio
from datetime import timedelta

from holdfast.bootstrap import SystemClock
from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Lease
from holdfast.domain.run import RunStatus
from holdfast.engine.watcher import Watcher
from holdfast.engine.worker import Worker
from holdfast.store.store import Store
from tests.builders import SECOND
from tests.conformance.run_builders import get, queued, status
from tests.unit.engine.workers import (
    HOUR,
    SOON,
    Actor,
    Watched,
    becomes,
    completing,
    hanging,
    new_worker,
    obeying,
    working,
)


async def gone(worker: Worker) -> None:
    """Wait until a worker has nothing in hand."""
    while worker.active_count:  # noqa: ASYNC110 - it lets go meanwhile
        await asyncio.sleep(0.002)


async def test_runs_that_stop_on_request_are_requeued(store: Store, bus: LocalBus) -> None:
    actor = Actor(obeying)
    runs = [await queued(store, f"{number}") for number in range(3)]
    async with working(store, bus, actor) as worker:
        for _ in runs:
            await actor.begun.get()
        worker.drain(HOUR)
        await gone(worker)
    assert actor.cut.empty()
    for run in runs:
        back = await get(store, run.id)
        assert (back.status, back.attempt, back.wait_until) == (RunStatus.QUEUED, 0, None)
    assert len(await store.leases.claim(SECOND, lease=HOUR, limit=9)) == 3


async def test_a_run_that_does_not_stop_delays_no_other(store: Store, bus: LocalBus) -> None:
    async def play(lease: Lease, stop: asyncio.Event) -> None:
        await (hanging(lease, stop) if lease.run_id == deaf.id else obeying(lease, stop))

    deaf, obedient = await queued(store, "one"), await queued(store, "two")
    actor = Actor(play)
    async with working(store, bus, actor) as worker:
        for _ in range(2):
            await actor.begun.get()
        worker.drain(HOUR)
        await becomes(store, obedient, RunStatus.QUEUED)
        assert actor.at == [deaf.id]


async def test_a_run_that_is_nearly_done_may_finish(store: Store, bus: LocalBus) -> None:
    async def finish_when_told(lease: Lease, stop: asyncio.Event) -> None:
        await stop.wait()
        await completing(store)(lease, stop)

    actor, run = Actor(finish_when_told), await queued(store, "hi")
    async with working(store, bus, actor) as worker:
        await actor.begun.get()
        worker.drain(HOUR)
        await gone(worker)
    assert await status(store, run.id) is RunStatus.COMPLETED


async def test_a_run_that_does_not_stop_in_time_is_cancelled_and_requeued(store: Store, bus: LocalBus) -> None:
    actor, run = Actor(hanging), await queued(store, "hi")
    async with working(store, bus, actor) as worker:
        await actor.begun.get()
        worker.drain(SOON)
        assert (await actor.cut.get()).run_id == run.id
        await gone(worker)
    assert await status(store, run.id) is RunStatus.QUEUED


async def test_the_drain_timeout_is_the_workers_default(store: Store, bus: LocalBus) -> None:
    actor, run = Actor(hanging), await queued(store, "hi")
    async with working(store, bus, actor, drain=SOON) as worker:
        await actor.begun.get()
        worker.drain()
        assert (await actor.cut.get()).run_id == run.id


async def test_a_second_drain_cancels_at_once(store: Store, bus: LocalBus) -> None:
    actor, run = Actor(hanging), await queued(store, "hi")
    async with working(store, bus, actor) as worker:
        await actor.begun.get()
        worker.drain(HOUR)
        await asyncio.sleep(0)
        assert actor.cut.empty()
        worker.drain(HOUR)
        assert (await actor.cut.get()).run_id == run.id
        await gone(worker)
    assert await status(store, run.id) is RunStatus.QUEUED


async def test_a_drain_timeout_of_zero_cancels_every_run(store: Store, bus: LocalBus) -> None:
    actor, run = Actor(hanging), await queued(store, "hi")
    async with working(store, bus, actor) as worker:
        await actor.begun.get()
        worker.drain(timedelta())
        await gone(worker)
    assert await status(store, run.id) is RunStatus.QUEUED


async def test_a_draining_worker_starts_no_run(store: Store, bus: LocalBus) -> None:
    actor = Actor(hanging)
    async with working(store, bus, actor) as worker:
        await queued(store, "one")
        await actor.begun.get()
        worker.drain(HOUR)
        late = await queued(store, "two")
        await asyncio.sleep(0.02)
        assert await status(store, late.id) is RunStatus.QUEUED
    assert actor.begun.empty()


async def test_a_run_that_is_claimed_while_draining_is_requeued_before_it_starts(store: Store, bus: LocalBus) -> None:
    leases, actor = Watched(store.leases), Actor(hanging)
    leases.gate = asyncio.Event()
    run = await queued(store, "hi")
    async with working(store, bus, actor, leases=leases) as worker:
        await becomes(store, run, RunStatus.RUNNING)  # and the worker does not know it yet
        worker.drain(HOUR)
        leases.gate.set()
        await becomes(store, run, RunStatus.QUEUED)
    assert actor.begun.empty()


async def test_an_idle_worker_is_drained_at_once(store: Store, bus: LocalBus) -> None:
    leases = Watched(store.leases)
    async with working(store, bus, Actor(hanging), leases=leases) as worker:
        await leases.was_asked("claim")
        worker.drain(HOUR)


async def test_a_worker_drained_before_it_ran_does_nothing(store: Store, bus: LocalBus) -> None:
    run = await queued(store, "hi")
    watcher = Watcher(bus=bus, events=store.events, leases=store.leases, clock=SystemClock())
    worker = new_worker(store, watcher, Actor(hanging))
    worker.drain()
    await worker.run()
    assert (await get(store, run.id)).session_id is None


async def test_a_cancelled_worker_requeues_its_runs(store: Store, bus: LocalBus) -> None:
    actor, runs = Actor(hanging), [await queued(store, f"{number}") for number in range(3)]

    async def work() -> None:
        async with working(store, bus, actor) as worker:
            for _ in runs:
                await actor.begun.get()
            begun.set_result(worker)
            await asyncio.Event().wait()

    begun: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(work())
    await begun
    task.cancel()
    await asyncio.wait([task])
    assert [await status(store, run.id) for run in runs] == [RunStatus.QUEUED] * 3


async def test_a_lease_that_an_executor_left_behind_is_released_before_the_worker_ends(
    store: Store, bus: LocalBus
) -> None:
    async def play(lease: Lease, stop: asyncio.Event) -> None:
        pass

    run = await queued(store, "hi")
    async with working(store, bus, Actor(play)) as worker:
        await becomes(store, run, RunStatus.RUNNING)
        await gone(worker)
    assert await status(store, run.id) is RunStatus.QUEUED


async def test_an_unavailable_store_delays_the_drain_by_at_most_one_lease(store: Store, bus: LocalBus) -> None:
    leases, actor = Watched(store.leases), Actor(hanging)
    await queued(store, "hi")
    async with working(store, bus, actor, leases=leases, lease=5 * SOON, heartbeat=SOON) as worker:
        await actor.begun.get()
        leases.down = {"claim", "renew", "release", "expire", "queue"}
        worker.drain(timedelta())
        await gone(worker)
