"""`Leases`: claim, renew and release runs."""

import asyncio
from datetime import timedelta

import pytest

from holdfast.domain.errors import Invalid, LeaseLost
from holdfast.domain.ids import OwnerId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.run import PRIORITY_HEAD_START_MS, Move, Priority, RunStatus
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, claim
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import (
    WAITING,
    commit,
    get,
    messages_of,
    queued,
    run_after,
    running,
    seconds_from_now,
    status,
)

SECOND_LONG = timedelta(seconds=1)
MILLISECOND = timedelta(milliseconds=1)
HEAD_START_OF_HIGH = timedelta(
    milliseconds=PRIORITY_HEAD_START_MS[Priority.HIGH] - PRIORITY_HEAD_START_MS[Priority.LOW]
)


async def test_a_claim_leases_up_to_its_limit(store: Store) -> None:
    made = [(await queued(store)).id for _ in range(5)]
    first = await store.leases.claim(FIRST, lease=MINUTE, limit=3)
    rest = await store.leases.claim(SECOND, lease=MINUTE, limit=3)
    assert [lease.run_id for lease in first] == made[:3]
    assert [lease.run_id for lease in rest] == made[3:]
    assert await store.leases.claim(FIRST, lease=MINUTE) == []


async def test_a_lease_shows_its_run_as_it_was_claimed(store: Store, clock: HeldClock) -> None:
    run = await queued(store, "begin")
    clock.tick(SECOND_LONG)
    lease = await claim(store)
    assert (lease.run_id, lease.space_id, lease.thread_id, lease.owner) == (run.id, SPACE, run.thread_id, FIRST)
    assert lease.expires_at == seconds_from_now(clock, 60)
    assert lease.run == await get(store, run.id)
    assert (lease.run.status, lease.run.attempt, lease.run.started_at) == (
        RunStatus.RUNNING,
        1,
        seconds_from_now(clock, 0),
    )
    assert lease.run.session_id is not None


async def test_a_claim_takes_the_most_urgent_first(store: Store) -> None:
    low = await queued(store, priority=Priority.LOW)
    normal = await queued(store, priority=Priority.NORMAL)
    high = await queued(store, priority=Priority.HIGH)
    claimed = await store.leases.claim(FIRST, lease=MINUTE, limit=3)
    assert [lease.run_id for lease in claimed] == [high.id, normal.id, low.id]


async def test_of_equal_priority_a_claim_takes_oldest_first(store: Store, clock: HeldClock) -> None:
    made = []
    for _ in range(3):
        made.append((await queued(store)).id)
        clock.tick(SECOND_LONG)
    claimed = [(await store.leases.claim(FIRST, lease=MINUTE))[0].run_id for _ in made]
    assert claimed == made


async def test_low_priority_waits_longer_but_not_forever(store: Store, clock: HeldClock) -> None:
    low = await queued(store, priority=Priority.LOW)
    clock.tick(HEAD_START_OF_HIGH - MILLISECOND)
    just_before = await queued(store, priority=Priority.HIGH)
    clock.tick(2 * MILLISECOND)
    too_late = [(await queued(store, priority=Priority.HIGH)).id for _ in range(5)]
    claimed = await store.leases.claim(FIRST, lease=MINUTE, limit=10)
    assert [lease.run_id for lease in claimed] == [just_before.id, low.id, *too_late]


async def test_a_run_is_not_claimed_before_its_wait_until(store: Store, clock: HeldClock) -> None:
    due = seconds_from_now(clock, 60)
    run = await queued(store, wait_until=due)
    clock.tick(MINUTE - MILLISECOND)
    assert await store.leases.claim(FIRST, lease=MINUTE) == []
    assert (await get(store, run.id)).wait_until == due
    clock.tick(MILLISECOND)
    assert (await claim(store)).run_id == run.id
    assert (await get(store, run.id)).wait_until is None


async def test_a_delayed_run_gets_its_queue_position_when_it_is_due(store: Store, clock: HeldClock) -> None:
    delayed = await queued(store, wait_until=seconds_from_now(clock, 3600))
    clock.tick(30 * MINUTE)
    prompt = await queued(store)
    clock.tick(30 * MINUTE)
    claimed = await store.leases.claim(FIRST, lease=MINUTE, limit=2)
    assert [lease.run_id for lease in claimed] == [prompt.id, delayed.id]


