"""A worker whose lease is lost stops at once, and writes nothing more."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Commit, Lease
from holdfast.domain.errors import LeaseLost
from holdfast.domain.ids import RunId
from holdfast.domain.limits import backoff_ms
from holdfast.domain.run import RunStatus
from holdfast.engine.worker import DEFAULT_HEARTBEAT_INTERVAL, DEFAULT_LEASE
from holdfast.ports.bus import WakeHint
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE, SECOND, claim, text_events
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import QUEUED, commit, get, queued, run_after, status, stream
from tests.unit.engine.workers import (
    HOUR,
    SHORT_HEARTBEAT,
    Actor,
    ObservedLeases,
    complete_run,
    ignore_stop,
    running_worker,
    wait_for_status,
)

MOMENT = timedelta(milliseconds=200)


async def test_one_heartbeat_renews_every_lease(store: Store, bus: LocalBus, clock: HeldClock) -> None:
    leases, actor = ObservedLeases(store.leases), Actor(ignore_stop)
    for number in range(4):
        await queued(store, f"{number}")
    async with running_worker(store, bus, actor, leases=leases, lease=MINUTE, heartbeat=SHORT_HEARTBEAT):
        for _ in range(4):
            await actor.started.get()
        for _ in range(5):
            clock.tick(MINUTE / 2)
            await leases.wait_for_calls("renew", times=2)  # the second begins after the first is done
        assert await store.leases.expire() == []
        assert actor.cancelled.empty()


async def test_a_worker_does_not_take_back_its_own_expired_leases(
    store: Store, bus: LocalBus, clock: HeldClock
) -> None:
    """A process that was paused, or a machine that slept, finds its leases expired; nobody else may have noticed."""
    leases, actor = ObservedLeases(store.leases), Actor(ignore_stop)
    run = await queued(store, "hi")
    async with running_worker(store, bus, actor, leases=leases, lease=MINUTE, heartbeat=SHORT_HEARTBEAT):
        await actor.started.get()
        leases.unavailable = {"renew"}  # the sweep comes first
        clock.tick(2 * MINUTE)
        await leases.wait_for_calls("expire", times=2)
        assert (await get(store, run.id)).status is RunStatus.RUNNING
        leases.unavailable = set()
        await leases.wait_for_calls("renew", times=2)
        assert await store.leases.expire() == []
        assert actor.cancelled.empty()


def test_by_default_a_worker_takes_over_from_a_dead_one_within_eight_seconds() -> None:
    """The lease has to expire, the next sweep finds it, and one death causes no backoff. The rest is for the store."""
    longest = DEFAULT_LEASE + DEFAULT_HEARTBEAT_INTERVAL + timedelta(milliseconds=backoff_ms(1))
    assert longest <= timedelta(seconds=7)


async def test_a_run_whose_lease_was_lost_is_cancelled_and_writes_nothing(
    store: Store, bus: LocalBus, clock: HeldClock
) -> None:
    actor = Actor(ignore_stop)
    run = await queued(store, "hi")
    await claim(store, SECOND)
    clock.tick(MINUTE)
    assert await store.leases.expire() == [run.id]  # so that the next death causes a backoff
    async with running_worker(store, bus, actor, lease=MINUTE, heartbeat=SHORT_HEARTBEAT):
        lost_lease = await actor.started.get()
        clock.tick(2 * MINUTE)
        while await store.leases.expire() != [run.id]:  # unless a heartbeat came first
            clock.tick(2 * MINUTE)
        clock.tick(2 * MINUTE)
        (new_lease,) = await store.leases.claim(SECOND, lease=HOUR)
        before = await stream(store, run.id)
        assert await actor.cancelled.get() == lost_lease
    assert await stream(store, run.id) == before
    (renewed,) = await store.leases.renew(SECOND, [new_lease], lease=HOUR)  # releasing the lost lease did not change it
    assert renewed.number == new_lease.number
    with pytest.raises(LeaseLost):
        await store.journal.commit(Commit(lease=lost_lease, events=text_events("late")))


async def test_an_ended_run_is_cancelled_without_waiting_for_the_heartbeat(store: Store, bus: LocalBus) -> None:
    actor = Actor(ignore_stop)
    run, other = await queued(store, "hi"), await queued(store, "ho")
    async with running_worker(store, bus, actor, heartbeat=HOUR):
        await actor.started.get()
        await actor.started.get()
        await store.runs.end(SPACE, run.id)
        assert (await actor.cancelled.get()).run_id == run.id
        assert actor.active == [other.id]


async def test_a_run_behind_an_ended_one_starts_once_that_is_cancelled(store: Store, bus: LocalBus) -> None:
    async def hang_first(lease: Lease, stop: asyncio.Event) -> None:
        await (ignore_stop(lease, stop) if lease.run_id == first.id else complete_run(store)(lease, stop))

    actor = Actor(hang_first)
    first = await queued(store, "one")
    second = await run_after(store, first, "two")
    async with running_worker(store, bus, actor):
        await actor.started.get()
        await store.runs.end(SPACE, first.id)
        await wait_for_status(store, second, RunStatus.COMPLETED)


async def test_an_executor_that_returns_when_cancelled_is_released_too(store: Store, bus: LocalBus) -> None:
    async def return_when_cancelled(lease: Lease, stop: asyncio.Event) -> None:
        if lease.run_id == first.id:
            with suppress(asyncio.CancelledError):
                await ignore_stop(lease, stop)
        else:
            await complete_run(store)(lease, stop)

    actor = Actor(return_when_cancelled)
    first = await queued(store, "one")
    second = await run_after(store, first, "two")
    async with running_worker(store, bus, actor):
        await actor.started.get()
        await store.runs.end(SPACE, first.id)
        await wait_for_status(store, second, RunStatus.COMPLETED)


async def test_an_end_whose_hint_was_lost_is_noticed_at_the_next_heartbeat(store: Store) -> None:
    actor = Actor(ignore_stop)
    run = await queued(store, "hi")
    async with running_worker(store, LocalBus(), actor, heartbeat=SHORT_HEARTBEAT):  # not the bus of the store
        await actor.started.get()
        await store.runs.end(SPACE, run.id)
        assert (await actor.cancelled.get()).run_id == run.id


async def test_the_end_of_another_workers_run_causes_no_heartbeat(store: Store, bus: LocalBus) -> None:
    leases, actor = ObservedLeases(store.leases), Actor(ignore_stop)
    await queued(store, "hi")
    async with running_worker(store, bus, actor, leases=leases):
        await actor.started.get()
        bus.publish(WakeHint(ended=frozenset({(SPACE, RunId("another"))})))
        await wait_for_status(store, await queued(store, "ho"), RunStatus.RUNNING)  # the earlier hint was received
        assert "renew" not in leases.calls


async def test_leases_are_renewed_when_hints_may_have_been_lost(store: Store) -> None:
    bus, actor = LocalBus(), Actor(ignore_stop)
    run = await queued(store, "hi")
    async with running_worker(store, bus, actor):
        await actor.started.get()
        await store.runs.end(SPACE, run.id)
        bus.publish(WakeHint(everything=True))
        assert (await actor.cancelled.get()).run_id == run.id


async def test_a_run_is_cancelled_when_its_lease_could_not_be_renewed_in_time(
    store: Store, bus: LocalBus, caplog: pytest.LogCaptureFixture
) -> None:
    """Another worker may own the run by then: a store that is unavailable to us may be available to others."""
    leases, actor = ObservedLeases(store.leases), Actor(ignore_stop)
    run = await queued(store, "hi")
    async with running_worker(store, bus, actor, leases=leases, lease=MOMENT, heartbeat=MOMENT / 4):
        await actor.started.get()
        leases.unavailable = {"renew"}
        assert (await actor.cancelled.get()).run_id == run.id
        leases.unavailable = set()
        await actor.started.get()  # it was released, and is claimed again
    assert f"run {run.id} is cancelled" in caplog.text


async def test_a_run_is_cancelled_earlier_than_its_lease_expires_if_others_may_take_it_over_then(
    store: Store, bus: LocalBus
) -> None:
    leases, actor = ObservedLeases(store.leases), Actor(ignore_stop)
    run = await queued(store, "hi")
    async with running_worker(store, bus, actor, leases=leases, heartbeat=MOMENT / 4, max_unrenewed=MOMENT):
        await actor.started.get()
        leases.unavailable = {"renew"}
        assert (await actor.cancelled.get()).run_id == run.id


async def test_a_failed_heartbeat_is_retried_before_the_lease_expires(store: Store, bus: LocalBus) -> None:
    leases, actor = ObservedLeases(store.leases), Actor(ignore_stop)
    await queued(store, "hi")
    async with running_worker(store, bus, actor, leases=leases, heartbeat=SHORT_HEARTBEAT):
        await actor.started.get()
        leases.unavailable = {"renew"}
        await leases.wait_for_calls("renew", times=3)
        leases.unavailable = set()
        await leases.wait_for_calls("renew", times=3)
        assert actor.cancelled.empty()


async def test_a_lease_lasts_from_its_last_renewal(store: Store, bus: LocalBus) -> None:
    leases, actor = ObservedLeases(store.leases), Actor(ignore_stop)
    loop = asyncio.get_running_loop()
    await queued(store, "hi")
    async with running_worker(store, bus, actor, leases=leases, lease=3 * MOMENT, heartbeat=SHORT_HEARTBEAT):
        await actor.started.get()
        start = loop.time()
        while loop.time() < start + 3 * MOMENT.total_seconds():
            await leases.wait_for_calls("renew")
        leases.unavailable = {"renew"}
        await leases.wait_for_calls("renew")
        leases.unavailable = set()
        await leases.wait_for_calls("renew", times=2)
        assert actor.cancelled.empty()


async def test_a_reclaimed_run_starts_when_its_previous_execution_has_ended(store: Store, bus: LocalBus) -> None:
    tidy, at_once = asyncio.Event(), asyncio.Event()

    async def requeue_then_linger(lease: Lease, stop: asyncio.Event) -> None:
        if lease.number > 1:
            await complete_run(store)(lease, stop)
            return
        await commit(store, lease, move=QUEUED)
        try:
            await asyncio.Event().wait()
        finally:
            at_once.set()
            await tidy.wait()

    actor = Actor(requeue_then_linger)
    run = await queued(store, "hi")
    async with running_worker(store, bus, actor):
        await actor.started.get()
        await at_once.wait()  # the worker has it again, under another lease
        assert (await get(store, run.id)).status is RunStatus.RUNNING
        assert actor.started.empty()
        tidy.set()
        await wait_for_status(store, run, RunStatus.COMPLETED)
    assert actor.max_active == 1


async def test_the_run_of_a_dead_worker_is_requeued(store: Store, bus: LocalBus, clock: HeldClock) -> None:
    run = await queued(store, "hi")
    await claim(store, SECOND)  # that worker dies now
    leases = ObservedLeases(store.leases)
    async with running_worker(
        store,
        bus,
        Actor(complete_run(store)),
        leases=leases,
        heartbeat=SHORT_HEARTBEAT,
        fallback_seconds=0.02,
        clock=clock,
    ):
        await leases.wait_for_calls("expire", times=2)
        assert await status(store, run.id) is RunStatus.RUNNING
        clock.tick(2 * MINUTE)
        while await status(store, run.id) is RunStatus.RUNNING:  # noqa: ASYNC110 - until the worker took it back
            await asyncio.sleep(0.002)
        clock.tick(MINUTE)  # its delay
        assert (await wait_for_status(store, run, RunStatus.COMPLETED)).session_id == "worker.3"
