"""A worker claims runs as soon as they are queued, up to its concurrency."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.bootstrap import SystemClock, open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Lease
from holdfast.domain.errors import Invalid
from holdfast.domain.instant import Millis, instant, millis
from holdfast.domain.run import RunStatus
from holdfast.engine.worker import MAX_STARTS_PER_TURN
from holdfast.ports.bus import WakeHint
from holdfast.store.store import Store
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import queued, run_after, status
from tests.unit.engine.workers import (
    HOUR,
    Actor,
    LossyBus,
    ObservedLeases,
    complete_run,
    ignore_stop,
    running_worker,
    wait_for_status,
)


async def test_a_new_run_starts_on_an_idle_worker_because_of_its_hint(store: Store, bus: LocalBus) -> None:
    leases = ObservedLeases(store.leases)
    async with running_worker(store, bus, Actor(complete_run(store)), leases=leases):
        await leases.wait_for_calls("claim")  # and there was nothing
        await wait_for_status(store, await queued(store, "hi"), RunStatus.COMPLETED)


async def test_a_run_queued_before_the_worker_started_is_claimed(store: Store, bus: LocalBus) -> None:
    run = await queued(store, "hi")
    async with running_worker(store, bus, Actor(complete_run(store))):
        await wait_for_status(store, run, RunStatus.COMPLETED)


async def test_a_run_whose_hint_was_lost_starts_after_the_fallback_interval(tmp_path: Path) -> None:
    bus = LossyBus()
    async with open_store(tmp_path / "holdfast.db", bus=bus) as store:
        await store.spaces.create(SPACE, name="Acme")
        leases = ObservedLeases(store.leases)
        async with running_worker(store, bus, Actor(complete_run(store)), leases=leases, fallback_seconds=0.02):
            await leases.wait_for_calls("claim")
            await wait_for_status(store, await queued(store, "hi"), RunStatus.COMPLETED)


async def test_a_delayed_run_starts_when_it_is_due(tmp_path: Path) -> None:
    bus, clock = LocalBus(), SystemClock()
    async with open_store(tmp_path / "holdfast.db", bus=bus) as store:
        await store.spaces.create(SPACE, name="Acme")
        actor = Actor(complete_run(store))
        async with running_worker(store, bus, actor):
            due = instant(Millis(clock.now() + 100))
            run = await queued(store, "later", wait_until=due)
            assert (await actor.started.get()).run_id == run.id
            assert clock.now() >= millis(due)


async def test_all_slots_are_used_and_never_more(store: Store, bus: LocalBus) -> None:
    async def slowly(lease: Lease, stop: asyncio.Event) -> None:
        await asyncio.sleep(0.005)
        await complete_run(store)(lease, stop)

    runs = [await queued(store, f"{number}") for number in range(20)]
    actor = Actor(slowly)
    async with running_worker(store, bus, actor, concurrency=3):
        for run in runs:
            await wait_for_status(store, run, RunStatus.COMPLETED)
    assert actor.max_active == 3


async def test_a_worker_with_no_free_slot_claims_nothing_until_one_is_free(store: Store, bus: LocalBus) -> None:
    gate = asyncio.Event()

    async def wait(lease: Lease, stop: asyncio.Event) -> None:
        await gate.wait()
        await complete_run(store)(lease, stop)

    leases, actor = ObservedLeases(store.leases), Actor(wait)
    async with running_worker(store, bus, actor, leases=leases, concurrency=1):
        first, second = await queued(store, "one"), await queued(store, "two")
        assert (await actor.started.get()).run_id == first.id
        claims = leases.calls["claim"]
        for _ in range(5):
            bus.publish(WakeHint(queue=True))
            await asyncio.sleep(0.005)
        assert leases.calls["claim"] == claims
        assert await status(store, second.id) is RunStatus.QUEUED
        gate.set()
        assert (await actor.started.get()).run_id == second.id


async def test_the_runs_of_one_claim_start_in_several_turns_of_the_event_loop(store: Store, bus: LocalBus) -> None:
    starts_per_turn, started, loop = [0], 0, asyncio.get_running_loop()
    all_started = asyncio.Event()

    def count_turns() -> None:
        starts_per_turn.append(0)
        if not all_started.is_set():
            loop.call_soon(count_turns)

    async def note_start(lease: Lease, stop: asyncio.Event) -> None:
        nonlocal started
        starts_per_turn[-1] += 1
        started += 1
        if started == 100:
            all_started.set()
        await stop.wait()

    for number in range(100):
        await queued(store, f"{number}")
    async with running_worker(store, bus, Actor(note_start), concurrency=100):
        loop.call_soon(count_turns)
        await all_started.wait()
    assert max(starts_per_turn) <= MAX_STARTS_PER_TURN


async def test_one_claim_fills_all_free_slots(store: Store, bus: LocalBus) -> None:
    for number in range(10):
        await queued(store, f"{number}")
    leases, actor = ObservedLeases(store.leases), Actor(ignore_stop)
    async with running_worker(store, bus, actor, leases=leases, concurrency=8) as worker:
        for _ in range(8):
            await actor.started.get()
        assert leases.calls["claim"] == 1
        assert worker.active_count == 8


@pytest.mark.parametrize("options", [{}, {"base": None}, {"idempotency_key": "k"}], ids=["plain", "anew", "with-a-key"])
async def test_a_new_run_is_claimed_by_an_idle_worker_in_the_transaction_that_creates_it(
    store: Store, bus: LocalBus, options: dict[str, Any]
) -> None:
    leases, actor = ObservedLeases(store.leases), Actor(ignore_stop)
    async with running_worker(store, bus, actor, leases=leases):
        await leases.wait_for_calls("claim")  # and there was nothing
        await leases.wait_until_idle()
        run = await queued(store, "hi", **options)
        assert await status(store, run.id) is RunStatus.RUNNING
        assert (await actor.started.get()).run_id == run.id
        await leases.wait_until_idle()
        assert leases.calls["claim"] == 2  # the queue was left empty


async def test_runs_left_in_the_queue_are_claimed_when_a_slot_is_free(store: Store, bus: LocalBus) -> None:
    leases, actor = ObservedLeases(store.leases), Actor(complete_run(store))
    async with running_worker(store, bus, actor, leases=leases, concurrency=1):
        await leases.wait_for_calls("claim")
        runs = await asyncio.gather(*(queued(store, f"{number}") for number in range(5)))
        for run in runs:
            await wait_for_status(store, run, RunStatus.COMPLETED)


async def test_an_empty_queue_is_not_polled(store: Store, bus: LocalBus) -> None:
    leases = ObservedLeases(store.leases)
    async with running_worker(store, bus, Actor(ignore_stop), leases=leases, fallback_seconds=0.01):
        await leases.wait_for_calls("queue", times=10)
        assert leases.calls["claim"] == 1


async def test_runs_of_one_branch_are_executed_one_after_the_other(store: Store, bus: LocalBus) -> None:
    first = await queued(store, "one")
    second = await run_after(store, first, "two")
    third = await run_after(store, second, "three")
    actor = Actor(complete_run(store))
    async with running_worker(store, bus, actor):
        assert [(await actor.started.get()).run_id for _ in range(3)] == [first.id, second.id, third.id]
    assert actor.max_active == 1


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"heartbeat": HOUR, "lease": HOUR},
        {"heartbeat": timedelta()},
    ],
)
async def test_invalid_worker_options_are_refused(store: Store, bus: LocalBus, options: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        async with running_worker(store, bus, Actor(ignore_stop), **options):
            pass