async def test_a_delay_that_passed_while_the_base_was_active_does_not_postpone_the_run(
    store: Store, clock: HeldClock
) -> None:
    lease = await running(store)
    delayed = await run_after(store, lease.run, wait_until=seconds_from_now(clock, 60))
    clock.tick(2 * MINUTE)
    await commit(store, lease, move=Move(to=RunStatus.COMPLETED))
    clock.tick(SECOND_LONG)
    later = await queued(store)
    claimed = await store.leases.claim(FIRST, lease=MINUTE, limit=2)
    assert [lease.run_id for lease in claimed] == [delayed.id, later.id]


async def test_pending_and_waiting_runs_are_not_claimed(store: Store) -> None:
    lease = await running(store)
    pending = await run_after(store, lease.run)
    await commit(store, lease, move=WAITING)
    assert await status(store, pending.id) is RunStatus.PENDING
    assert await status(store, lease.run_id) is RunStatus.WAITING
    assert await store.leases.claim(FIRST, lease=MINUTE) == []


async def test_each_lease_has_a_greater_number_than_every_earlier_one(store: Store, clock: HeldClock) -> None:
    run = await queued(store)
    numbers = []
    for _ in range(3):
        released = await claim(store)
        await store.leases.release(released)
        moved = await claim(store, SECOND)
        await commit(store, moved, move=WAITING)
        await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data="go on")
        expired = await claim(store)
        (item,) = await store.journal.inbox(expired)
        await commit(store, expired, consumed=[item.number])
        clock.tick(2 * MINUTE)
        assert await store.leases.expire() == [run.id]
        clock.tick(2 * MINUTE)
        numbers += [released.number, moved.number, expired.number]
    assert numbers == sorted(set(numbers))


async def test_two_concurrent_claims_never_receive_the_same_run(stores: list[Store]) -> None:
    made = [(await queued(stores[0])).id for _ in range(100)]

    async def work(number: int) -> list[str]:
        store = stores[number % len(stores)]
        got: list[str] = []
        while leases := await store.leases.claim(OwnerId(f"owner-{number}"), lease=MINUTE, limit=3):
            assert len(leases) <= 3
            got += [lease.run_id for lease in leases]
        return got

    claimed = await asyncio.gather(*(work(number) for number in range(8)))
    assert sorted(run for got in claimed for run in got) == sorted(made)


async def test_a_lease_lasts_at_least_a_millisecond(store: Store) -> None:
    with pytest.raises(Invalid):
        await store.leases.claim(FIRST, lease=timedelta())


