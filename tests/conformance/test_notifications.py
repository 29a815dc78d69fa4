"""Notifications: written with the run, numbered per space without gaps."""

import asyncio
from pathlib import Path

import pytest

from holdfast.domain.errors import Invalid, LeaseLost, NotFound
from holdfast.domain.ids import OwnerId, RunId, SpaceId
from holdfast.domain.instant import instant
from holdfast.domain.notification import Notification, NotificationKind
from holdfast.domain.run import Move, RunStatus, WaitsFor
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE, finish, finished_run, new_run, new_thread
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.run_builders import (
    COMPLETED,
    FAILED,
    QUEUED,
    WAITING_FOR_PERSON,
    child_of,
    commit,
    queued,
    running,
    seconds_from_now,
)
from tests.conformance.tables import Rows, rows_of

WRITERS, RUNS = 4, 8


async def outbox(where: str | Path) -> Rows:
    return (await rows_of(where))["outbox"]


async def news(store: Store, count: int, space: SpaceId = SPACE) -> list[Notification]:
    """Create and complete that many runs, and return their notifications."""
    thread = await new_thread(store, space)
    for number in range(count):
        await finished_run(store, space, thread, str(number))
    await store.notifications.dispatch()
    return await store.notifications.after(space)


async def test_every_end_of_a_run_creates_a_notification(store: Store, clock: HeldClock) -> None:
    completed, failed, cancelled = [await queued(store, name) for name in "abc"]
    leases = {lease.run_id: lease for lease in await store.leases.claim(OwnerId("w"), lease=MINUTE, limit=10)}
    await commit(store, leases[completed.id], move=COMPLETED)
    await commit(store, leases[failed.id], move=FAILED)
    await store.runs.end(SPACE, cancelled.id, reason="enough")
    assert await store.notifications.dispatch() == [SPACE]
    found = await store.notifications.after(SPACE)
    assert [(one.number, one.kind, one.run_id, one.thread_id) for one in found] == [
        (1, NotificationKind.RUN_COMPLETED, completed.id, completed.thread_id),
        (2, NotificationKind.RUN_FAILED, failed.id, failed.thread_id),
        (3, NotificationKind.RUN_CANCELLED, cancelled.id, cancelled.thread_id),
    ]
    assert found[2].data == {"status": "cancelled", "reason": "enough"}
    assert {(one.created_at, one.read_at) for one in found} == {(instant(clock.now()), None)}


async def test_a_wait_for_a_person_creates_a_notification(store: Store) -> None:
    lease = await running(store, "a")
    await commit(store, lease, move=WAITING_FOR_PERSON)
    await store.notifications.dispatch()
    (found,) = await store.notifications.after(SPACE)
    assert (found.kind, found.run_id) == (NotificationKind.RUN_WAITING, lease.run_id)


async def test_other_waits_and_a_requeue_create_no_notification(
    store: Store, where: str | Path, clock: HeldClock
) -> None:
    for move in (
        Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD),
        Move(to=RunStatus.WAITING, reason=WaitsFor.TIMER),
        Move(to=RunStatus.WAITING),
    ):
        lease = await running(store, "a")
        if move.reason == WaitsFor.CHILD:
            await child_of(store, lease.run_id, wait_until=seconds_from_now(clock, 3600))
        await commit(store, lease, move=move)
    await commit(store, await running(store, "a"), move=QUEUED)
    assert await outbox(where) == []


async def test_notifications_are_written_in_the_commit_of_their_move(store: Store, where: str | Path) -> None:
    lease = await running(store, "a")
    await finish(store, lease)
    (row,) = await outbox(where)
    assert (row["run_id"], row["kind"]) == (lease.run_id, "run.completed")
    assert await store.notifications.after(SPACE) == []
    await store.notifications.dispatch()
    assert await outbox(where) == []


async def test_a_failed_commit_leaves_no_notification(store: Store, where: str | Path, clock: HeldClock) -> None:
    lease = await running(store, "a")
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    with pytest.raises(LeaseLost):
        await finish(store, lease)
    assert await outbox(where) == []


async def test_notifications_are_numbered_per_space(store: Store) -> None:
    ours, theirs = await new_thread(store, SPACE), await new_thread(store, OTHER)
    for space, thread in [(SPACE, ours), (OTHER, theirs), (SPACE, ours), (OTHER, theirs), (SPACE, ours)]:
        await finished_run(store, space, thread, "x")
    assert await store.notifications.dispatch() == sorted([SPACE, OTHER])
    assert [one.number for one in await store.notifications.after(SPACE)] == [1, 2, 3]
    assert [one.number for one in await store.notifications.after(OTHER)] == [1, 2]


async def test_a_dispatch_of_an_empty_outbox_returns_no_space(store: Store) -> None:
    assert await store.notifications.dispatch() == []
    await news(store, 1)
    assert await store.notifications.dispatch() == []


