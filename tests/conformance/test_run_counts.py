"""`RunCounts`: counts of the runs that have not ended."""

from datetime import timedelta

from holdfast.domain.new_run import NewRun
from holdfast.domain.run import RunStatus
from holdfast.domain.thread import NewThread
from holdfast.ports.queue import ActiveRunCounts
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.run_builders import COMPLETED, WAITING, commit, queued, run_after, running, seconds_from_now

NOBODY = ActiveRunCounts(pending=0, ready=0, delayed=0, running=0, waiting=0, longest_wait_seconds=0.0)


async def test_all_counts_are_zero_without_runs(store: Store) -> None:
    assert await store.run_counts.active() == NOBODY


async def test_each_active_run_is_counted_by_its_status(store: Store, clock: HeldClock) -> None:
    waits = await running(store)
    await run_after(store, waits.run)
    await commit(store, waits, move=WAITING)
    await running(store)
    await queued(store, wait_until=seconds_from_now(clock, 60))
    await queued(store)
    await queued(store)
    assert await store.run_counts.active() == ActiveRunCounts(
        pending=1, ready=2, delayed=1, running=1, waiting=1, longest_wait_seconds=0.0
    )


async def test_runs_that_have_ended_are_not_counted(store: Store) -> None:
    await commit(store, await running(store), move=COMPLETED)
    cancelled = await queued(store)
    await store.runs.end(SPACE, cancelled.id, to=RunStatus.CANCELLED)
    assert await store.run_counts.active() == NOBODY


async def test_runs_of_all_spaces_are_counted_together(store: Store) -> None:
    await queued(store)
    await store.runs.create(OTHER, NewRun(thread=NewThread()))
    assert (await store.run_counts.active()).ready == 2


async def test_the_queued_runs_of_a_space_are_counted_separately(store: Store, clock: HeldClock) -> None:
    assert await store.run_counts.queued(SPACE) == 0
    busy = await running(store)
    await run_after(store, busy.run)
    await queued(store, wait_until=seconds_from_now(clock, 60))
    await queued(store)
    await store.runs.create(OTHER, NewRun(thread=NewThread()))
    assert (await store.run_counts.queued(SPACE), await store.run_counts.queued(OTHER)) == (3, 1)


async def test_the_longest_wait_is_that_of_the_oldest_ready_run(store: Store, clock: HeldClock) -> None:
    await queued(store, wait_until=seconds_from_now(clock, 3600))
    clock.tick(MINUTE)
    await queued(store)
    clock.tick(timedelta(seconds=5))
    await queued(store)
    assert (await store.run_counts.active()).longest_wait_seconds == 5.0
    await store.leases.claim(FIRST, lease=MINUTE, limit=2)
    assert (await store.run_counts.active()).longest_wait_seconds == 0.0


async def test_a_delayed_run_is_ready_when_it_is_due(store: Store, clock: HeldClock) -> None:
    await queued(store, wait_until=seconds_from_now(clock, 60))
    clock.tick(MINUTE)
    live = await store.run_counts.active()
    assert (live.ready, live.delayed) == (1, 0)
