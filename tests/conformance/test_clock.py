"""A clock that goes back: durations keep their length, instants their time, and nothing is lost."""

from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.bootstrap import open_bus
from holdfast.bootstrap.store import SystemClock
from holdfast.domain.inbox import InboxKind
from holdfast.domain.instant import instant, millis
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.domain.limits import Limits
from holdfast.domain.run import Move, RunStatus
from holdfast.domain.space import Ticket
from holdfast.domain.timer import NewTimer
from holdfast.store.postgres.database import open_database
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, text_events, user
from tests.conformance.conftest import SPACE, opened
from tests.conformance.run_builders import (
    COMPLETED,
    WAITING,
    WAITING_FOR_PERSON,
    commit,
    messages_of,
    queued,
    running,
    seconds_from_now,
    stream,
)
from tests.support.postgres import PostgresServer

A_SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
TEN_SECONDS = timedelta(seconds=10)


async def step_back(store: Store, clock: HeldClock) -> timedelta:
    """Note the clock, set it back by an hour, and let the store follow."""
    await store.timers.follow_clock()
    clock.step_back(HOUR)
    return await store.timers.follow_clock()


async def fired(store: Store) -> list[str]:
    """Return the kinds of the timers that are due."""
    return [claim.timer.kind for claim in await store.timers.claim_due(FIRST, lease=MINUTE)]