async def test_a_dispatch_numbers_up_to_its_limit_and_the_next_one_continues(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    runs = [(await finished_run(store, SPACE, thread, str(number))).id for number in range(5)]
    for seen in (2, 4, 5):
        assert await store.notifications.dispatch(limit=2) == [SPACE]
        assert [one.run_id for one in await store.notifications.after(SPACE)] == runs[:seen]


async def test_notifications_above_a_number_come_in_order(store: Store) -> None:
    found = await news(store, 5)
    assert [one.number for one in found] == [1, 2, 3, 4, 5]
    assert await store.notifications.after(SPACE, 3) == found[3:]
    assert await store.notifications.after(SPACE, 1, limit=2) == found[1:3]
    assert await store.notifications.after(SPACE, 5) == []


async def test_the_latest_notifications_come_first_and_can_be_paged(store: Store) -> None:
    found = await news(store, 5)
    assert await store.notifications.latest(SPACE) == found[::-1]
    assert await store.notifications.latest(SPACE, limit=2) == [found[4], found[3]]
    assert await store.notifications.latest(SPACE, limit=2, before=4) == [found[2], found[1]]
    assert await store.notifications.latest(SPACE, before=1) == []


async def test_one_notification_is_marked_as_read(store: Store, clock: HeldClock) -> None:
    await news(store, 3)
    assert await store.notifications.unread(SPACE) == 3
    clock.tick(MINUTE)
    assert await store.notifications.mark_read(SPACE, number=2) == 1
    assert await store.notifications.unread(SPACE) == 2
    assert [one.read_at for one in await store.notifications.after(SPACE)] == [None, instant(clock.now()), None]


async def test_all_up_to_a_number_are_marked_and_those_already_read_stay_unchanged(
    store: Store, clock: HeldClock
) -> None:
    await news(store, 4)
    first = instant(clock.now())
    await store.notifications.mark_read(SPACE, number=2)
    clock.tick(MINUTE)
    later = instant(clock.now())
    assert await store.notifications.mark_read(SPACE, through=3) == 2
    assert [one.read_at for one in await store.notifications.after(SPACE)] == [later, first, later, None]
    assert await store.notifications.mark_read(SPACE, through=3) == 0
    assert await store.notifications.mark_read(SPACE, number=2) == 0
    assert await store.notifications.mark_read(SPACE, through=1000) == 1
    assert await store.notifications.unread(SPACE) == 0


async def test_notifications_are_marked_as_read_per_space(store: Store) -> None:
    await news(store, 2)
    await news(store, 2, OTHER)
    assert await store.notifications.mark_read(SPACE, through=2) == 2
    assert await store.notifications.unread(OTHER) == 2


async def test_marking_a_missing_notification_is_refused(store: Store) -> None:
    await news(store, 1)
    with pytest.raises(NotFound, match="there is no notification 2"):
        await store.notifications.mark_read(SPACE, number=2)
    with pytest.raises(Invalid, match="either `number` or `through`"):
        await store.notifications.mark_read(SPACE)
    with pytest.raises(Invalid, match="either `number` or `through`"):
        await store.notifications.mark_read(SPACE, through=1, number=1)
    assert await store.notifications.unread(SPACE) == 1


async def test_an_invalid_notification_page_is_refused(store: Store) -> None:
    for limit in (0, -1, 1001):
        with pytest.raises(Invalid):
            await store.notifications.after(SPACE, limit=limit)
        with pytest.raises(Invalid):
            await store.notifications.latest(SPACE, limit=limit)
        with pytest.raises(Invalid):
            await store.notifications.dispatch(limit=limit)


async def test_a_missing_space_has_no_notifications(store: Store) -> None:
    missing = SpaceId("missing")
    for call in (
        store.notifications.after(missing),
        store.notifications.latest(missing),
        store.notifications.unread(missing),
        store.notifications.mark_read(missing, through=1),
    ):
        with pytest.raises(NotFound, match="there is no space `missing`"):
            await call


async def test_a_reader_sees_each_notification_once_in_order_while_many_write_and_dispatch(stores: list[Store]) -> None:
    """However many processes write and number, a reader that has seen N never finds a new one below it."""
    views: list[list[Notification]] = [[] for _ in stores]
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for store, seen in zip(stores, views, strict=True):
            for work in (_dispatch(store, views), _dispatch(store, views), _read(store, seen)):
                tasks.create_task(work)
        made = await asyncio.gather(*(_write(stores[number % len(stores)], number) for number in range(WRITERS)))
        while await _finish_some(stores[0], OwnerId("last")):
            pass
    for seen in views:
        assert [one.number for one in seen] == list(range(1, WRITERS * RUNS + 1))
        assert {one.run_id for one in seen} == {run for runs in made for run in runs}
    assert await stores[0].notifications.after(SPACE, limit=1000) == views[0]


async def _write(store: Store, number: int) -> list[RunId]:
    runs = []
    for _ in range(RUNS):
        runs.append((await new_run(store, SPACE, await new_thread(store, SPACE), "x")).id)
        await _finish_some(store, OwnerId(f"writer-{number}"))
    return runs


async def _finish_some(store: Store, owner: OwnerId) -> bool:
    leases = await store.leases.claim(owner, lease=MINUTE, limit=2)
    for lease in leases:
        await finish(store, lease)
    return bool(leases)


async def _dispatch(store: Store, views: list[list[Notification]]) -> None:
    while any(len(seen) < WRITERS * RUNS for seen in views):
        await store.notifications.dispatch(limit=3)


async def _read(store: Store, seen: list[Notification]) -> None:
    while len(seen) < WRITERS * RUNS:
        seen += await store.notifications.after(SPACE, seen[-1].number if seen else 0, limit=5)


async def test_the_notification_of_a_child_names_the_root_run(store: Store) -> None:
    root = await running(store, "a")
    child = await child_of(store, root.run_id)
    await store.runs.end(SPACE, root.run_id)
    await store.notifications.dispatch()
    found = await store.notifications.after(SPACE)
    assert {(one.run_id, one.root_run_id) for one in found} == {(root.run_id, root.run_id), (child.id, root.run_id)}
    assert list(reversed(await store.notifications.latest(SPACE))) == found
