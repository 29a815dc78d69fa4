"""However an executor ends, its run is neither lost nor stuck."""

import asyncio
import logging

import pytest

from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Lease
from holdfast.domain.errors import Conflict, LeaseLost, Unavailable
from holdfast.domain.events import RunErrorEvent
from holdfast.domain.instant import millis
from holdfast.domain.run import RunStatus
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import SECOND
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import COMPLETED, QUEUED, WAITING, commit, get, queued, run_after, status, stream
from tests.unit.engine.workers import (
    HOUR,
    SHORT_HEARTBEAT,
    Actor,
    ExecuteFunction,
    ObservedLeases,
    complete_run,
    running_worker,
    wait_for_status,
)


def raising(error: BaseException) -> ExecuteFunction:
    """Return a play that goes wrong."""

    async def play(lease: Lease, stop: asyncio.Event) -> None:
        raise error

    return play


@pytest.mark.parametrize(("move", "left"), [(COMPLETED, RunStatus.COMPLETED), (WAITING, RunStatus.WAITING)])
async def test_a_run_whose_lease_a_commit_ended_is_not_released_again(
    store: Store, bus: LocalBus, move: object, left: RunStatus
) -> None:
    async def play(lease: Lease, stop: asyncio.Event) -> None:
        await commit(store, lease, move=move)

    leases, run = ObservedLeases(store.leases), await queued(store, "hi")
    leases.unavailable = {"renew"}  # a heartbeat during the last commit could cancel the run and release it
    async with running_worker(store, bus, Actor(play), leases=leases, heartbeat=SHORT_HEARTBEAT):
        await wait_for_status(store, run, left)
        await leases.wait_for_calls("expire", times=2)
    assert (await get(store, run.id)).status is left
    assert "release" not in leases.calls, "to give back what is given back is a transaction for nothing"


async def test_a_run_that_requeues_itself_is_claimed_again(store: Store, bus: LocalBus) -> None:
    async def three_times(lease: Lease, stop: asyncio.Event) -> None:
        await (commit(store, lease, move=QUEUED) if actor.started.qsize() < 3 else complete_run(store)(lease, stop))

    actor, run = Actor(three_times), await queued(store, "hi")
    async with running_worker(store, bus, actor):
        await wait_for_status(store, run, RunStatus.COMPLETED)
    assert [(await actor.started.get()).run_id for _ in range(3)] == [run.id] * 3


async def test_a_lease_that_an_executor_left_behind_is_released(store: Store, bus: LocalBus) -> None:
    async def second_time(lease: Lease, stop: asyncio.Event) -> None:
        if actor.started.qsize() == 2:
            await complete_run(store)(lease, stop)

    actor, run = Actor(second_time), await queued(store, "hi")
    async with running_worker(store, bus, actor, heartbeat=SHORT_HEARTBEAT):
        done = await wait_for_status(store, run, RunStatus.COMPLETED)
    assert done.attempt == 1, "to give a run back is not an attempt"


async def test_an_unavailable_run_is_requeued_with_a_growing_delay(
    store: Store, bus: LocalBus, clock: HeldClock
) -> None:
    actor, run = Actor(raising(Unavailable("not now"))), await queued(store, "hi")
    delays = []
    async with running_worker(store, bus, actor, clock=clock, fallback_seconds=0.01):
        for _ in range(12):
            await actor.started.get()
            put_off = await wait_for_status(store, run, RunStatus.QUEUED)
            assert put_off.wait_until is not None and put_off.attempt == 0
            delays.append(millis(put_off.wait_until) - clock.now())
            clock.tick(HOUR)
    assert delays == [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000, 30000]


async def test_the_requeue_delay_resets_after_a_success(store: Store, bus: LocalBus, clock: HeldClock) -> None:
    async def now_and_then(lease: Lease, stop: asyncio.Event) -> None:
        if actor.started.qsize() == 3:
            await commit(store, lease, move=QUEUED)
        else:
            raise Unavailable("not now")

    actor, run = Actor(now_and_then), await queued(store, "hi")
    delays = []
    async with running_worker(store, bus, actor, clock=clock, fallback_seconds=0.01):
        for times in (1, 2, 4):
            while actor.started.qsize() < times:  # noqa: ASYNC110 - it is worked on meanwhile
                await asyncio.sleep(0.002)
            put_off = await wait_for_status(store, run, RunStatus.QUEUED)
            assert put_off.wait_until is not None
            delays.append(millis(put_off.wait_until) - clock.now())
            clock.tick(HOUR)
    assert delays == [100, 200, 100]


@pytest.mark.parametrize(
    ("error", "message", "details"),
    [
        (ValueError("it broke"), "ValueError: it broke", {"error": "ValueError"}),
        (
            Conflict("nobody expected this"),
            "holdfast.domain.errors.Conflict: nobody expected this",
            {"error": "Conflict", "code": "CONFLICT"},
        ),
        (KeyError(), "KeyError", {"error": "KeyError"}),
        (ValueError("\x00 \ud800"), "ValueError: � ?", {"error": "ValueError"}),
        (ValueError("x" * 10_000), "ValueError: " + "x" * 1988, {"error": "ValueError"}),
    ],
)
async def test_an_unexpected_error_fails_its_run_and_is_logged(
    store: Store,
    bus: LocalBus,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    message: str,
    details: dict[str, str],
) -> None:
    run = await queued(store, "hi")
    async with running_worker(store, bus, Actor(raising(error))):
        failed = await wait_for_status(store, run, RunStatus.FAILED)
    assert failed.error is not None
    assert (failed.error.code, failed.error.message, failed.error.details) == ("INTERNAL", message, details)
    assert failed.status_reason == "internal error"
    last = (await stream(store, run.id))[-1]
    assert isinstance(last, RunErrorEvent) and last.code == "INTERNAL"
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert run.id in record.getMessage() and record.exc_info is not None and record.exc_info[1] is error