async def test_a_sleep_keeps_its_length(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    await commit(store, lease, move=WAITING, timers=[NewTimer(kind="wake", due_at=seconds_from_now(clock, 10))])
    clock.tick(A_SECOND)
    assert await step_back(store, clock) == HOUR
    clock.tick(8 * A_SECOND)
    assert await fired(store) == []
    clock.tick(A_SECOND)
    assert await fired(store) == ["wake"]


async def test_a_timer_that_names_an_instant_stays(store: Store, clock: HeldClock) -> None:
    await store.timers.set(SPACE, NewTimer(kind="report", due_at=seconds_from_now(clock, 10)))
    await step_back(store, clock)
    clock.tick(MINUTE)
    assert await fired(store) == []
    clock.tick(HOUR)
    assert await fired(store) == ["report"]


async def test_the_deadline_of_a_run_keeps_its_length(store: Store, clock: HeldClock) -> None:
    await running(store, limits=Limits(max_duration_seconds=10))
    await step_back(store, clock)
    clock.tick(9 * A_SECOND)
    assert await fired(store) == []
    clock.tick(A_SECOND)
    assert await fired(store) == ["deadline"]


async def test_the_delay_of_a_retry_keeps_its_length(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    move = Move(to=RunStatus.QUEUED, reason="retry", wait_until=seconds_from_now(clock, 10))
    await commit(store, lease, move=move)
    await step_back(store, clock)
    assert await store.leases.claim(FIRST, lease=MINUTE) == []
    clock.tick(TEN_SECONDS)
    (again,) = await store.leases.claim(FIRST, lease=MINUTE)
    assert again.run_id == lease.run_id


async def test_a_new_run_that_waits_for_an_instant_still_does(store: Store, clock: HeldClock) -> None:
    await queued(store, wait_until=seconds_from_now(clock, 10))
    await step_back(store, clock)
    clock.tick(MINUTE)
    assert await store.leases.claim(FIRST, lease=MINUTE) == []
    clock.tick(HOUR)
    assert len(await store.leases.claim(FIRST, lease=MINUTE)) == 1


async def test_the_queue_keeps_its_order(store: Store, clock: HeldClock) -> None:
    earlier = await queued(store)
    await step_back(store, clock)
    later = await queued(store)
    leases = await store.leases.claim(FIRST, lease=MINUTE, limit=2)
    assert [lease.run_id for lease in leases] == [earlier.id, later.id]


async def test_the_lease_of_a_dead_worker_expires_in_its_time(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    await step_back(store, clock)
    clock.tick(MINUTE)
    assert await store.leases.expire() == [lease.run_id]


async def test_a_claim_of_a_timer_expires_in_its_time(store: Store, clock: HeldClock) -> None:
    await store.timers.set(SPACE, NewTimer(kind="report", due_at=seconds_from_now(clock, -7200)))
    assert await fired(store) == ["report"]
    await step_back(store, clock)
    clock.tick(MINUTE)
    assert await fired(store) == ["report"]


async def test_an_interrupt_expires_in_its_time(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    asked = NewInterrupt(kind=InterruptKind.INPUT, message="?", expires_at=seconds_from_now(clock, 10))
    await commit(store, lease, move=WAITING, interrupts=[asked])
    await step_back(store, clock)
    assert await store.interrupts.expire() == []
    clock.tick(TEN_SECONDS)
    assert len(await store.interrupts.expire()) == 1


async def test_a_ticket_lives_no_longer(store: Store, clock: HeldClock) -> None:
    ticket = Ticket(path="/ws", api_key_id=None, principal={}, expires_at=seconds_from_now(clock, 10))
    await store.tickets.create(b"1" * 32, ticket, now=instant(clock.now()))
    await running(store)
    await step_back(store, clock)
    assert (await store.tickets.find(b"1" * 32)).expires_at == seconds_from_now(clock, 10)


async def test_a_paused_deadline_keeps_the_time_that_is_left(store: Store, clock: HeldClock) -> None:
    lease = await running(store, limits=Limits(max_duration_seconds=10))
    await commit(store, lease, move=WAITING_FOR_PERSON)
    await step_back(store, clock)
    await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.TIMER, data={})
    clock.tick(9 * A_SECOND)
    assert await fired(store) == []
    clock.tick(A_SECOND)
    assert await fired(store) == ["deadline"]


async def test_events_and_messages_keep_their_order(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    first, second = text_events("before"), text_events("after")
    await commit(store, lease, events=first, messages=[user("before")])
    await step_back(store, clock)
    await commit(store, lease, events=second, messages=[user("after")], move=COMPLETED)
    assert (await stream(store, lease.run_id))[-len(first + second) :] == first + second
    assert [content for _, _, content in await messages_of(store, lease.run_id)][-2:] == ["before", "after"]


async def test_after_a_restart_with_an_earlier_clock_the_rest_of_a_wait_is_kept(
    where: str | Path, clock: HeldClock
) -> None:
    async with opened(where, clock) as store:
        await store.spaces.create(SPACE, name="Acme")
        lease = await running(store)
        await commit(store, lease, move=WAITING, timers=[NewTimer(kind="wake", due_at=seconds_from_now(clock, 10))])
        await store.timers.follow_clock()
    clock.step_back(HOUR)
    async with opened(where, clock) as store:
        assert await store.timers.follow_clock() == HOUR
        clock.tick(TEN_SECONDS)
        assert await fired(store) == ["wake"]


async def test_of_several_processes_one_follows_the_clock(stores: list[Store], clock: HeldClock) -> None:
    await running(stores[0])
    await stores[0].timers.follow_clock()
    clock.step_back(HOUR)
    assert [await store.timers.follow_clock() for store in (stores[0], stores[-1])] == [HOUR, timedelta()]


async def test_a_clock_that_goes_forward_or_back_a_little_shifts_nothing(store: Store, clock: HeldClock) -> None:
    await running(store)
    for move in (HOUR, timedelta(milliseconds=-999)):
        assert await store.timers.follow_clock() == timedelta()
        clock.tick(move)
    assert await store.timers.follow_clock() == timedelta()


@pytest.mark.parametrize("wrong", [-HOUR, HOUR], ids=["behind", "ahead"])
async def test_a_process_whose_clock_differs_from_postgres_waits_as_long(
    postgres: PostgresServer, postgres_database: str, wrong: timedelta
) -> None:
    clock = HeldClock(SystemClock().now() + wrong // timedelta(milliseconds=1))
    async with (
        open_bus(postgres_database) as bus,
        open_database(postgres_database, clock=clock, use_local_clock=False, bus=bus) as database,
    ):
        store = Store(database)
        await store.spaces.create(SPACE, name="Acme")
        lease = await running(store, limits=Limits(max_duration_seconds=600))
        timer = NewTimer(kind="wake", due_at=seconds_from_now(clock, 600))
        asked = NewInterrupt(kind=InterruptKind.INPUT, message="?", expires_at=seconds_from_now(clock, 600))
        await commit(store, lease, move=WAITING, timers=[timer], interrupts=[asked])
        (interrupt,) = await store.interrupts.of_run(SPACE, lease.run_id)
        retried = await running(store)
        move = Move(to=RunStatus.QUEUED, reason="retry", wait_until=seconds_from_now(clock, 600))
        await commit(store, retried, move=move)
        state, due = await store.leases.queue_state(), await store.timers.next_due()
        now = SystemClock().now()
        for at in (due, interrupt.expires_at, state.next_at):
            assert at is not None
            assert 500_000 < millis(at) - now < 700_000
    await postgres.wipe(postgres_database)
