"""`Leases.expire`: requeue the runs of dead workers."""

import asyncio
from datetime import timedelta

import pytest

from holdfast.domain.commit import Lease
from holdfast.domain.ids import OwnerId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import InterruptStatus
from holdfast.domain.limits import MAX_BACKOFF_MS, backoff_ms
from holdfast.domain.run import Move, RunStatus, WaitsFor
from holdfast.domain.step import StepState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from holdfast.testing.stream_verifier import verify_stream
from tests.builders import FIRST, MINUTE, SECOND, assistant, call, claim, result, text_events
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import (
    WAITING_FOR_PERSON,
    child_of,
    commit,
    get,
    model_step,
    new_interrupt,
    queued,
    run_after,
    running,
    seconds_from_now,
    status,
    stream,
    tool_step,
)

MILLISECOND = timedelta(milliseconds=1)
MAX_BACKOFF = timedelta(milliseconds=MAX_BACKOFF_MS)


async def die(store: Store, clock: HeldClock, *, cap: int = 5) -> Lease:
    """Claim the only claimable run, and never renew the lease."""
    lease = await claim(store)
    clock.tick(MINUTE)
    assert await store.leases.expire(cap=cap) == [lease.run_id]
    clock.tick(MAX_BACKOFF)
    return lease


async def test_a_lease_that_has_not_expired_is_left(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    clock.tick(MINUTE - MILLISECOND)
    assert await store.leases.expire() == []
    assert await status(store, lease.run_id) is RunStatus.RUNNING


async def test_the_run_of_a_dead_worker_returns_to_the_queue(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    clock.tick(MINUTE)
    assert await status(store, lease.run_id) is RunStatus.RUNNING
    assert await store.leases.expire() == [lease.run_id]
    run = await get(store, lease.run_id)
    assert (run.status, run.status_reason, run.attempt) == (RunStatus.QUEUED, "expired", 1)
    assert await store.leases.expire() == []


async def test_a_spared_run_is_not_taken_back(store: Store, clock: HeldClock) -> None:
    spared, dead = await running(store), await running(store)
    clock.tick(MINUTE)
    assert await store.leases.expire(spare={spared.run_key}) == [dead.run_id]
    assert await status(store, spared.run_id) is RunStatus.RUNNING
    assert await store.leases.renew(FIRST, [spared], lease=MINUTE)


async def test_after_one_death_a_run_can_be_claimed_at_once(store: Store, clock: HeldClock) -> None:
    run = await queued(store)
    await claim(store)
    clock.tick(MINUTE)
    await store.leases.expire()
    assert (await get(store, run.id)).wait_until is None
    assert (await claim(store, SECOND)).run.attempt == 2


async def test_a_requeued_run_is_claimed_after_a_growing_delay(store: Store, clock: HeldClock) -> None:
    run = await queued(store)
    await die(store, clock)
    for attempt in range(2, 9):
        assert (await claim(store)).run.attempt == attempt
        clock.tick(MINUTE)
        await store.leases.expire(cap=100)
        delay = backoff_ms(attempt)
        assert (await get(store, run.id)).wait_until == seconds_from_now(clock, delay / 1000)
        clock.tick(timedelta(milliseconds=delay - 1))
        assert await store.leases.claim(FIRST, lease=MINUTE) == []
        clock.tick(MILLISECOND)
    delays = [backoff_ms(attempt) for attempt in range(2, 9)]
    assert delays == sorted(delays)
    assert delays[0] < delays[-1] == MAX_BACKOFF_MS


async def test_a_run_that_was_claimed_cap_times_without_a_settled_step_fails(store: Store, clock: HeldClock) -> None:
    run = await queued(store, "begin")
    for _ in range(2):
        await die(store, clock, cap=3)
        assert await status(store, run.id) is RunStatus.QUEUED
    last = await claim(store)
    await commit(store, last, events=text_events("never to be finished")[:2], steps=[model_step(1)])
    clock.tick(MINUTE)
    assert await store.leases.expire(cap=3) == [run.id]
    failed = await get(store, run.id)
    assert failed.status is RunStatus.FAILED
    assert failed.error is not None
    assert failed.error.code == "ATTEMPTS_EXHAUSTED"
    assert [step.state for step in await store.steps.of_run(SPACE, run.id)] == [StepState.FAILED]
    verify_stream(await stream(store, run.id))
    assert await store.leases.claim(SECOND, lease=MINUTE) == []


async def test_a_run_that_used_up_its_attempts_takes_its_children_with_it(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    child = await child_of(store, lease.run_id)
    below = await claim(store, SECOND)
    await commit(store, below, interrupts=[new_interrupt("question")], move=WAITING_FOR_PERSON)
    clock.tick(MINUTE)
    await store.leases.expire(cap=1)
    assert await status(store, child.id) is RunStatus.FAILED
    (interrupt,) = await store.interrupts.of_run(SPACE, child.id)
    assert interrupt.status is InterruptStatus.CANCELLED


async def test_dependants_of_a_run_that_used_up_its_attempts_are_queued_at_once(store: Store, clock: HeldClock) -> None:
    lease = await running(store, "begin")
    dependant = await run_after(store, lease.run, "and then")
    clock.tick(MINUTE)
    await store.leases.expire(cap=1)
    assert await status(store, dependant.id) is RunStatus.QUEUED


async def test_the_parent_is_notified_of_a_child_that_used_up_its_attempts(store: Store, clock: HeldClock) -> None:
    parent = await running(store)
    await store.leases.renew(FIRST, [parent], lease=60 * MINUTE)
    child = await child_of(store, parent.run_id)
    await claim(store, SECOND)
    clock.tick(MINUTE)
    await store.leases.expire(cap=1)
    (item,) = await store.journal.inbox(parent)
    assert item.kind is InboxKind.CHILD
    assert isinstance(item.data, dict)
    assert (item.data["run_id"], item.data["status"]) == (child.id, "failed")


@pytest.mark.parametrize("state", [StepState.DONE, StepState.FAILED, StepState.UNKNOWN])
async def test_a_step_settled_by_a_live_worker_resets_the_attempt_count(
    store: Store, clock: HeldClock, state: StepState
) -> None:
    run = await queued(store)
    for _ in range(4):
        await die(store, clock)
    lease = await claim(store)
    await commit(store, lease, messages=[assistant("look", call("c1"))], steps=[tool_step(1, "c1")])
    assert (await get(store, run.id)).attempt == 5
    await commit(store, lease, messages=[result("c1")], steps=[tool_step(1, "c1", state)])
    assert (await get(store, run.id)).attempt == 0
    clock.tick(MINUTE)
    await store.leases.expire()
    assert await status(store, run.id) is RunStatus.QUEUED


async def test_a_wait_resets_the_attempt_count(store: Store, clock: HeldClock) -> None:
    run = await queued(store)
    for number in range(1, 9):  # woken again and again by what is not for it
        await commit(
            store,
            await claim(store),
            move=Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD),
            consumed=[] if number == 1 else [number - 1],
        )
        assert (await get(store, run.id)).attempt == 0
        await store.inbox.put(SPACE, run.id, kind=InboxKind.RESPONSE, data={"interrupt_id": "int_of_another"})
    await die(store, clock)
    assert await status(store, run.id) is RunStatus.QUEUED


async def test_nothing_else_resets_the_attempt_count(store: Store, clock: HeldClock) -> None:
    run = await queued(store)
    await die(store, clock)
    lease = await claim(store)
    await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data="go on")
    await commit(
        store,
        lease,
        messages=[assistant("hello")],
        events=text_events("hello"),
        steps=[model_step(1)],
        values={"state": {}},
        consumed=[1],
        iterations=1,
    )
    await store.leases.renew(FIRST, [lease], lease=MINUTE)
    assert (await get(store, run.id)).attempt == 2


async def test_an_ended_run_whose_worker_died_is_released_when_its_lease_expires(
    store: Store, clock: HeldClock
) -> None:
    lease = await running(store, "begin")
    dependant = await run_after(store, lease.run, "and then")
    await store.runs.end(SPACE, lease.run_id)
    assert await store.leases.expire() == []
    assert await status(store, dependant.id) is RunStatus.PENDING
    clock.tick(MINUTE)
    assert await store.leases.expire() == [lease.run_id]
    assert await status(store, lease.run_id) is RunStatus.CANCELLED
    assert await status(store, dependant.id) is RunStatus.QUEUED


async def test_concurrent_expiries_requeue_each_run_once(store: Store, clock: HeldClock) -> None:
    for _ in range(20):
        await queued(store)
    held = await store.leases.claim(OwnerId("dead"), lease=MINUTE, limit=20)
    clock.tick(MINUTE)
    taken = await asyncio.gather(*(store.leases.expire() for _ in range(4)))
    assert sorted(run for runs in taken for run in runs) == sorted(lease.run_id for lease in held)
    clock.tick(MAX_BACKOFF)
    again = await store.leases.claim(FIRST, lease=MINUTE, limit=100)
    assert {lease.run.attempt for lease in again} == {2}
