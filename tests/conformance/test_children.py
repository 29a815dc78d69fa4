"""Child runs of a commit: created with it, or not at all."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.domain.commit import Committed, Lease
from holdfast.domain.errors import (
    BudgetExceeded,
    Conflict,
    HoldfastError,
    IdTaken,
    InboxNotEmpty,
    Invalid,
    LeaseLost,
    NotFound,
    WouldDeadlock,
)
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.limits import Limits, Usage
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.placement import MAX_SUBAGENT_DEPTH
from holdfast.domain.run import Move, Priority, RunStatus, WaitsFor
from holdfast.domain.step import StepState
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, assistant, claim, new_thread, text_events, user
from tests.conformance.conftest import SPACE
from tests.conformance.conversations import claim_run, history_texts
from tests.conformance.run_builders import (
    COMPLETED,
    FAILED,
    WAITING,
    commit,
    get,
    model_step,
    new_interrupt,
    queued,
    running,
    seconds_from_now,
    status,
)
from tests.conformance.tables import orphans_of, rows_of


def child(parent: Lease, name: str | None = None, *said: str, **options: Any) -> NewRun:
    """Return a new child run of `parent`."""
    thread = options.pop("thread", None) or NewThread(title=name)
    return NewRun(
        id=None if name is None else RunId(name),
        thread=thread,
        messages=[user(text) for text in said],
        **{"parent_run_id": parent.run_id, **options},
    )


async def spawned(store: Store, parent: Lease, name: str, **options: Any) -> Lease:
    """Create a child in a commit, and claim it."""
    await commit(store, parent, children=[child(parent, name, **options)])
    return await claim_run(store, await get(store, RunId(name)))


async def test_children_are_created_with_the_commit(store: Store, clock: HeldClock) -> None:
    parent = await running(store, "begin")
    one = child(
        parent,
        "one",
        "do this",
        "and that",
        agent_type="helper",
        priority=Priority.LOW,
        limits=Limits(token_budget=5),
        values={"state": {"n": 1}},
        tags=["x"],
        input={"why": "because"},
    )
    await commit(store, parent, messages=[assistant("go")], events=text_events("go"), children=[one, child(parent)])
    made, unnamed = await store.runs.children(SPACE, parent.run_id)
    assert (made.id, made.status, made.created_at) == ("one", RunStatus.QUEUED, seconds_from_now(clock, 0))
    assert (made.parent_run_id, made.root_run_id) == (parent.run_id, parent.run_id)
    assert made.child_thread_id == made.thread_id != parent.thread_id
    assert (made.agent_type, made.priority, made.limits, made.tags, made.input) == (
        "helper",
        Priority.LOW,
        Limits(token_budget=5),
        ["x"],
        {"why": "because"},
    )
    assert await history_texts(store, made) == ["do this", "and that"]
    assert await store.values.of_run(SPACE, made.id) == {"state": {"n": 1}}
    assert [event.type for event in await store.events.after(SPACE, made.id)] == ["RUN_STARTED"]
    assert unnamed.id.startswith("run_")


async def test_a_child_of_a_commit_equals_one_created_directly(store: Store) -> None:
    parent = await running(store)
    await commit(store, parent, children=[child(parent, "one", "hi", thread=NewThread(id=ThreadId("t-1")))])
    await store.runs.create(SPACE, child(parent, "two", "hi", thread=NewThread(id=ThreadId("t-2"))))
    one, two = await store.runs.children(SPACE, parent.run_id)
    own = {"id": "x", "thread_id": "x", "child_thread_id": "x"}
    assert replace(one, **own) == replace(two, **own)


async def test_a_child_may_be_claimed_and_may_spawn_in_turn(store: Store) -> None:
    root = await running(store)
    middle = await spawned(store, root, "middle")
    leaf = await spawned(store, middle, "leaf")
    assert (leaf.run.parent_run_id, leaf.run.root_run_id) == ("middle", root.run_id)


async def taken_message(store: Store, parent: Lease) -> dict[str, Any]:
    await commit(store, parent, messages=[assistant("x", id="said")])
    return {"messages": [assistant("again", id="said")]}


async def missing_item(store: Store, parent: Lease) -> dict[str, Any]:
    return {"consumed": [9]}


async def settled_step(store: Store, parent: Lease) -> dict[str, Any]:
    await commit(store, parent, messages=[assistant("x")], steps=[model_step(1, StepState.DONE)])
    return {"steps": [model_step(1, StepState.FAILED)]}


async def unread_item(store: Store, parent: Lease) -> dict[str, Any]:
    await store.inbox.put(SPACE, parent.run_id, kind=InboxKind.MESSAGE, data="psst")
    return {"move": WAITING}


async def used_up_budget(store: Store, parent: Lease) -> dict[str, Any]:
    await commit(store, parent, usage=Usage(input_tokens=100, cost_usd=0.0))
    return {"steps": [model_step(1)]}


async def circular_wait(store: Store, parent: Lease) -> dict[str, Any]:
    return {"move": Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD, waits_on=[parent.run_id])}


async def missing_target(store: Store, parent: Lease) -> dict[str, Any]:
    return {"move": Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD, waits_on=[RunId("missing")])}


async def taken_question(store: Store, parent: Lease) -> dict[str, Any]:
    other = await running(store)
    await commit(store, other, interrupts=[new_interrupt("q")], move=Move(to=RunStatus.WAITING, reason=WaitsFor.PERSON))
    return {"interrupts": [new_interrupt("q")], "move": Move(to=RunStatus.WAITING, reason=WaitsFor.PERSON)}


async def taken_child(store: Store, parent: Lease) -> dict[str, Any]:
    await queued(store, id=RunId("taken"))
    return {"children": [child(parent, "first"), child(parent, "taken"), child(parent, "third")]}


async def lost_lease(store: Store, parent: Lease) -> dict[str, Any]:
    await store.leases.release(parent)
    return {}


async def ended_run(store: Store, parent: Lease) -> dict[str, Any]:
    await store.runs.end(SPACE, parent.run_id)
    return {}


REFUSED: dict[Callable[..., Any], type[HoldfastError]] = {
    taken_message: IdTaken,
    missing_item: Invalid,
    settled_step: Conflict,
    unread_item: InboxNotEmpty,
    used_up_budget: BudgetExceeded,
    circular_wait: WouldDeadlock,
    missing_target: NotFound,
    taken_question: Conflict,
    taken_child: IdTaken,
    lost_lease: LeaseLost,
    ended_run: LeaseLost,
}


@pytest.mark.parametrize("why", REFUSED, ids=lambda why: why.__name__)
async def test_a_refused_commit_creates_no_child(store: Store, where: str | Path, why: Callable[..., Any]) -> None:
    parent = await running(store, limits=Limits(token_budget=100))
    parts = {"children": [child(parent, "first"), child(parent, "second", "hi")], **await why(store, parent)}
    before = await rows_of(where)
    with pytest.raises(REFUSED[why]):
        await commit(store, parent, **parts)
    assert await rows_of(where) == before


async def test_refused_commits_do_not_affect_children_of_other_commits_in_the_batch(store: Store) -> None:
    for _ in range(16):
        await queued(store)
    leases = await store.leases.claim(FIRST, lease=MINUTE, limit=16)
    outcomes = await asyncio.gather(
        *(
            commit(store, lease, consumed=[9] if n % 4 == 2 else [], children=[child(lease, f"c-{n}"), child(lease)])
            for n, lease in enumerate(leases)
        ),
        return_exceptions=True,
    )
    for number, (lease, outcome) in enumerate(zip(leases, outcomes, strict=True)):
        assert isinstance(outcome, Invalid if number % 4 == 2 else Committed)
        made = [run.id for run in await store.runs.children(SPACE, lease.run_id)]
        assert made[:1] == ([] if number % 4 == 2 else [f"c-{number}"])
        assert len(made) == (0 if number % 4 == 2 else 2)


async def test_a_child_names_the_run_that_spawns_it_and_begins_a_thread(store: Store, where: str | Path) -> None:
    parent, other = await running(store), await running(store)
    thread = await new_thread(store, SPACE)
    wrong: list[dict[str, Any]] = [
        {"parent_run_id": other.run_id},
        {"parent_run_id": None},
        {"thread": thread},
        {"thread": parent.thread_id},
        {"idempotency_key": "key"},
        {"base": RunBase(run_id=other.run_id)},
        {"id": RunId("not an id")},
        {"values": {"secret": 1}},
    ]
    before = await rows_of(where)
    for options in wrong:
        with pytest.raises(Invalid):
            await commit(store, parent, events=text_events("x"), children=[replace(child(parent), **options)])
    assert await rows_of(where) == before


async def test_a_childs_id_must_never_have_been_used(store: Store, where: str | Path) -> None:
    parent = await running(store)
    gone = await queued(store)
    await store.runs.end(SPACE, gone.id)
    await store.runs.delete(SPACE, gone.id)
    before = await rows_of(where)
    for names in ([gone.id], [parent.run_id], ["twin", "twin"]):
        with pytest.raises(IdTaken):
            await commit(store, parent, events=text_events("x"), children=[child(parent, name) for name in names])
    assert await rows_of(where) == before


async def test_an_existing_thread_id_is_refused_for_a_new_thread(store: Store, where: str | Path) -> None:
    parent = await running(store)
    taken = await new_thread(store, SPACE)
    before = await rows_of(where)
    with pytest.raises(IdTaken):
        await commit(store, parent, children=[child(parent, "one", thread=NewThread(id=taken))])
    assert await rows_of(where) == before


async def test_of_concurrent_commits_that_create_the_same_child_one_succeeds(stores: list[Store]) -> None:
    for _ in range(8):
        await queued(stores[0])
    leases = await stores[0].leases.claim(FIRST, lease=MINUTE, limit=8)
    outcomes = await asyncio.gather(
        *(commit(stores[n % len(stores)], lease, children=[child(lease, "one")]) for n, lease in enumerate(leases)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, IdTaken) for outcome in outcomes) == 7


async def test_many_concurrent_commits_create_all_their_children(stores: list[Store], where: str | Path) -> None:
    for _ in range(12):
        await queued(stores[0])
    leases = await stores[0].leases.claim(FIRST, lease=MINUTE, limit=12)
    await asyncio.gather(
        *(
            commit(stores[n % len(stores)], lease, children=[child(lease, f"{n}-{m}", "hi") for m in range(3)])
            for n, lease in enumerate(leases)
        )
    )
    for number, lease in enumerate(leases):
        made = await stores[0].runs.children(SPACE, lease.run_id)
        assert [run.id for run in made] == [f"{number}-{m}" for m in range(3)]
    assert await orphans_of(where) == {}


async def test_the_nesting_of_sub_agents_of_commits_is_limited(store: Store, where: str | Path) -> None:
    lease = await running(store)
    for depth in range(MAX_SUBAGENT_DEPTH):
        lease = await spawned(store, lease, f"depth-{depth}")
    before = await rows_of(where)
    with pytest.raises(Invalid):
        await commit(store, lease, events=text_events("x"), children=[child(lease)])
    assert await rows_of(where) == before


@pytest.mark.parametrize("move", [COMPLETED, FAILED], ids=["completed", "failed"])
async def test_a_childs_end_reaches_the_inbox_of_its_parent(store: Store, move: Move) -> None:
    parent = await running(store)
    lease = await spawned(store, parent, "one")
    await commit(store, parent, move=Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD, waits_on=[RunId("one")]))
    await commit(store, lease, move=replace(move, output={"n": 1}))
    assert await status(store, parent.run_id) is RunStatus.QUEUED
    (item,) = await store.journal.inbox(await claim(store))
    assert item.kind is InboxKind.CHILD
    assert item.data == {
        "run_id": "one",
        "thread_id": lease.thread_id,
        "status": move.to.value,
        "output": {"n": 1},
        "error": None,
    }


async def test_the_end_of_a_child_from_outside_reaches_its_parent_too(store: Store) -> None:
    parent = await running(store)
    await commit(store, parent, children=[child(parent, "one")], move=WAITING)
    await store.runs.end(SPACE, RunId("one"))
    (item,) = await store.journal.inbox(await claim(store))
    assert isinstance(item.data, dict)
    assert (item.data["run_id"], item.data["status"]) == ("one", "cancelled")


async def test_ending_a_run_ends_the_children_of_its_commits(store: Store) -> None:
    root = await running(store)
    middle = await spawned(store, root, "middle")
    await commit(store, middle, children=[child(middle, "leaf")])
    ended = await store.runs.end(SPACE, root.run_id)
    assert [run.id for run in ended] == [root.run_id, "middle", "leaf"]
    assert {await status(store, RunId(name)) for name in ("middle", "leaf")} == {RunStatus.CANCELLED}


async def test_a_child_stays_active_when_the_commit_that_creates_it_completes_its_parent(store: Store) -> None:
    parent = await running(store)
    await commit(store, parent, children=[child(parent, "one")], move=COMPLETED)
    lease = await claim(store, SECOND)
    await commit(store, lease, move=COMPLETED)
    assert await status(store, RunId("one")) is RunStatus.COMPLETED


async def test_no_child_of_a_commit_outlives_an_end_that_it_raced_with(stores: list[Store]) -> None:
    for number in range(20):
        parent = await running(stores[0])
        _, committed = await asyncio.gather(
            stores[-1].runs.end(SPACE, parent.run_id),
            commit(stores[0], parent, children=[child(parent, f"c-{number}")]),
            return_exceptions=True,
        )
        children = await stores[0].runs.children(SPACE, parent.run_id)
        assert isinstance(committed, Committed if children else LeaseLost)
        assert [run.status for run in children] == [RunStatus.CANCELLED] * len(children)


async def test_children_are_deleted_with_their_parent(store: Store, where: str | Path) -> None:
    parent = await running(store)
    await commit(store, parent, children=[child(parent, "one", "hi"), child(parent, "two")])
    await store.runs.end(SPACE, parent.run_id)
    await store.leases.release(parent)
    await store.runs.delete(SPACE, parent.run_id)
    rows = await rows_of(where)
    assert [rows[table] for table in ("runs", "threads", "messages", "events")] == [[], [], [], []]
