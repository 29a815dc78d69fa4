"""Runs that runs spawn: parents, children and roots."""

import asyncio

from holdfast.domain.errors import Conflict, Invalid, NotFound
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.new_run import NewRun
from holdfast.domain.placement import MAX_NESTING
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from tests.builders import new_thread, user
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import (
    answered,
    ask_a_person,
    claimed,
    complete,
    ended,
    make,
    on,
    refused,
    status,
    told,
)


async def _spawned(store: Store, parent: Run, *said: str, thread: ThreadId | NewThread | None = None) -> Run:
    messages = [user(text) for text in said]
    new = NewRun(thread=thread or NewThread(), messages=messages, parent_run_id=parent.id)
    return (await store.runs.create(SPACE, new)).run


async def test_a_child_knows_its_parent_its_root_and_its_own_thread(store: Store) -> None:
    root = await make(store, await new_thread(store, SPACE), "hello")
    child = await _spawned(store, root, "do this")
    grandchild = await _spawned(store, child, "do that")
    for run, parent in [(child, root), (grandchild, child)]:
        assert run.parent_run_id == parent.id
        assert (run.root_run_id, run.root_thread_id) == (root.id, root.thread_id)
        assert run.child_thread_id == run.thread_id != parent.thread_id
        assert await store.runs.get(SPACE, run.id) == run
    assert (root.parent_run_id, root.root_run_id, root.child_thread_id) == (None, root.id, None)


async def test_the_children_of_a_run_are_those_it_spawned_the_oldest_first(store: Store) -> None:
    root = await make(store, await new_thread(store, SPACE), "hello")
    children = [await _spawned(store, root, str(number)) for number in range(3)]
    grandchild = await _spawned(store, children[0])
    assert await store.runs.children(SPACE, root.id) == children
    assert await store.runs.children(SPACE, children[0].id) == [grandchild]
    assert await store.runs.children(SPACE, grandchild.id) == []


async def test_a_child_hears_nothing_of_its_parent(store: Store) -> None:
    root = await make(store, await new_thread(store, SPACE), "secret")
    child = await _spawned(store, root, "do this")
    assert (child.base_run_id, child.status) == (None, RunStatus.QUEUED)
    assert await told(store, child) == ["do this"]


async def test_a_child_may_go_on_on_a_thread_that_another_child_had(store: Store) -> None:
    root = await make(store, await new_thread(store, SPACE), "hello")
    thread = await new_thread(store, SPACE)
    first = await _spawned(store, root, "one", thread=thread)
    await store.runs.end(SPACE, first.id)
    second = await _spawned(store, root, "two", thread=thread)
    assert second.base_run_id == first.id
    assert await told(store, second) == ["one", "two"]


async def test_a_child_needs_a_thread_of_its_own(store: Store) -> None:
    root = await make(store, await new_thread(store, SPACE), "hello")
    async with refused(store, Invalid):
        await _spawned(store, root, thread=root.thread_id)
    async with refused(store, Invalid):
        await make(store, root.thread_id, base=on(root), parent_run_id=root.id)


async def test_a_missing_run_can_spawn_nothing(store: Store) -> None:
    foreign = (await store.runs.create(OTHER, NewRun(thread=NewThread()))).run
    for missing in (foreign.id, RunId("missing")):
        async with refused(store, NotFound):
            await store.runs.create(SPACE, NewRun(thread=NewThread(), parent_run_id=missing))


async def test_a_run_that_has_ended_can_spawn_nothing(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    for parent in (await answered(store, thread, "one", "1"), await ended(store, thread, "two")):
        async with refused(store, Conflict):
            await _spawned(store, parent)


async def test_every_live_run_can_spawn(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first, second = await make(store, thread, "one"), await make(store, thread, "two")
    await _spawned(store, first)
    await _spawned(store, second)
    lease = await claimed(store, first)
    await _spawned(store, first)
    await complete(store, lease)
    await ask_a_person(store, second, "really?")
    await _spawned(store, second)
    assert await status(store, second) is RunStatus.WAITING


async def test_sub_agents_are_nested_only_so_deep(store: Store) -> None:
    run = await make(store, await new_thread(store, SPACE), "hello")
    for _ in range(MAX_NESTING):
        run = await _spawned(store, run)
    async with refused(store, Invalid):
        await _spawned(store, run)


async def test_a_child_that_comes_while_its_parent_ends_ends_with_it_or_is_refused(store: Store) -> None:
    for _ in range(10):
        parent = await make(store, await new_thread(store, SPACE), "hello")
        await asyncio.gather(
            store.runs.end(SPACE, parent.id), *(_spawned(store, parent) for _ in range(3)), return_exceptions=True
        )
        children = await store.runs.children(SPACE, parent.id)
        assert [child.status for child in children] == [RunStatus.CANCELLED] * len(children)