async def test_renewing_extends_a_lease_from_now_on(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    clock.tick(MINUTE / 2)
    (renewed,) = await store.leases.renew(FIRST, [lease], lease=MINUTE)
    assert renewed.expires_at == seconds_from_now(clock, 60)
    clock.tick(MINUTE - MILLISECOND)
    assert await store.leases.expire() == []
    clock.tick(MILLISECOND)
    assert await store.leases.expire() == [lease.run_id]


async def test_renewing_returns_only_the_leases_that_are_still_held(store: Store, clock: HeldClock) -> None:
    for _ in range(5):
        await queued(store)
    ended, released, moved, held, expired = await store.leases.claim(FIRST, lease=MINUTE, limit=5)
    await store.runs.end(SPACE, ended.run_id)
    await store.leases.release(released, delay=MINUTE)
    await commit(store, moved, move=WAITING)
    await store.leases.renew(FIRST, [held], lease=10 * MINUTE)
    clock.tick(2 * MINUTE)
    assert set(await store.leases.expire()) == {ended.run_id, expired.run_id}
    everything = [ended, released, moved, held, expired]
    assert [lease.run_id for lease in await store.leases.renew(FIRST, everything, lease=MINUTE)] == [held.run_id]
    assert await store.leases.renew(SECOND, [held], lease=MINUTE) == []
    assert await store.leases.renew(FIRST, [], lease=MINUTE) == []


async def test_an_expired_lease_may_be_renewed_until_the_run_is_requeued(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    clock.tick(2 * MINUTE)
    assert len(await store.leases.renew(FIRST, [lease], lease=MINUTE)) == 1
    assert await store.leases.expire() == []


async def test_releasing_returns_a_run_to_the_queue(store: Store) -> None:
    lease = await running(store, "begin")
    await store.leases.release(lease)
    run = await get(store, lease.run_id)
    assert (run.status, run.wait_until) == (RunStatus.QUEUED, None)
    assert (await claim(store, SECOND)).run_id == lease.run_id


async def test_a_released_run_is_claimed_after_its_delay(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    await store.leases.release(lease, delay=MINUTE)
    clock.tick(MINUTE - MILLISECOND)
    assert await store.leases.claim(FIRST, lease=MINUTE) == []
    clock.tick(MILLISECOND)
    assert (await claim(store)).run_id == lease.run_id


async def test_releasing_does_not_count_as_an_attempt(store: Store, clock: HeldClock) -> None:
    run = await queued(store)
    for _ in range(10):
        await store.leases.release(await claim(store))
    assert (await get(store, run.id)).attempt == 0
    await claim(store)
    clock.tick(MINUTE)
    await store.leases.expire()
    clock.tick(MINUTE)
    await store.leases.release(await claim(store))
    assert (await get(store, run.id)).attempt == 1


async def test_releasing_an_ended_run_queues_its_dependants(store: Store) -> None:
    lease = await running(store, "begin")
    dependant = await run_after(store, lease.run, "and then")
    await store.runs.end(SPACE, lease.run_id)
    assert await status(store, dependant.id) is RunStatus.PENDING
    assert await store.leases.claim(SECOND, lease=MINUTE) == []
    await store.leases.release(lease)
    assert await status(store, lease.run_id) is RunStatus.CANCELLED
    assert [sequence for sequence, _, _ in await messages_of(store, dependant.id)] == [1]
    assert (await claim(store, SECOND)).run_id == dependant.id


async def test_a_lost_lease_cannot_be_released(store: Store, clock: HeldClock) -> None:
    lost = await running(store)
    clock.tick(MINUTE)
    await store.leases.expire()
    with pytest.raises(LeaseLost):
        await store.leases.release(lost)
    clock.tick(MINUTE)
    held = await claim(store, SECOND)
    with pytest.raises(LeaseLost):
        await store.leases.release(lost)
    assert await status(store, held.run_id) is RunStatus.RUNNING
    await store.leases.release(held)
    with pytest.raises(LeaseLost):
        await store.leases.release(held)


async def test_an_ended_run_is_released_only_by_the_lease_it_was_ended_under(store: Store, clock: HeldClock) -> None:
    lost = await running(store, "begin")
    dependant = await run_after(store, lost.run)
    clock.tick(MINUTE)
    await store.leases.expire()
    clock.tick(MINUTE)
    held = await claim(store)
    await store.runs.end(SPACE, held.run_id)
    with pytest.raises(LeaseLost):
        await store.leases.release(lost)
    assert await status(store, dependant.id) is RunStatus.PENDING
    await store.leases.release(held)
    assert await status(store, dependant.id) is RunStatus.QUEUED
    with pytest.raises(LeaseLost):
        await store.leases.release(held)


async def test_queue_state_returns_whether_a_run_is_claimable_and_when_the_next_is(
    store: Store, clock: HeldClock
) -> None:
    state = await store.leases.queue_state()
    assert (state.ready, state.next_at) == (False, None)
    later, soon = seconds_from_now(clock, 120), seconds_from_now(clock, 60)
    await queued(store, wait_until=later)
    await queued(store, wait_until=soon)
    state = await store.leases.queue_state()
    assert (state.ready, state.next_at) == (False, soon)
    clock.tick(MINUTE)
    state = await store.leases.queue_state()
    assert (state.ready, state.next_at) == (True, later)
    await claim(store)
    state = await store.leases.queue_state()
    assert (state.ready, state.next_at) == (False, later)
    await queued(store)
    assert (await store.leases.queue_state()).ready
