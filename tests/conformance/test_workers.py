"""Workers and the queue, as people see them."""

from datetime import timedelta

import pytest

from holdfast.domain.errors import Invalid
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import instant
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Priority, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.domain.worker import BEAT_SECONDS, NewWorker, QueueCounts, SpaceBacklogs, SpaceQueue
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, claim
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.run_builders import commit, model_step, queued, run_after, seconds_from_now, waiting_run

THIRD = SpaceId("third")
ME = NewWorker(id=FIRST, host="box", pid=7, version="1.2.3", concurrency=4)


async def test_a_worker_shows_what_it_holds_of_a_space_and_counts_the_rest(store: Store, clock: HeldClock) -> None:
    started = instant(clock.now())
    await store.workers.beat(ME)
    run = await queued(store, "x", agent_type="bot")
    lease = await claim(store)
    since = instant(clock.now())
    await commit(store, lease, steps=[model_step(1)])
    await store.runs.create(OTHER, NewRun(thread=NewThread()))
    await claim(store)
    (here,) = await store.workers.of_space(SPACE)
    assert (here.id, here.version, here.started_at, here.alive, here.other_runs) == (FIRST, "1.2.3", started, True, 1)
    (held,) = here.runs
    assert (held.run_id, held.agent_type, held.since, held.step) == (run.id, "bot", since, "model")
    (there,) = await store.workers.of_space(OTHER)
    assert (len(there.runs), there.other_runs) == (1, 1)


async def test_a_worker_that_misses_two_beats_is_dead_and_one_that_leaves_is_gone(
    store: Store, clock: HeldClock
) -> None:
    await store.workers.beat(ME)
    for beats, alive in ((2, True), (1, False)):
        clock.tick(timedelta(seconds=beats * BEAT_SECONDS))
        assert [worker.alive for worker in await store.workers.of_space(SPACE)] == [alive]
    await store.workers.beat(ME)
    (worker,) = await store.workers.of_space(SPACE)
    assert (worker.alive, worker.started_at < worker.last_beat_at) == (True, True)
    clock.tick(timedelta(days=2))
    await store.workers.leave(SECOND)
    assert await store.workers.of_space(SPACE) == []


async def test_an_expired_lease_is_counted_for_the_worker_that_lost_it(store: Store, clock: HeldClock) -> None:
    await store.workers.beat(ME)
    await queued(store, "x")
    await claim(store)
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    (worker,) = await store.workers.of_space(SPACE)
    assert (worker.lost_leases, worker.runs) == (1, [])


async def test_the_queue_is_listed_in_the_order_of_its_claim(store: Store, clock: HeldClock) -> None:
    await waiting_run(store)
    low = await queued(store, "l", priority=Priority.LOW)
    clock.tick(timedelta(seconds=5))
    normal = await queued(store, "n")
    delayed = await queued(store, "d", wait_until=seconds_from_now(clock, 60))
    pending = await run_after(store, low, "p")
    await store.runs.create(OTHER, NewRun(thread=NewThread()))
    queue = await store.workers.queue(SPACE)
    assert queue.counts == QueueCounts(ready=2, delayed=1, pending=1, running=0, waiting=1)
    assert (queue.by_priority["low"], queue.by_priority["normal"], queue.oldest_ready_seconds) == (1, 1, 5.0)
    assert [(item.run_id, item.status) for item in queue.items[2:]] == [
        (delayed.id, RunStatus.QUEUED),
        (pending.id, RunStatus.PENDING),
    ]
    pages, cursor = list[RunId](), None
    for _ in range(2):
        page = await store.workers.queue(SPACE, limit=2, cursor=cursor)
        pages += [item.run_id for item in page.items]
        cursor = page.next_cursor
    assert (pages, cursor) == ([item.run_id for item in queue.items], None)
    claimed = [each.run_id for each in await store.leases.claim(FIRST, lease=MINUTE, limit=9) if each.space_id == SPACE]
    assert claimed == pages[:2] and set(claimed) == {low.id, normal.id}
    for bad in ("x", "1.2", "1.2.3.4"):
        with pytest.raises(Invalid):
            await store.workers.queue(SPACE, cursor=bad)


async def test_backlogs_show_the_spaces_by_age_with_priorities_and_settings(store: Store, clock: HeldClock) -> None:
    await waiting_run(store)
    assert await store.workers.backlogs() == SpaceBacklogs(items=[], total=0)
    await store.spaces.create(THIRD, name="Third")
    await store.runs.create(THIRD, NewRun(thread=NewThread()))
    await claim(store)
    await store.runs.create(OTHER, NewRun(thread=NewThread(), priority=Priority.HIGH))
    clock.tick(timedelta(seconds=5))
    await queued(store, "l", priority=Priority.LOW)
    await queued(store, "d", wait_until=seconds_from_now(clock, 60))
    clock.tick(timedelta(seconds=2))
    await store.workers.put_space_queue(SPACE, SpaceQueue(weight=3, max_running=7))
    found = await store.workers.backlogs()
    assert [(each.space_id, each.oldest_ready_seconds) for each in found.items] == [
        (OTHER, 7.0),
        (SPACE, 2.0),
        (THIRD, 0.0),
    ]
    other, space, third = found.items
    assert (other.by_priority, other.weight, other.max_running) == ({"high": 1, "normal": 0, "low": 0}, 1, None)
    assert (space.by_priority, space.weight, space.max_running) == ({"high": 0, "normal": 0, "low": 1}, 3, 7)
    assert [(each.ready, each.delayed, each.running) for each in found.items] == [(1, 0, 0), (1, 1, 0), (0, 0, 1)]
    first = await store.workers.backlogs(limit=1)
    assert (first.items, first.total) == ([other], 3)
    with pytest.raises(Invalid):
        await store.workers.backlogs(limit=0)
