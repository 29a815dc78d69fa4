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
    SHORT_HEARTBEAT,
    Actor,
    ObservedLeases,
    complete_run,
    ignore_stop,
    new_worker,
    obey_stop,
    running_worker,
    wait_for_status,
)


async def wait_until_drained(worker: Worker) -> None:
    """Wait until a worker has nothing in hand."""
    while worker.active_count:  # noqa: ASYNC110 - it lets go meanwhile
        await asyncio.sleep(0.002)


async def test_runs_that_stop_on_request_are_requeued(store: Store, bus: LocalBus) -> None:
    actor = Actor(obey_stop)
    runs = [await queued(store, f"{number}") for number in range(3)]
    async with running_worker(store, bus, actor) as worker:
        for _ in runs:
            await actor.started.get()
        worker.drain(HOUR)
        await wait_until_drained(worker)
    assert actor.cancelled.empty()
    for run in runs:
        requeued = await get(store, run.id)
        assert (requeued.status, requeued.attempt, requeued.wait_until) == (RunStatus.QUEUED, 0, None)
    assert len(await store.leases.claim(SECOND, lease=HOUR, limit=9)) == 3


async def test_a_run_that_does_not_stop_delays_no_other(store: Store, bus: LocalBus) -> None:
    async def play(lease: Lease, stop: asyncio.Event) -> None:
        await (ignore_stop(lease, stop) if lease.run_id == ignoring.id else obey_stop(lease, stop))

    ignoring, obeying = await queued(store, "one"), await queued(store, "two")
    actor = Actor(play)
    async with running_worker(store, bus, actor) as worker:
        for _ in range(2):
            await actor.started.get()
        worker.drain(HOUR)
        await wait_for_status(store, obeying, RunStatus.QUEUED)
        assert actor.active == [ignoring.id]


async def test_a_run_that_is_nearly_done_may_finish(store: Store, bus: LocalBus) -> None:
    async def finish_on_stop(lease: Lease, stop: asyncio.Event) -> None:
        await stop.wait()
        await complete_run(store)(lease, stop)

    actor, run = Actor(finish_on_stop), await queued(store, "hi")
    async with running_worker(store, bus, actor) as worker:
        await actor.started.get()
        worker.drain(HOUR)
        await wait_until_drained(worker)
    assert await status(store, run.id) is RunStatus.COMPLETED


async def test_a_run_that_does_not_stop_in_time_is_cancelled_and_requeued(store: Store, bus: LocalBus) -> None:
    actor, run = Actor(ignore_stop), await queued(store, "hi")
    async with running_worker(store, bus, actor) as worker:
        await actor.started.get()
        worker.drain(SHORT_HEARTBEAT)
        assert (await actor.cancelled.get()).run_id == run.id
        await wait_until_drained(worker)
    assert await status(store, run.id) is RunStatus.QUEUED


async def test_the_drain_timeout_is_the_workers_default(store: Store, bus: LocalBus) -> None:
    actor, run = Actor(ignore_stop), await queued(store, "hi")
    async with running_worker(store, bus, actor, drain=SHORT_HEARTBEAT) as worker:
        await actor.started.get()
        worker.drain()
        assert (await actor.cancelled.get()).run_id == run.id


async def test_a_second_drain_cancels_at_once(store: Store, bus: LocalBus) -> None:
    actor, run = Actor(ignore_stop), await queued(store, "hi")
    async with running_worker(store, bus, actor) as worker:
        await actor.started.get()
        worker.drain(HOUR)
        await asyncio.sleep(0)
        assert actor.cancelled.empty()
        worker.drain(HOUR)
        assert (await actor.cancelled.get()).run_id == run.id
        await wait_until_drained(worker)
    assert await status(store, run.id) is RunStatus.QUEUED


async def test_a_drain_timeout_of_zero_cancels_every_run(store: Store, bus: LocalBus) -> None:
    actor, run = Actor(ignore_stop), await queued(store, "hi")
    async with running_worker(store, bus, actor) as worker:
        await actor.started.get()
        worker.drain(timedelta())
        await wait_until_drained(worker)
    assert await status(store, run.id) is RunStatus.QUEUED


async def test_a_draining_worker_starts_no_run(store: Store, bus: LocalBus) -> None:
    actor = Actor(ignore_stop)
    async with running_worker(store, bus, actor) as worker:
        await queued(store, "one")
        await actor.started.get()
        worker.drain(HOUR)
        late = await queued(store, "two")
        await asyncio.sleep(0.02)
        assert await status(store, late.id) is RunStatus.QUEUED
    assert actor.started.empty()


async def test_a_run_that_is_claimed_while_draining_is_requeued_before_it_starts(store: Store, bus: LocalBus) -> None:
    leases, actor = ObservedLeases(store.leases), Actor(ignore_stop)
    leases.claim_gate = asyncio.Event()
    run = await queued(store, "hi")
    async with running_worker(store, bus, actor, leases=leases) as worker:
        await wait_for_status(store, run, RunStatus.RUNNING)  # and the worker does not know it yet
        worker.drain(HOUR)
        leases.claim_gate.set()
        await wait_for_status(store, run, RunStatus.QUEUED)
    assert actor.started.empty()


async def test_an_idle_worker_is_drained_at_once(store: Store, bus: LocalBus) -> None:
    leases = ObservedLeases(store.leases)
    async with running_worker(store, bus, Actor(ignore_stop), leases=leases) as worker:
        await leases.wait_for_calls("claim")
        worker.drain(HOUR)


async def test_a_worker_drained_before_it_ran_does_nothing(store: Store, bus: LocalBus) -> None:
    run = await queued(store, "hi")
    watcher = Watcher(bus=bus, events=store.events, leases=store.leases, clock=SystemClock())
    worker = new_worker(store, watcher, Actor(ignore_stop))
    worker.drain()
    await worker.run()
    assert (await get(store, run.id)).session_id is None


async def test_a_cancelled_worker_requeues_its_runs(store: Store, bus: LocalBus) -> None:
    actor, runs = Actor(ignore_stop), [await queued(store, f"{number}") for number in range(3)]

    async def work() -> None:
        async with running_worker(store, bus, actor) as worker:
            for _ in runs:
                await actor.started.get()
            started.set_result(worker)
            await asyncio.Event().wait()

    started: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(work())
    await started
    task.cancel()
    await asyncio.wait([task])
    assert [await status(store, run.id) for run in runs] == [RunStatus.QUEUED] * 3


async def test_a_lease_that_an_executor_left_behind_is_released_before_the_worker_ends(
    store: Store, bus: LocalBus
) -> None:
    async def play(lease: Lease, stop: asyncio.Event) -> None:
        pass

    run = await queued(store, "hi")
    async with running_worker(store, bus, Actor(play)) as worker:
        await wait_for_status(store, run, RunStatus.RUNNING)
        await wait_until_drained(worker)
    assert await status(store, run.id) is RunStatus.QUEUED


async def test_an_unavailable_store_delays_the_drain_by_at_most_one_lease(store: Store, bus: LocalBus) -> None:
    leases, actor = ObservedLeases(store.leases), Actor(ignore_stop)
    await queued(store, "hi")
    async with running_worker(
        store, bus, actor, leases=leases, lease=5 * SHORT_HEARTBEAT, heartbeat=SHORT_HEARTBEAT
    ) as worker:
        await actor.started.get()
        leases.unavailable = {"claim", "renew", "release", "expire", "queue"}
        worker.drain(timedelta())
        await wait_until_drained(worker)
