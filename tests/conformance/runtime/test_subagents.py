"""`SubagentRuns`: operations of a run on other runs of its space, over every implementation."""

from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.domain.commit import Lease
from holdfast.domain.errors import IdTaken, Invalid, LeaseLost, NotFound, SpawnLimit, Waiting, WouldDeadlock
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.limits import Limits
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move, Run, RunStatus, WaitsFor
from holdfast.domain.thread import NewThread
from holdfast.domain.untrusted import TAINT_VALUE, Taint
from holdfast.store.store import Store
from tests.builders import user
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import claim_run
from tests.conformance.run_builders import COMPLETED, WAITING_FOR_PERSON, commit, new_interrupt, queued, running, status
from tests.conformance.runtime.implementations import Runtime

THREAD: Final = ThreadId("thr-child")


def child(lease: Lease, name: str, **options: Any) -> NewRun:
    """Return a new child of a run, by default on the thread `THREAD`."""
    given: dict[str, Any] = {
        "thread": NewThread(id=THREAD),
        "agent_type": "bot",
        "messages": [user("do this")],
        "input": "do this",
    }
    return NewRun(id=RunId(name), parent_run_id=lease.run_id, **given | options)


async def children(store: Store, lease: Lease) -> list[RunId]:
    """Return the ids of a run's children."""
    return [each.id for each in await store.runs.children(SPACE, lease.run_id)]


