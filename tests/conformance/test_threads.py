"""Threads: create, read and update."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from holdfast.domain.errors import (
    Conflict,
    HoldfastError,
    IdTaken,
    Invalid,
    NotFound,
    RunActive,
    ThreadClosed,
    TooLarge,
)
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import RunStatus
from holdfast.domain.thread import NewThread, Thread, ThreadPatch, ThreadStatus
from holdfast.store.store import Store
from tests.builders import new_thread
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import active_run, claim_run, complete, create_run, ended_run, expect_refusal

MISSING = ThreadId("missing")
NO_TEXT = [("\x00", Invalid), ("a\ud800", Invalid)]


async def test_a_new_thread_is_active_and_empty(store: Store) -> None:
    made = await store.threads.create(
        SPACE,
        NewThread(
            id=ThreadId("chosen"),
            title="Grüße · 挨拶",
            agent_type="writer",
            locale="de-CH",
            context_window=7,
            metadata={"deep": [{"a": None}]},
            created_by="ann",
        ),
    )
    assert made == Thread(
        id=ThreadId("chosen"),
        space_id=SPACE,
        title="Grüße · 挨拶",
        agent_type="writer",
        status=ThreadStatus.ACTIVE,
        locale="de-CH",
        summary=None,
        key_points=[],
        retrieval_index=None,
        indexed_sequence=-1,
        context_window=7,
        metadata={"deep": [{"a": None}]},
        next_sequence=0,
        last_run_at=None,
        created_by="ann",
        created_at=made.created_at,
    )
    assert await store.threads.get(SPACE, made.id) == made


async def test_a_thread_without_a_chosen_id_is_given_one(store: Store) -> None:
    first, second = [(await store.threads.create(SPACE, NewThread())).id for _ in range(2)]
    assert first != second
    assert first.startswith("thr_")


async def test_a_thread_id_already_used_is_refused(store: Store) -> None:
    taken = await store.threads.create(SPACE, NewThread(id=ThreadId("taken")))
    await store.threads.update(SPACE, taken.id, ThreadPatch(status=ThreadStatus.DELETED))
    async with expect_refusal(store, IdTaken):
        await store.threads.create(SPACE, NewThread(id=taken.id))


async def test_the_same_thread_id_may_be_used_in_another_space(store: Store) -> None:
    here = await store.threads.create(SPACE, NewThread(id=ThreadId("same"), title="here"))
    there = await store.threads.create(OTHER, NewThread(id=ThreadId("same"), title="there"))
    assert await store.threads.get(SPACE, ThreadId("same")) == here
    assert await store.threads.get(OTHER, ThreadId("same")) == there


async def test_a_missing_thread_is_not_found(store: Store) -> None:
    foreign = await new_thread(store, OTHER)
    for missing in (MISSING, foreign):
        async with expect_refusal(store, NotFound):
            await store.threads.get(SPACE, missing)
        async with expect_refusal(store, NotFound):
            await store.threads.update(SPACE, missing, ThreadPatch(title="x"))


async def test_a_thread_is_not_made_in_a_missing_space(store: Store) -> None:
    async with expect_refusal(store, NotFound):
        await store.threads.create(SpaceId("missing"), NewThread())
    async with expect_refusal(store, NotFound):
        await store.threads.page(SpaceId("missing"))


async def test_an_update_of_a_thread_changes_only_the_fields_it_sets(store: Store) -> None:
    new = NewThread(title="first", locale="en", metadata={"old": 1})
    other = await store.threads.create(SPACE, new)
    changes: list[dict[str, Any]] = [
        {"title": "other"},
        {"title": None},
        {"agent_type": "coder"},
        {"status": ThreadStatus.ARCHIVED},
        {"locale": None},
        {"summary": "they talked"},
        {"key_points": ["one", "zwölf"]},
        {"retrieval_index": "words"},
        {"context_window": 1000},
        {"metadata": {"new": 1}},
        {"title": "both", "metadata": {}},
    ]
    for change in changes:
        made = await store.threads.create(SPACE, new)
        changed = await store.threads.update(SPACE, made.id, ThreadPatch(**change))
        assert changed == structs.replace(made, **change)
        assert await store.threads.get(SPACE, made.id) == changed
    assert await store.threads.get(SPACE, other.id) == other


async def test_concurrent_updates_of_a_thread_do_not_undo_each_other(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    for number in range(10):
        await asyncio.gather(
            store.threads.update(SPACE, thread, ThreadPatch(title=f"title {number}")),
            store.threads.update(SPACE, thread, ThreadPatch(summary=f"summary {number}")),
        )
        changed = await store.threads.get(SPACE, thread)
        assert (changed.title, changed.summary) == (f"title {number}", f"summary {number}")


async def test_a_deleted_thread_stays_deleted(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await store.threads.update(SPACE, thread, ThreadPatch(status=ThreadStatus.DELETED))
    for patch in (ThreadPatch(status=ThreadStatus.ACTIVE), ThreadPatch(title="x")):
        async with expect_refusal(store, Conflict):
            await store.threads.update(SPACE, thread, patch)
    assert (await store.threads.get(SPACE, thread)).status is ThreadStatus.DELETED


@pytest.mark.parametrize("closed", [ThreadStatus.ARCHIVED, ThreadStatus.DELETED])
async def test_a_closed_thread_accepts_no_run(store: Store, closed: ThreadStatus) -> None:
    thread = await new_thread(store, SPACE)
    run = await ended_run(store, thread, "hello")
    await store.threads.update(SPACE, thread, ThreadPatch(status=closed))
    async with expect_refusal(store, ThreadClosed) as info:
        await store.runs.create(SPACE, NewRun(thread=thread))
    assert info.value.details["status"] == closed
    assert await store.runs.get(SPACE, run.id) == run


@pytest.mark.parametrize("state", [RunStatus.PENDING, RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING])
async def test_a_thread_with_an_active_run_is_not_deleted(store: Store, state: RunStatus) -> None:
    run = await active_run(store, state)
    async with expect_refusal(store, RunActive):
        await store.threads.update(SPACE, run.thread_id, ThreadPatch(status=ThreadStatus.DELETED))


async def test_a_run_created_while_its_thread_is_deleted_keeps_the_thread_or_is_refused(stores: list[Store]) -> None:
    for _ in range(10):
        thread = await new_thread(stores[0], SPACE)
        first, deleted, *others = await asyncio.gather(
            stores[0].runs.create(SPACE, NewRun(thread=thread)),
            stores[-1].threads.update(SPACE, thread, ThreadPatch(status=ThreadStatus.DELETED)),
            *(each.runs.create(SPACE, NewRun(thread=thread)) for each in stores),
            return_exceptions=True,
        )
        if isinstance(deleted, Thread):
            assert all(isinstance(error, ThreadClosed) for error in (first, *others)), (first, *others)
        else:
            assert isinstance(deleted, RunActive)
            assert (await stores[0].threads.get(SPACE, thread)).status is ThreadStatus.ACTIVE


async def test_an_active_run_of_an_archived_thread_goes_on(store: Store) -> None:
    run = await create_run(store, await new_thread(store, SPACE), "hello")
    await store.threads.update(SPACE, run.thread_id, ThreadPatch(status=ThreadStatus.ARCHIVED))
    assert (await complete(store, await claim_run(store, run), "done")).status is RunStatus.COMPLETED


async def test_an_archived_thread_may_be_opened_again(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await store.threads.update(SPACE, thread, ThreadPatch(status=ThreadStatus.ARCHIVED))
    await store.threads.update(SPACE, thread, ThreadPatch(status=ThreadStatus.ACTIVE))
    await ended_run(store, thread, "hello")


async def test_a_run_never_edits_its_thread(store: Store) -> None:
    made = await store.threads.create(SPACE, NewThread(title="first", agent_type="writer"))
    run = await ended_run(store, made.id, "hello", agent_type="coder")
    now = await store.threads.get(SPACE, made.id)
    assert now == structs.replace(made, next_sequence=1, last_run_at=run.created_at)


async def test_an_invalid_thread_is_refused(store: Store) -> None:
    cases: list[tuple[dict[str, Any], type[HoldfastError]]] = [
        *(({"id": id}, Invalid) for id in ("", "a b", "ä", "a\n", "\x00", "x" * 129)),
        *(({"title": text}, error) for text, error in [*NO_TEXT, ("x" * 501, TooLarge)]),
        *(({"agent_type": text}, error) for text, error in [*NO_TEXT, ("x" * 129, TooLarge)]),
        *(({"locale": text}, Invalid) for text in ("", "x" * 36, "en_US", "english", *(text for text, _ in NO_TEXT))),
        *(({"created_by": text}, error) for text, error in [*NO_TEXT, ("x" * 257, TooLarge)]),
        *(({"context_window": size}, Invalid) for size in (0, -1, 1001, 2**70)),
        *(({"metadata": {"x": value}}, Invalid) for value in (object(), "\ud800", {"\udfff": 1})),
    ]
    for fields, error in cases:
        async with expect_refusal(store, error):
            await store.threads.create(SPACE, NewThread(**fields))
        async with expect_refusal(store, error):
            await store.runs.create(SPACE, NewRun(thread=NewThread(**fields), idempotency_key="key"))


async def test_an_invalid_thread_update_is_refused(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    cases: list[tuple[dict[str, Any], type[HoldfastError]]] = [
        ({}, Invalid),
        *(({"title": text}, error) for text, error in [*NO_TEXT, ("x" * 501, TooLarge)]),
        *(({"agent_type": text}, error) for text, error in [*NO_TEXT, ("x" * 129, TooLarge)]),
        *(({"locale": text}, Invalid) for text in ("", "x" * 36, "en_US", "english", *(text for text, _ in NO_TEXT))),
        *(({"summary": text}, error) for text, error in [*NO_TEXT, ("x" * 20_001, TooLarge)]),
        *(({"retrieval_index": text}, error) for text, error in [*NO_TEXT, ("x" * 1_000_001, TooLarge)]),
        *(({"key_points": ["good", text]}, error) for text, error in [*NO_TEXT, ("x" * 20_001, TooLarge)]),
        *(({"context_window": size}, Invalid) for size in (0, 1001, 2**70)),
        *(({"metadata": {"x": value}}, Invalid) for value in (object(), "\ud800")),
    ]
    for fields, error in cases:
        async with expect_refusal(store, error):
            await store.threads.update(SPACE, thread, ThreadPatch(**fields))
