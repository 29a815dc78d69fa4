"""`Plans`: plans as people read and edit them."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, NotFound, ThreadClosed, TooLarge
from holdfast.domain.events import event_type
from holdfast.domain.ids import ThreadId, ToolCallId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.message import NewMessage, Role, ToolCall
from holdfast.domain.plan import Boundary, PlanStatus, ThreadTask
from holdfast.domain.plan_edit import AddPlanItem, ChangePlanItem, NewPlanItem, PlanItemPatch
from holdfast.domain.run import RunStatus
from holdfast.domain.thread import NewThread, ThreadPatch, ThreadStatus
from holdfast.ports.runs import TaskFilter
from holdfast.store.store import Store
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import COMPLETED, WAITING, commit, get, run_after, running, stream
from tests.conformance.tables import rows_of

PLAN: Json = {"items": [{"task_id": 1, "position": 0, "title": "bake"}]}


async def add(store: Store, thread: ThreadId, title: str = "mix") -> ThreadTask:
    return await store.plans.edit(SPACE, thread, AddPlanItem(item=NewPlanItem(title=title)), by="ann")


async def rename(store: Store, thread: ThreadId, task_id: int, title: str) -> ThreadTask:
    return await store.plans.edit(SPACE, thread, ChangePlanItem(task_id=task_id, patch=PlanItemPatch(title=title)))


async def test_an_edit_of_an_ended_run_is_saved_and_inherited(store: Store) -> None:
    lease = await running(store, "begin")
    await store.journal.next_task_id(lease, step="s")
    await commit(store, lease, values={"plan": PLAN}, move=COMPLETED)
    assert (await add(store, lease.thread_id)).task_id == 2
    assert (await rename(store, lease.thread_id, 1, "fry")).title == "fry"
    plan = await store.plans.of_run(SPACE, lease.run_id)
    assert [item.title for item in plan.items] == ["fry", "mix"]
    following = await run_after(store, await get(store, lease.run_id), "go on")
    assert await store.plans.of_run(SPACE, following.id) == plan


async def planned_thread(store: Store, *titles: str) -> ThreadId:
    lease = await running(store, "begin")
    await commit(store, lease, move=COMPLETED)
    for title in titles:
        await add(store, lease.thread_id, title)
    return lease.thread_id


async def test_items_are_listed_in_pages_of_any_size(store: Store) -> None:
    three, _, one = [await planned_thread(store, *titles) for titles in ("abc", "", "d")]
    expected = [(one, "d"), (three, "a"), (three, "b"), (three, "c")]
    for limit in (1, 2, 3, 4, 200):
        listed, cursor = [], None
        while True:
            page = await store.plans.page(SPACE, limit=limit, cursor=cursor)
            assert len(page.items) <= limit
            listed += [(item.thread_id, item.title) for item in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert listed == expected


async def test_items_are_listed_by_the_filter_and_without_deleted_threads(store: Store) -> None:
    kept, gone = await planned_thread(store, "a", "b"), await planned_thread(store, "c")
    agent = (await store.runs.page(SPACE, limit=1)).items[0].agent_type
    done = PlanItemPatch(status=PlanStatus.COMPLETED, conclusion="x")
    await store.plans.edit(SPACE, kept, ChangePlanItem(task_id=2, patch=done))
    await store.threads.update(SPACE, gone, ThreadPatch(status=ThreadStatus.DELETED))

    async def titles(**where: object) -> list[str]:
        found = await store.plans.page(SPACE, where=msgspec.convert(where, TaskFilter))
        return [item.title for item in found.items]

    assert await titles() == ["a", "b"]
    assert (await titles(status="completed"), await titles(priority="medium", status="planned")) == (["b"], ["a"])
    assert (await titles(thread_id=kept, agent_type=agent), await titles(agent_type="x")) == (["a", "b"], [])
    with pytest.raises(NotFound):
        await titles(thread_id="nothing")


async def test_an_item_belongs_to_the_run_whose_plan_got_it(store: Store) -> None:
    lease = await running(store, "begin")
    await commit(store, lease, move=COMPLETED)
    first = await add(store, lease.thread_id)
    following = await run_after(store, await get(store, lease.run_id), "go on")
    second = await add(store, lease.thread_id)
    assert [(item.run_id, item.thread_id) for item in (first, second)] == [
        (lease.run_id, lease.thread_id),
        (following.id, lease.thread_id),
    ]
    assert (await rename(store, lease.thread_id, first.task_id, "stir")).run_id == lease.run_id


async def test_an_item_of_an_older_version_belongs_to_the_run_that_is_read(store: Store) -> None:
    lease = await running(store, "begin")
    await store.journal.next_task_id(lease, step="s")
    await commit(store, lease, values={"plan": PLAN}, move=COMPLETED)
    (item,) = (await store.plans.page(SPACE, where=TaskFilter(thread_id=lease.thread_id))).items
    assert (item.run_id, item.agent_type) == (lease.run_id, lease.run.agent_type)


async def test_an_item_started_by_a_person_starts_at_the_end_of_the_conversation(store: Store) -> None:
    lease = await running(store, "begin")
    made = await add(store, lease.thread_id)
    begin = ChangePlanItem(task_id=made.task_id, patch=PlanItemPatch(status=PlanStatus.IN_PROGRESS))
    begun = await store.plans.edit(SPACE, lease.thread_id, begin)
    assert begun.start == Boundary(message_sequence_num=0, content_sequence_num=0)  # only the user's message
    call = ToolCall(id=ToolCallId("c1"), name="look", arguments={})
    say = NewMessage(role=Role.ASSISTANT, content="let me see", tool_calls=[call, replace(call, id=ToolCallId("c2"))])
    results = [NewMessage(role=Role.TOOL, content="x", tool_call_id=ToolCallId(name)) for name in ("c1", "c2")]
    await commit(store, lease, messages=[say, *results])
    done = PlanItemPatch(status=PlanStatus.COMPLETED, conclusion="x")
    ended = await store.plans.edit(SPACE, lease.thread_id, ChangePlanItem(task_id=made.task_id, patch=done))
    assert (ended.start, ended.end) == (begun.start, Boundary(message_sequence_num=1, content_sequence_num=2))
    assert begun.started_at is not None
    assert begun.ended_at is None
    assert ended.started_at == begun.started_at
    assert ended.ended_at is not None
    assert ended.ended_at >= begun.started_at


async def test_an_active_run_gets_the_edit_in_its_inbox_and_its_plan_shows_it_at_once(store: Store) -> None:
    lease = await running(store, "begin")
    made = await add(store, lease.thread_id)
    assert (await rename(store, lease.thread_id, made.task_id, "stir")).title == "stir"
    assert [item.title for item in (await store.plans.of_run(SPACE, lease.run_id)).items] == ["stir"]
    items = await store.journal.inbox(lease)
    assert [(item.kind, item.created_by) for item in items] == [(InboxKind.EDIT, "ann"), (InboxKind.EDIT, None)]
    assert await store.values.of_run(SPACE, lease.run_id) == {}


async def test_an_unread_edit_is_saved_when_the_run_is_ended(store: Store) -> None:
    lease = await running(store, "begin")
    await store.journal.next_task_id(lease, step="s")
    await commit(store, lease, values={"plan": PLAN})
    await rename(store, lease.thread_id, 1, "fry")
    await add(store, lease.thread_id)
    plan = await store.plans.of_run(SPACE, lease.run_id)
    await store.runs.end(SPACE, lease.run_id)
    await store.leases.release(lease)
    assert [item.title for item in plan.items] == ["fry", "mix"]
    assert await store.plans.of_run(SPACE, lease.run_id) == plan
    following = await run_after(store, await get(store, lease.run_id), "go on")
    assert await store.plans.of_run(SPACE, following.id) == plan
    *_, changed, _ = await stream(store, lease.run_id)
    assert event_type(changed) == "CUSTOM" and "fry" in str(changed)


async def test_a_waiting_run_is_woken_by_an_edit(store: Store) -> None:
    lease = await running(store, "begin")
    await commit(store, lease, move=WAITING)
    await add(store, lease.thread_id)
    assert (await get(store, lease.run_id)).status is RunStatus.QUEUED


async def test_each_item_number_is_used_once(store: Store) -> None:
    lease = await running(store, "begin")
    made = await asyncio.gather(*(add(store, lease.thread_id) for _ in range(10)))
    own = await store.journal.next_task_id(lease, step="s")
    assert sorted([own, *(item.task_id for item in made)]) == list(range(1, 12))


async def test_an_invalid_edit_changes_nothing(store: Store, where: str | Path) -> None:
    lease = await running(store, "begin")
    await store.journal.next_task_id(lease, step="s")
    await commit(store, lease, values={"plan": PLAN}, move=COMPLETED)
    empty = (await store.threads.create(SPACE, NewThread())).id
    before = await rows_of(where)
    with pytest.raises(NotFound):
        await rename(store, lease.thread_id, 9, "x")
    with pytest.raises(Conflict):
        await add(store, empty)
    with pytest.raises(TooLarge):
        await add(store, lease.thread_id, "x" * 301)
    assert await rows_of(where) == before


async def test_a_closed_thread_refuses_edits(store: Store) -> None:
    lease = await running(store, "begin")
    await commit(store, lease, move=COMPLETED)
    await store.threads.update(SPACE, lease.thread_id, ThreadPatch(status=ThreadStatus.ARCHIVED))
    with pytest.raises(ThreadClosed):
        await add(store, lease.thread_id)
