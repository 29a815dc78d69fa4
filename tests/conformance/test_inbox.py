"""`Inbox`: items from outside a run."""

import asyncio
from pathlib import Path

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, IdTaken, InboxNotEmpty, LeaseLost, NotFound
from holdfast.domain.ids import RunId, TimerId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.run import RunStatus
from holdfast.domain.timer import NewTimer, TimerState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, claim, user
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import (
    COMPLETED,
    FAILED,
    WAITING,
    commit,
    get,
    queued,
    run_after,
    running,
    seconds_from_now,
    status,
    waiting_run,
)
from tests.conformance.tables import rows_of


async def put(store: Store, run: RunId, data: Json = "psst", kind: InboxKind = InboxKind.MESSAGE) -> int:
    return await store.inbox.put(SPACE, run, kind=kind, data=data)


async def test_items_are_numbered_in_their_run(store: Store) -> None:
    first, second = await running(store), await running(store)
    assert [await put(store, first.run_id) for _ in range(3)] == [1, 2, 3]
    assert await put(store, second.run_id) == 1
    await commit(store, first, consumed=[3])
    assert await put(store, first.run_id) == 4


async def test_an_item_is_read_back_unchanged(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.EDIT, data={"a": [1, None, "ü"]}, by="ann")
    (item,) = await store.journal.inbox(lease)
    assert (item.kind, item.data, item.created_by) == (InboxKind.EDIT, {"a": [1, None, "ü"]}, "ann")
    assert item.created_at == seconds_from_now(clock, 0)


async def test_of_several_messages_with_one_id_the_first_is_accepted(stores: list[Store]) -> None:
    store = stores[0]
    lease = await running(store, "begin")
    (begun,) = await store.messages.of_run(SPACE, lease.run_id)
    data = {"role": "user", "content": "left", "id": "mine"}
    racing = [put(each, lease.run_id, data) for each in stores for _ in range(3)]
    outcomes = await asyncio.gather(*racing, return_exceptions=True)
    assert [each for each in outcomes if not isinstance(each, IdTaken)] == [1]
    with pytest.raises(IdTaken):
        await put(store, lease.run_id, {**data, "id": begun.id})
    await commit(store, lease, consumed=[1], messages=[user("left", id="mine")])
    with pytest.raises(IdTaken):
        await put(store, lease.run_id, data)
    other = await queued(store, "elsewhere")
    assert await put(store, other.id, data) == 1