async def test_a_run_that_is_spawned_again_is_the_same_one(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go", agent_type="bot")
    new = child(lease, "one")
    made = await runtime.subagents.spawn(lease, new)
    assert (made.id, made.parent_run_id, made.thread_id, made.input) == ("one", lease.run_id, THREAD, "do this")
    assert await runtime.subagents.spawn(lease, new) == made == await store.runs.get(SPACE, made.id)
    assert await runtime.subagents.count_active_children(lease) == 1
    with pytest.raises(IdTaken):
        await runtime.subagents.spawn(lease, replace(new, input="do that"))
    for wrong in (replace(new, id=None), replace(child(lease, "two"), parent_run_id=RunId("run_other"))):
        with pytest.raises(Invalid):
            await runtime.subagents.spawn(lease, wrong)
    assert await children(store, lease) == ["one"]


async def test_a_child_with_a_message_and_no_input_is_the_same_one_too(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go", agent_type="bot")
    new = child(lease, "one", input=None)
    assert await runtime.subagents.spawn(lease, new) == await runtime.subagents.spawn(lease, new)


async def test_spawns_that_are_under_way_count_for_the_limit(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go", agent_type="bot", limits=Limits(max_children=2))
    first = await runtime.subagents.spawn(lease, child(lease, "one"))
    with pytest.raises(SpawnLimit):
        await runtime.subagents.spawn(lease, child(lease, "two", thread=NewThread()), pending_spawns=1)
    assert (await children(store, lease), await runtime.subagents.count_active_children(lease)) == ([first.id], 1)
    await store.runs.end(SPACE, first.id)
    assert await runtime.subagents.count_active_children(lease) == 0
    await runtime.subagents.spawn(lease, child(lease, "two", thread=NewThread()), pending_spawns=1)


async def test_a_child_on_an_existing_thread_continues_it_within_the_tree_of_its_parent(
    store: Store, runtime: Runtime
) -> None:
    stranger = await queued(store, "else", agent_type="bot")
    await store.leases.release(await claim_run(store, stranger))
    await store.runs.end(SPACE, stranger.id)
    lease = await running(store, "go", agent_type="bot")
    first = await runtime.subagents.spawn(lease, child(lease, "one"))
    second = await runtime.subagents.spawn(lease, child(lease, "two", thread=THREAD))
    assert (second.base_run_id, second.status) == (first.id, RunStatus.PENDING)
    for thread in (lease.thread_id, stranger.thread_id, ThreadId("thr_missing")):
        with pytest.raises(NotFound):
            await runtime.subagents.spawn(lease, child(lease, "three", thread=thread))
    with pytest.raises(Invalid, match="belongs to agent `bot`"):
        await runtime.subagents.spawn(lease, child(lease, "three", thread=THREAD, agent_type="adder"))
    assert await children(store, lease) == ["one", "two"]


async def test_a_child_behind_a_run_that_waits_for_a_person_is_refused(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go", agent_type="bot")
    first = await claim_run(store, await runtime.subagents.spawn(lease, child(lease, "one")))
    await commit(store, first, interrupts=[new_interrupt("may-i")], move=WAITING_FOR_PERSON)
    with pytest.raises(Waiting):
        await runtime.subagents.spawn(lease, child(lease, "two", thread=THREAD))
    assert await children(store, lease) == ["one"]


async def test_an_awaited_child_that_could_start_only_after_its_parent_is_refused(
    store: Store, runtime: Runtime
) -> None:
    lease = await running(store, "go", agent_type="bot")
    first = await claim_run(store, await runtime.subagents.spawn(lease, child(lease, "one")))
    await commit(store, first, move=Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD, waits_on=[lease.run_id]))
    with pytest.raises(WouldDeadlock):
        await runtime.subagents.spawn(lease, child(lease, "two", thread=THREAD), awaited=True)
    assert await children(store, lease) == ["one"]
    await runtime.subagents.spawn(lease, child(lease, "two", thread=THREAD))


async def test_a_run_is_told_of_the_end_of_a_run_that_it_subscribed_to(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go", agent_type="bot")
    target = await running(store, "work", agent_type="bot")
    foreign = (await store.runs.create(OTHER, NewRun(thread=NewThread()))).run
    found = await runtime.subagents.subscribe(lease, target.run_id, waits=f"{lease.run_id}.1")
    assert (found.id, found.status) == (target.run_id, RunStatus.RUNNING)
    for missing in (RunId("run_missing"), foreign.id):
        with pytest.raises(NotFound):
            await runtime.subagents.subscribe(lease, missing)
    await commit(store, target, move=COMPLETED)
    (item,) = [each for each in await runtime.journal.inbox(lease) if each.kind is InboxKind.TASK]
    assert isinstance(item.data, dict) and item.data["run_id"] == target.run_id


async def test_the_untrusted_sources_of_a_run_are_read(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go", agent_type="bot")
    reader = await running(store, "read", agent_type="bot")
    taint = msgspec.to_builtins(Taint().with_source("web:example.com"))
    await commit(store, reader, values={TAINT_VALUE: taint})
    assert list(await runtime.subagents.taint(lease, reader.run_id)) == ["web:example.com"]
    assert list(await runtime.subagents.taint(lease, lease.run_id)) == []
    with pytest.raises(NotFound):
        await runtime.subagents.taint(lease, RunId("run_missing"))


async def test_children_are_ended_with_their_descendants_and_ended_ones_stay(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go", agent_type="bot")
    done, live = [
        await runtime.subagents.spawn(lease, child(lease, name, thread=NewThread())) for name in ("done", "live")
    ]
    grandchild = await runtime.subagents.spawn(
        (held := await claim_run(store, live)), child(held, "below", thread=NewThread())
    )
    await commit(store, await claim_run(store, done), move=COMPLETED)
    stranger = await queued(store, "else", agent_type="bot")
    with pytest.raises(NotFound):
        await runtime.subagents.end(lease, [live.id, stranger.id])
    assert await status(store, live.id) is RunStatus.RUNNING
    await runtime.subagents.end(lease, [done.id, live.id])
    after = [await status(store, run.id) for run in (done, live, grandchild, stranger)]
    assert after == [RunStatus.COMPLETED, RunStatus.CANCELLED, RunStatus.CANCELLED, RunStatus.QUEUED]


async def test_a_run_whose_lease_is_lost_changes_nothing(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go", agent_type="bot")
    made: Run = await runtime.subagents.spawn(lease, child(lease, "one"))
    other = await queued(store, "else", agent_type="bot")
    await store.runs.end(SPACE, lease.run_id)
    for call in (
        runtime.subagents.spawn(lease, child(lease, "two", thread=NewThread())),
        runtime.subagents.subscribe(lease, other.id),
        runtime.subagents.end(lease, [made.id]),
    ):
        with pytest.raises(LeaseLost):
            await call
    assert await children(store, lease) == [made.id]
