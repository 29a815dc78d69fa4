"""Sub-agents: parent, child and root runs."""

import asyncio

from holdfast.domain.errors import Conflict, Invalid, NotFound
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.new_run import NewRun
from holdfast.domain.placement import MAX_SUBAGENT_DEPTH
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from tests.builders import new_thread, user
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import (
    base_on,
    claim_run,
    complete,
    completed_run,
    create_run,
    ended_run,
    expect_refusal,
    history_texts,
    status,
    wait_for_person,
)


async def _spawned(store: Store, parent: Run, *said: str, thread: ThreadId | NewThread | None = None) -> Run:
    messages = [user(text) for text in said]
    new = NewRun(thread=thread or NewThread(), messages=messages, parent_run_id=parent.id)
    return (await store.runs.create(SPACE, new)).run


async def test_a_child_knows_its_parent_its_root_and_its_own_thread(store: Store) -> None:
    root = await create_run(store, await new_thread(store, SPACE), "hello")
    child = await _spawned(store, root, "do this")
    grandchild = await _spawned(store, child, "do that")
    for run, parent in [(child, root), (grandchild, child)]:
        assert run.parent_run_id == parent.id
        assert (run.root_run_id, run.root_thread_id) == (root.id, root.thread_id)
        assert run.child_thread_id == run.thread_id != parent.thread_id
        assert await store.runs.get(SPACE, run.id) == run
    assert (root.parent_run_id, root.root_run_id, root.child_thread_id) == (None, root.id, None)


async def test_the_children_of_a_run_are_those_it_spawned_oldest_first(store: Store) -> None:
    root = await create_run(store, await new_thread(store, SPACE), "hello")
    children = [await _spawned(store, root, str(number)) for number in range(3)]
    grandchild = await _spawned(store, children[0])
    assert await store.runs.children(SPACE, root.id) == children
    assert await store.runs.children(SPACE, children[0].id) == [grandchild]
    assert await store.runs.children(SPACE, grandchild.id) == []


async def test_a_child_does_not_see_its_parents_messages(store: Store) -> None:
    root = await create_run(store, await new_thread(store, SPACE), "secret")
    child = await _spawned(store, root, "do this")
    assert (child.base_run_id, child.status) == (None, RunStatus.QUEUED)
    assert await history_texts(store, child) == ["do this"]


async def test_a_child_may_continue_the_thread_of_an_earlier_child(store: Store) -> None:
    root = await create_run(store, await new_thread(store, SPACE), "hello")
    thread = await new_thread(store, SPACE)
    first = await _spawned(store, root, "one", thread=thread)
    await store.runs.end(SPACE, first.id)
    second = await _spawned(store, root, "two", thread=thread)
    assert second.base_run_id == first.id
    assert await history_texts(store, second) == ["one", "two"]


async def test_a_child_needs_a_thread_of_its_own(store: Store) -> None:
    root = await create_run(store, await new_thread(store, SPACE), "hello")
    async with expect_refusal(store, Invalid):
        await _spawned(store, root, thread=root.thread_id)
    async with expect_refusal(store, Invalid):
        await create_run(store, root.thread_id, base=base_on(root), parent_run_id=root.id)


async def test_a_missing_run_cannot_spawn(store: Store) -> None:
    foreign = (await store.runs.create(OTHER, NewRun(thread=NewThread()))).run
    for missing in (foreign.id, RunId("missing")):
        async with expect_refusal(store, NotFound):
            await store.runs.create(SPACE, NewRun(thread=NewThread(), parent_run_id=missing))


async def test_an_ended_run_cannot_spawn(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    for parent in (await completed_run(store, thread, "one", "1"), await ended_run(store, thread, "two")):
        async with expect_refusal(store, Conflict):
            await _spawned(store, parent)


async def test_every_active_run_can_spawn(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first, second = await create_run(store, thread, "one"), await create_run(store, thread, "two")
    await _spawned(store, first)
    await _spawned(store, second)
    lease = await claim_run(store, first)
    await _spawned(store, first)
    await complete(store, lease)
    await wait_for_person(store, second, "really?")
    await _spawned(store, second)
    assert await status(store, second) is RunStatus.WAITING


async def test_the_nesting_of_sub_agents_is_limited(store: Store) -> None:
    run = await create_run(store, await new_thread(store, SPACE), "hello")
    for _ in range(MAX_SUBAGENT_DEPTH):
        run = await _spawned(store, run)
    async with expect_refusal(store, Invalid):
        await _spawned(store, run)


async def test_a_child_created_while_its_parent_ends_is_ended_or_refused(store: Store) -> None:
    for _ in range(10):
        parent = await create_run(store, await new_thread(store, SPACE), "hello")
        await asyncio.gather(
            store.runs.end(SPACE, parent.id), *(_spawned(store, parent) for _ in range(3)), return_exceptions=True
        )
        children = await store.runs.children(SPACE, parent.id)
        assert [child.status for child in children] == [RunStatus.CANCELLED] * len(children)
