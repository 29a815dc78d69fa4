"""Idempotency keys: the same key returns the same run, also under concurrent requests."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from holdfast.domain.errors import Conflict, IdempotencyMismatch
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.instant import instant
from holdfast.domain.new_run import NewRun, body_digest
from holdfast.domain.placement import OnBusy
from holdfast.domain.run import RunStatus
from holdfast.domain.thread import NewThread, ThreadPatch, ThreadStatus
from holdfast.domain.timer import NewTimer, TimerState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, new_thread, user
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import (
    base_on,
    claim_run,
    complete,
    create_run,
    ended_run,
    expect_refusal,
    read_everything,
)


def _new(thread: ThreadId | NewThread, **fields: Any) -> NewRun:
    return NewRun(thread=thread, messages=[user("hello")], idempotency_key="key", **fields)


async def test_the_same_idempotency_key_returns_the_same_run(store: Store) -> None:
    new = _new(await new_thread(store, SPACE))
    first = await store.runs.create(SPACE, new)
    before = await read_everything(store)
    again = await store.runs.create(SPACE, new)
    assert (first.replayed, again.replayed) == (False, True)
    assert again.run == first.run
    assert await read_everything(store) == before


async def test_a_replayed_run_is_returned_in_its_current_state(store: Store) -> None:
    new = _new(await new_thread(store, SPACE))
    run = (await store.runs.create(SPACE, new)).run
    done = await complete(store, await claim_run(store, run), "done")
    assert (await store.runs.create(SPACE, new)).run == done
    assert done.status is RunStatus.COMPLETED


async def test_a_run_is_replayed_even_if_it_could_not_be_created_now(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    new = _new(thread, id=RunId("chosen"), on_busy=OnBusy.REJECT)
    run = (await store.runs.create(SPACE, new)).run
    assert (await store.runs.create(SPACE, new)).run == run
    (run,) = await store.runs.end(SPACE, run.id)
    await store.threads.update(SPACE, thread, ThreadPatch(status=ThreadStatus.DELETED))
    assert (await store.runs.create(SPACE, new)).run == run


async def test_a_thread_that_was_made_with_the_run_is_not_made_again(store: Store) -> None:
    new = _new(NewThread(title="once"))
    run = (await store.runs.create(SPACE, new)).run
    assert (await store.runs.create(SPACE, new)).run.thread_id == run.thread_id
    assert len((await store.threads.page(SPACE)).items) == 1


async def test_another_body_under_the_same_key_is_a_conflict(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await ended_run(store, thread, "hello")
    new = _new(thread)
    await store.runs.create(SPACE, new)
    others: list[dict[str, Any]] = [
        {"messages": [user("other")]},
        {"messages": [user("hello"), user("hello")]},
        {"input": {"a": 1}},
        {"base": None},
        {"base": base_on(base)},
        {"tags": ["a"]},
        {"thread": NewThread()},
        {"on_busy": OnBusy.FORK},
        {"values": {"state": 1}},
        {"id": RunId("chosen")},
    ]
    for other in others:
        async with expect_refusal(store, IdempotencyMismatch):
            await store.runs.create(SPACE, structs.replace(new, **other))


async def test_the_order_of_json_keys_does_not_change_the_body_digest(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    run = (await store.runs.create(SPACE, _new(thread, input={"a": 1, "b": 2}))).run
    assert (await store.runs.create(SPACE, _new(thread, input={"b": 2, "a": 1}))).run == run


async def test_the_key_of_a_deleted_run_creates_no_other(store: Store) -> None:
    new = _new(await new_thread(store, SPACE))
    run = (await store.runs.create(SPACE, new)).run
    await store.runs.end(SPACE, run.id)
    await store.runs.delete(SPACE, run.id)
    async with expect_refusal(store, Conflict):
        await store.runs.create(SPACE, new)


async def test_an_idempotency_key_belongs_to_its_space(store: Store) -> None:
    here = await store.runs.create(SPACE, _new(NewThread()))
    there = await store.runs.create(OTHER, _new(NewThread()))
    assert (here.replayed, there.replayed) == (False, False)
    assert here.run.id != there.run.id


async def test_the_key_of_a_failed_create_can_be_used_again(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await create_run(store, thread, id=RunId("used"))
    async with expect_refusal(store, Conflict):
        await store.runs.create(SPACE, _new(thread, id=RunId("used")))
    assert not (await store.runs.create(SPACE, _new(thread, id=RunId("free")))).replayed


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"id": RunId("chosen")},
        {"on_busy": OnBusy.REJECT},
        {"messages": [user("hello", id="m1")]},
        {"thread": NewThread()},
        {"thread": NewThread(id=ThreadId("fresh"))},
    ],
    ids=["plain", "id", "reject", "message id", "new thread", "new thread id"],
)
async def test_of_many_concurrent_creates_under_one_key_one_creates_and_all_return_the_run(
    store: Store, fields: dict[str, Any]
) -> None:
    new = structs.replace(_new(await new_thread(store, SPACE)), **fields)
    made = await asyncio.gather(*(store.runs.create(SPACE, new) for _ in range(20)))
    assert sum(not created.replayed for created in made) == 1
    assert len({created.run.id for created in made}) == 1
    (run,) = (await store.runs.page(SPACE)).items
    assert len(await store.messages.of_run(SPACE, run.id)) == 1


async def test_of_many_concurrent_bodies_under_one_key_one_is_created(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    made = await asyncio.gather(
        *(store.runs.create(SPACE, _new(thread, input=number)) for number in range(20)), return_exceptions=True
    )
    assert sum(isinstance(error, IdempotencyMismatch) for error in made) == 19
    assert len((await store.runs.page(SPACE)).items) == 1


async def test_a_replayed_create_settles_the_timer_that_fires_it(store: Store, clock: HeldClock) -> None:
    new = _new(await new_thread(store, SPACE))
    run = (await store.runs.create(SPACE, new)).run
    timer = await store.timers.set(SPACE, NewTimer(kind="daemon", due_at=instant(clock.now())))
    (claim,) = await store.timers.claim_due(FIRST, lease=MINUTE)
    assert (await store.runs.create(SPACE, new, fires=claim)).run == run
    assert (await store.timers.get(SPACE, timer.id)).state is TimerState.FIRED


async def test_the_run_of_a_key_is_found_without_creating_one(store: Store) -> None:
    new = _new(await new_thread(store, SPACE))
    assert await store.runs.find_by_idempotency_key(SPACE, "key", body=body_digest(new)) is None
    run = (await store.runs.create(SPACE, new)).run
    assert await store.runs.find_by_idempotency_key(SPACE, "key", body=body_digest(new)) == run
    assert await store.runs.find_by_idempotency_key(OTHER, "key", body=body_digest(new)) is None
    async with expect_refusal(store, IdempotencyMismatch):
        await store.runs.find_by_idempotency_key(SPACE, "key", body="other")
    await store.runs.end(SPACE, run.id)
    await store.runs.delete(SPACE, run.id)
    async with expect_refusal(store, Conflict):
        await store.runs.find_by_idempotency_key(SPACE, "key", body=body_digest(new))
