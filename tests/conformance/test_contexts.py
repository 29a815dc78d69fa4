"""Contexts: the request of each model call, stored with the commit that starts it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.domain.context import SentRange, SentText, text_digest
from holdfast.domain.errors import IdTaken, NotFound
from holdfast.domain.new_run import NewRun
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from tests.builders import assistant, claim, new_thread
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import claim_run, completed_run, create_run
from tests.conformance.run_builders import COMPLETED, commit, context_snapshot, model_step, running
from tests.conformance.tables import rows_of


async def texts(where: str | Path) -> list[str]:
    """Return the stored texts."""
    return sorted(row["content"] for row in (await rows_of(where))["texts"])


async def test_the_request_to_a_model_is_read_back_exactly(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await completed_run(store, thread, "q0", "a0")
    lease = await claim_run(store, await create_run(store, thread, "q1"))
    note = '{"role":"system","content":"hurry"}'
    context = context_snapshot(
        1,
        "be kind\n",
        conversation=(SentRange(first=1, last=2, count=2), SentText(digest=text_digest(note))),
        reminders=("do not forget",),
        tokens={"system": 2},
        first_sequence=1,
        last_sequence=2,
    )
    context = replace(context, texts={**context.texts, text_digest(note): note})
    await commit(store, lease, steps=[model_step(1)], contexts=[context])
    read = await store.contexts.get(SPACE, lease.run_id, 1)
    assert (read.step, read.model, read.system, read.tools, read.tokens) == (1, "m", "be kind\n", [], {"system": 2})
    assert [(message.content, message.sequence) for message in read.messages] == [
        ("a0", 1),
        ("q1", 2),
        ("hurry", None),
        ("do not forget", None),
    ]
    assert read.complete


async def test_the_steps_with_a_stored_context_are_ordered_by_number(store: Store) -> None:
    lease = await running(store)
    assert await store.contexts.steps(SPACE, lease.run_id) == []
    await commit(store, lease, contexts=[context_snapshot(5), context_snapshot(2)])
    await commit(store, lease, contexts=[context_snapshot(3)])
    assert await store.contexts.steps(SPACE, lease.run_id) == [2, 3, 5]
    with pytest.raises(NotFound, match="there is no context of step 4"):
        await store.contexts.get(SPACE, lease.run_id, 4)


async def test_a_repeated_call_stores_its_latest_context(store: Store) -> None:
    lease = await running(store)
    await commit(store, lease, contexts=[context_snapshot(1, "first")])
    await commit(store, lease, contexts=[context_snapshot(1, "second")])
    assert (await store.contexts.get(SPACE, lease.run_id, 1)).system == "second"


async def test_a_text_is_stored_once_per_space(stores: list[Store], where: str | Path) -> None:
    for number in range(4):
        lease = await running(stores[0])
        await commit(
            stores[number % len(stores)],
            lease,
            contexts=[context_snapshot(1, "the same"), context_snapshot(2, f"another {number}")],
        )
    assert await texts(where) == ["[]", *(f"another {number}" for number in range(4)), "the same"]
    run = (await stores[0].runs.create(OTHER, NewRun(thread=NewThread()))).run
    await commit(stores[0], await claim(stores[0]), contexts=[context_snapshot(1, "the same")])
    assert (await texts(where)).count("the same") == 2
    assert (await stores[0].contexts.get(OTHER, run.id, 1)).system == "the same"


async def test_a_text_of_a_refused_commit_is_stored_with_the_next(store: Store) -> None:
    lease = await running(store)
    await commit(store, lease, messages=[assistant("x", id="said")])
    with pytest.raises(IdTaken):
        await commit(store, lease, messages=[assistant("x", id="said")], contexts=[context_snapshot(1, "late")])
    assert await store.contexts.steps(SPACE, lease.run_id) == []
    await commit(store, lease, contexts=[context_snapshot(1, "late")])
    assert (await store.contexts.get(SPACE, lease.run_id, 1)).system == "late"


async def test_contexts_are_deleted_with_their_run_and_texts_with_their_space(store: Store, where: str | Path) -> None:
    lease = await running(store)
    await commit(store, lease, contexts=[context_snapshot(1)])
    await commit(store, lease, move=COMPLETED)
    await store.runs.delete(SPACE, lease.run_id)
    assert (await rows_of(where))["contexts"] == []
    await store.spaces.delete(SPACE)
    assert await texts(where) == []
    await store.spaces.create(SPACE, name="Acme")
    again = await running(store)
    await commit(store, again, contexts=[context_snapshot(1)])
    assert (await store.contexts.get(SPACE, again.run_id, 1)).system == "be good"