async def test_a_waiting_run_is_queued(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    await commit(store, lease, move=WAITING)
    clock.tick(MINUTE)
    await put(store, lease.run_id)
    run = await get(store, lease.run_id)
    assert (run.status, run.status_reason, run.queued_at) == (RunStatus.QUEUED, None, seconds_from_now(clock, 0))
    assert [item.data for item in await store.journal.inbox(await claim(store))] == ["psst"]


async def test_a_woken_run_is_placed_at_the_end_of_the_queue(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    await commit(store, lease, move=WAITING)
    clock.tick(MINUTE)
    other = await queued(store)
    clock.tick(MINUTE)
    await put(store, lease.run_id)
    claimed = await store.leases.claim(FIRST, lease=MINUTE, limit=2)
    assert [lease.run_id for lease in claimed] == [other.id, lease.run_id]


async def test_a_run_that_does_not_wait_keeps_its_status(store: Store, clock: HeldClock) -> None:
    held = await running(store)
    delayed = await queued(store, wait_until=seconds_from_now(clock, 60))
    pending = await run_after(store, held.run)
    for run in (held.run, delayed, pending):
        before = await get(store, run.id)
        await put(store, run.id)
        assert await get(store, run.id) == before
    assert await store.leases.claim(FIRST, lease=MINUTE) == []


async def test_items_added_before_a_run_starts_are_read_when_it_starts(store: Store) -> None:
    held = await running(store)
    pending = await run_after(store, held.run)
    await put(store, pending.id, "early")
    await commit(store, held, move=COMPLETED)
    lease = await claim(store)
    assert lease.run_id == pending.id
    assert [item.data for item in await store.journal.inbox(lease)] == ["early"]
    with pytest.raises(InboxNotEmpty):
        await commit(store, lease, move=COMPLETED)


async def test_a_run_that_has_ended_is_refused(store: Store, where: str | Path) -> None:
    completed, failed, cancelled = [await running(store) for _ in range(3)]
    await commit(store, completed, move=COMPLETED)
    await commit(store, failed, move=FAILED)
    await store.runs.end(SPACE, cancelled.run_id)
    before = await rows_of(where)
    for lease in (completed, failed, cancelled):
        with pytest.raises(Conflict):
            await put(store, lease.run_id)
    with pytest.raises(NotFound):
        await put(store, RunId("nobody"))
    assert await rows_of(where) == before


async def test_concurrent_items_all_get_their_own_number(store: Store) -> None:
    lease = await running(store)
    await commit(store, lease, move=WAITING)
    numbers = await asyncio.gather(*(put(store, lease.run_id, str(index)) for index in range(30)))
    assert sorted(numbers) == list(range(1, 31))
    items = await store.journal.inbox(await claim(store))
    assert [item.number for item in items] == list(range(1, 31))
    assert {item.data: item.number for item in items} == {str(index): number for index, number in enumerate(numbers)}


async def test_no_run_stays_waiting_with_an_unread_inbox_however_puts_and_waits_race(stores: list[Store]) -> None:
    first, last = stores[0], stores[-1]
    for _ in range(20):
        lease = await running(first)
        number, waited = await asyncio.gather(
            put(last, lease.run_id), commit(first, lease, move=WAITING), return_exceptions=True
        )
        assert number == 1
        if isinstance(waited, InboxNotEmpty):
            assert await status(first, lease.run_id) is RunStatus.RUNNING
        else:
            assert await status(first, lease.run_id) is RunStatus.QUEUED
        await first.runs.end(SPACE, lease.run_id)


async def test_a_timer_that_an_item_fires_is_settled_with_it(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    nap = TimerId("nap")
    await commit(store, lease, timers=[NewTimer(kind="nap", due_at=seconds_from_now(clock, 1), id=nap)], move=WAITING)
    clock.tick(MINUTE)
    (due,) = await store.timers.claim_due(FIRST, lease=MINUTE)
    await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.TIMER, data={"timer_id": nap}, fires=due)
    assert (await store.timers.get(SPACE, nap)).state is TimerState.FIRED
    assert await status(store, lease.run_id) is RunStatus.QUEUED


async def test_a_timer_settled_by_another_process_adds_no_item(
    store: Store, where: str | Path, clock: HeldClock
) -> None:
    run = await waiting_run(store)
    await store.timers.set(SPACE, NewTimer(kind="nap", due_at=seconds_from_now(clock, 1)), run=run.id)
    clock.tick(MINUTE)
    (lost,) = await store.timers.claim_due(FIRST, lease=MINUTE)
    clock.tick(MINUTE)
    await store.timers.claim_due(FIRST, lease=MINUTE)
    before = await rows_of(where)
    with pytest.raises(LeaseLost):
        await store.inbox.put(SPACE, run.id, kind=InboxKind.TIMER, data=None, fires=lost)
    assert await rows_of(where) == before


async def test_a_refused_item_leaves_its_timer_to_fire_again(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    timer = await store.timers.set(SPACE, NewTimer(kind="nap", due_at=seconds_from_now(clock, 1)))
    await commit(store, lease, move=COMPLETED)
    clock.tick(MINUTE)
    (due,) = await store.timers.claim_due(FIRST, lease=MINUTE)
    with pytest.raises(Conflict):
        await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.TIMER, data=None, fires=due)
    assert (await store.timers.get(SPACE, timer.id)).state is TimerState.SCHEDULED