async def test_a_failing_run_does_not_affect_others(store: Store, bus: LocalBus) -> None:
    async def play(lease: Lease, stop: asyncio.Event) -> None:
        if lease.run.tags == ["bad"]:
            raise RuntimeError("only this one")
        await complete_run(store)(lease, stop)

    failing_runs = [await queued(store, "hi", tags=["bad"]) for _ in range(5)]
    other_runs = [await queued(store, "hi") for _ in range(5)]
    async with running_worker(store, bus, Actor(play), concurrency=2):
        for run in failing_runs:
            await wait_for_status(store, run, RunStatus.FAILED)
        for run in other_runs:
            await wait_for_status(store, run, RunStatus.COMPLETED)


async def test_a_run_behind_a_failed_one_starts(store: Store, bus: LocalBus) -> None:
    async def play(lease: Lease, stop: asyncio.Event) -> None:
        if lease.run_id == first.id:
            raise RuntimeError("broken")
        await complete_run(store)(lease, stop)

    first = await queued(store, "one")
    second = await run_after(store, first, "two")
    async with running_worker(store, bus, Actor(play)):
        await wait_for_status(store, second, RunStatus.COMPLETED)


async def test_an_error_does_not_fail_a_run_that_another_worker_owns(store: Store, bus: LocalBus) -> None:
    gate = asyncio.Event()

    async def play(lease: Lease, stop: asyncio.Event) -> None:
        await gate.wait()
        raise RuntimeError("too late")

    actor, run = Actor(play), await queued(store, "hi")
    async with running_worker(store, bus, actor, concurrency=1) as worker:  # it has no free slot to claim the run again
        await store.leases.release(await actor.started.get())
        (new_lease,) = await store.leases.claim(SECOND, lease=HOUR)
        gate.set()
        while worker.active_count:  # noqa: ASYNC110 - until the run is released
            await asyncio.sleep(0.002)
        assert await store.leases.renew(SECOND, [new_lease], lease=HOUR)
        assert await status(store, run.id) is RunStatus.RUNNING


async def test_a_run_whose_lease_was_lost_is_released_without_an_error(
    store: Store, bus: LocalBus, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(lease: Lease, stop: asyncio.Event) -> None:
        await store.runs.end(SPACE, lease.run_id)
        await commit(store, lease, move=COMPLETED)

    first = await queued(store, "one")
    second = await run_after(store, first, "two")
    async with running_worker(store, bus, Actor(play)):
        await wait_for_status(store, second, RunStatus.CANCELLED)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("error", [asyncio.CancelledError(), LeaseLost("so it says")])
async def test_a_run_that_cancels_itself_is_requeued(
    store: Store, bus: LocalBus, clock: HeldClock, error: BaseException
) -> None:
    """A run that cancels its own task is requeued with a delay, not in a tight loop."""

    async def once(lease: Lease, stop: asyncio.Event) -> None:
        if actor.started.qsize() == 1:
            raise error
        await complete_run(store)(lease, stop)

    actor, run = Actor(once), await queued(store, "hi")
    async with running_worker(store, bus, actor, clock=clock, fallback_seconds=0.01):
        if isinstance(error, asyncio.CancelledError):
            await actor.cancelled.get()
            put_off = await wait_for_status(store, run, RunStatus.QUEUED)
            assert put_off.wait_until is not None
            clock.tick(HOUR)
        await wait_for_status(store, run, RunStatus.COMPLETED)


async def test_the_release_is_retried_while_the_store_is_unavailable(
    store: Store, bus: LocalBus, clock: HeldClock
) -> None:
    leases, actor = ObservedLeases(store.leases), Actor(raising(Unavailable("not now")))
    run = await queued(store, "hi")
    leases.unavailable = {"release"}
    async with running_worker(store, bus, actor, leases=leases, clock=clock):
        await leases.wait_for_calls("release", times=3)
        assert await status(store, run.id) is RunStatus.RUNNING
        leases.unavailable = set()
        put_off = await wait_for_status(store, run, RunStatus.QUEUED)
        assert put_off.wait_until is not None
        assert millis(put_off.wait_until) - clock.now() == 100, "it was put off once, however often that was tried"


async def test_a_lease_that_cannot_be_released_expires_by_itself(
    store: Store, bus: LocalBus, caplog: pytest.LogCaptureFixture
) -> None:
    leases, actor = ObservedLeases(store.leases), Actor(raising(Unavailable("not now")))
    run = await queued(store, "hi")
    leases.unavailable = {"release", "renew"}
    async with running_worker(
        store, bus, actor, leases=leases, lease=5 * SHORT_HEARTBEAT, heartbeat=SHORT_HEARTBEAT
    ) as worker:
        await actor.started.get()
        while worker.active_count:  # noqa: ASYNC110 - until it has given up
            await asyncio.sleep(0.002)
        assert f"run {run.id} could not be released" in caplog.text
        assert await status(store, run.id) is RunStatus.RUNNING
