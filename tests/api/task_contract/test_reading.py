"""Reading tasks: one, many, and what happened to them."""

import asyncio
import re
from typing import Any, Final

import pytest

from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Mode, RunStatus
from holdfast.domain.thread import NewThread
from tests.api.site import served
from tests.api.task_contract.desk import Desk, refused, run_of
from tests.builders import user
from tests.scenario.agents.workshop import SPACE, Workshop

FIELDS: Final = {
    "id": str,
    "agent_name": str,
    "session_id": str | None,
    "status": str,
    "priority": str,
    "input": str,
    "output": str | None,
    "error": dict | None,
    "iterations": int,
    "token_input": int,
    "token_output": int,
    "tags": list,
    "parent_task_id": str | None,
    "created_at": str,
    "started_at": str | None,
    "finished_at": str | None,
}
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def check_task(task: dict[str, Any], **more: Any) -> None:
    """Check that a task has the fields that the page lists, each of its type."""
    fields = FIELDS | more
    assert set(task) == set(fields)
    assert {name: task[name] for name, kind in fields.items() if not isinstance(task[name], kind)} == {}
    for name in ("created_at", "started_at", "finished_at"):
        assert task[name] is None or TIME.fullmatch(task[name])
    assert not isinstance(task["iterations"], bool)


async def test_a_finished_task_has_all_its_fields(any_desk: Desk) -> None:
    name = await any_desk.ended(tags=["a"])
    task = await any_desk.read(name)
    check_task(task, eventCount=int)
    assert (task["id"], task["agent_name"], task["status"], task["priority"]) == (name, "bot", "finished", "normal")
    assert (task["input"], task["output"], task["error"], task["tags"]) == ("go", "hello you", None, ["a"])
    assert (task["iterations"], task["token_input"], task["token_output"]) == (1, 7, 2)
    assert task["parent_task_id"] is None
    assert task["created_at"] <= task["started_at"] <= task["finished_at"]
    assert task["session_id"] == (await any_desk.run(name)).thread_id


async def test_a_failed_task_says_why(desk: Desk) -> None:
    task = await desk.read(await desk.ended("failing"))
    check_task(task, eventCount=int)
    assert (task["status"], task["output"]) == ("failed", None)
    assert task["error"].items() >= {"code": "MODEL_REFUSED", "message": "no", "iteration": 1}.items()
    assert task["finished_at"] is not None


async def test_a_task_that_waits_has_neither_output_nor_error_nor_end(desk: Desk) -> None:
    task = await desk.read(await desk.asking())
    assert (task["status"], task["output"], task["error"], task["finished_at"]) == ("waiting", None, None, None)
    assert task["started_at"] is not None


async def test_a_pending_task_has_not_started(still_desk: Desk) -> None:
    task = await still_desk.read(await still_desk.create())
    check_task(task, eventCount=int)
    assert (task["status"], task["started_at"], task["eventCount"], task["iterations"]) == ("pending", None, 0, 0)


async def test_a_task_that_waits_for_a_time_is_at_work(desk: Desk) -> None:
    name = await desk.comes_to(await desk.create("sleeper"), RunStatus.WAITING)
    assert (await desk.read(name))["status"] == "processing"
    await desk.site.post(f"/tasks/{name}/cancel", expect=200)


async def test_a_spawned_task_names_its_parent(desk: Desk) -> None:
    parent = await desk.ended("parent")
    (child,) = await desk.site.store.runs.children(SPACE, run_of(parent))
    task = await desk.read(child.id.replace("run_", "task_"))
    assert (task["parent_task_id"], task["input"], task["status"]) == (parent, "help", "finished")


async def test_either_id_names_it_on_either_side(desk: Desk) -> None:
    task = await desk.ended()
    run = run_of(task)
    for path in ("/tasks/{}", "/tasks/{}/events", "/tasks/{}/context", "/api/runs/{}", "/api/runs/{}/events"):
        by_task, by_run = [await desk.site.get(path.format(name)) for name in (task, run)]
        assert by_task == by_run, path
    assert (await desk.read(run))["id"] == task
    assert (await desk.site.get(f"/tasks/{run}/events"))["taskId"] == task
    assert (await desk.site.get(f"/api/runs/{task}"))["id"] == run


async def test_the_list_has_tasks_only_and_the_newest_first(desk: Desk) -> None:
    first, second = await desk.ended(), await desk.ended("failing")
    chat = (
        await desk.site.store.runs.create(SPACE, NewRun(thread=NewThread(agent_type="bot"), messages=[user("x")]))
    ).run
    assert chat.mode is Mode.CHAT
    page = await desk.site.get("/tasks")
    assert set(page) == {"tasks", "next_cursor"}
    assert [task["id"] for task in page["tasks"]][:2] == [second, first]
    for task in page["tasks"]:
        check_task(task)
    for path in ("", "/events", "/context", "/stream"):
        refused(await desk.ask("GET", f"/tasks/{chat.id}{path}"), 404, "TASK_NOT_FOUND")


async def test_a_listed_task_says_what_the_task_itself_says(desk: Desk) -> None:
    await desk.ended("worker", tags=["same"])
    (listed,) = (await desk.site.get("/tasks", tag="same"))["tasks"]
    task = await desk.read(listed["id"])
    assert {name: value for name, value in task.items() if name != "eventCount"} == listed


async def test_lists_are_filtered_by_agent_status_priority_and_tag(any_desk: Desk) -> None:
    tag = f"filtered {any_desk.site.host}"
    made = {
        "finished": await any_desk.ended(tags=[tag, "a"], priority="high"),
        "failed": await any_desk.ended("failing", tags=[tag]),
        "waiting": await any_desk.comes_to(await any_desk.create("asker", tags=[tag]), RunStatus.WAITING),
        "processing": await any_desk.begun(await any_desk.create("staller", tags=[tag], priority="low")),
        "canceled": await any_desk.create("staller", tags=[tag]),
    }
    await any_desk.site.post(f"/tasks/{made['canceled']}/cancel", expect=200)
    for status, task in made.items():
        assert await any_desk.listed(status=status, tag=tag) == [task]
        assert (await any_desk.read(task))["status"] == status
    assert await any_desk.listed(status="pending", tag=tag) == []
    assert await any_desk.listed(agentName="asker", tag=tag) == [made["waiting"]]
    assert await any_desk.listed(agentName="nobody", tag=tag) == []
    assert await any_desk.listed(priority="high", tag=tag) == [made["finished"]]
    assert await any_desk.listed(priority="low", tag=tag) == [made["processing"]]
    assert await any_desk.listed(tag=tag, agentName="staller", priority="low", status="processing") == [
        made["processing"]
    ]
    assert await any_desk.listed(tag="a", agentName="bot", limit=1) == [made["finished"]]
    assert set(await any_desk.listed(tag=tag)) == set(made.values())
    for name in ("waiting", "processing"):
        await any_desk.site.delete(f"/tasks/{made[name]}?force=true", expect=200)


async def test_a_list_is_read_in_pages_by_the_last_task(still_desk: Desk) -> None:
    made = [await still_desk.create(tags=["paged"]) for _ in range(23)][::-1]
    first = await still_desk.site.get("/tasks", tag="paged")
    assert [task["id"] for task in first["tasks"]] == made[:20]
    assert first["next_cursor"] == made[19]
    rest = await still_desk.site.get("/tasks", tag="paged", cursor=made[19])
    assert ([task["id"] for task in rest["tasks"]], rest["next_cursor"]) == (made[20:], None)
    assert await still_desk.listed(tag="paged", cursor=run_of(made[4]), limit=3) == made[5:8]
    whole = await still_desk.site.get("/tasks", tag="paged", limit=23)
    assert whole["next_cursor"] is None, "no cursor, no more"
    for name in (made[4], made[22]):
        await still_desk.site.delete(f"/tasks/{name}?force=true", expect=200)
    assert await still_desk.listed(tag="paged", cursor=made[4], limit=3) == made[5:8], "even if that one is gone"


async def test_a_page_may_be_longer_than_one_of_the_native_lists(workshop: Workshop) -> None:
    async with served(workshop, workers=0) as site:
        new = NewRun(thread=NewThread(agent_type="bot"), mode=Mode.TASK)
        runs = [made.run for made in await asyncio.gather(*(site.store.runs.create(SPACE, new) for _ in range(205)))]
        listed = await Desk(site).listed(limit=1000)
        assert set(listed) == {run.id.replace("run_", "task_") for run in runs} and len(listed) == 205
        assert await Desk(site).listed(limit=203) == listed[:203]


async def test_the_events_of_a_task_are_those_of_the_page(any_desk: Desk) -> None:
    task = await any_desk.ended("worker")
    answer = await any_desk.site.get(f"/tasks/{task}/events")
    assert (answer["taskId"], answer["next_cursor"]) == (task, None)
    events = answer["events"]
    assert [(event["type"], _short(event["data"])) for event in events] == [
        ("status.change", {"from": "pending", "to": "processing"}),
        ("tool.start", {"toolName": "todo_write", "toolInput": {"items": [{"text": "x"}]}}),
        ("tool.end", {"toolName": "todo_write", "success": True}),
        ("tool.start", {"toolName": "todo_write", "toolInput": {"nonsense": True}}),
        ("tool.end", {"toolName": "todo_write", "success": False}),
        ("status.change", {"from": "processing", "to": "finished"}),
    ]
    for event in events:
        assert list(event) == ["id", "type", "data", "created_at", "event", "timestamp"]
        assert isinstance(event["id"], int) and TIME.fullmatch(event["created_at"])
        if event["type"] == "tool.end":
            assert isinstance(event["data"]["durationMs"], int) and event["data"]["outputPreview"]
    assert (await any_desk.read(task))["eventCount"] == len(events)


def _short(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in ("durationMs", "outputPreview")}


@pytest.mark.parametrize("agent", ["bot", "failing", "worker", "parent", "asker", "sleeper", "curious"])
async def test_event_ids_are_numbers_of_the_log_and_their_count_is_known(desk: Desk, agent: str) -> None:
    task = await (desk.asking if agent in ("asker", "sleeper", "curious") else desk.ended)(agent)
    log = dict(await desk.site.log(run_of(task)))
    events = await desk.events(task)
    for _ in range(2):  # the second time what was counted before is not read again
        assert (await desk.read(task))["eventCount"] == len(events)
    ids = [event["id"] for event in events]
    assert ids == sorted(set(ids)) and set(ids) <= set(log)
    await desk.site.delete(f"/tasks/{task}?force=true", expect=200)


async def test_many_who_count_the_events_at_once_count_the_same(any_desk: Desk) -> None:
    task = await any_desk.ended("worker")
    counts = [read["eventCount"] for read in await asyncio.gather(*(any_desk.read(task) for _ in range(8)))]
    assert counts == [6] * 8


async def test_events_are_read_in_pages_by_the_last_id(desk: Desk) -> None:
    task = await desk.ended("worker")
    events = await desk.events(task)
    ids = [event["id"] for event in events]
    for since in range(ids[-1] + 2):
        assert await desk.events(task, since=since) == [event for event in events if event["id"] > since]
    page = await desk.site.get(f"/tasks/{task}/events", limit=4)
    assert (page["events"], page["next_cursor"]) == (events[:4], ids[3])
    page = await desk.site.get(f"/tasks/{task}/events", since=ids[3], limit=2)
    assert (page["events"], page["next_cursor"]) == (events[4:], None)


async def test_the_events_of_a_cancelled_task_end_what_it_began(desk: Desk) -> None:
    task = await desk.asking()
    await desk.site.post(f"/tasks/{task}/cancel", expect=200)
    events = [(event["type"], _short(event["data"])) for event in await desk.events(task)]
    assert events[-2:] == [
        ("tool.end", {"toolName": "ask_user", "success": False}),
        ("status.change", {"from": "waiting", "to": "canceled"}),
    ]


async def test_the_context_is_what_the_model_was_told_last(any_desk: Desk) -> None:
    task = await any_desk.ended("worker")
    answer = await any_desk.site.get(f"/tasks/{task}/context")
    context = answer["context"]
    assert set(answer) == {"taskId", "context"} and answer["taskId"] == task
    assert set(context) == {"messages", "tools", "iteration", "timestamp"}
    assert (context["tools"], context["iteration"]) == (["todo_write"], 3) and TIME.fullmatch(context["timestamp"])
    roles = [message["role"] for message in context["messages"]]
    assert roles[:6] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    system, said, asked, result, *_ = context["messages"]
    assert "Do as you are told." in system["content"] and said == {"role": "user", "content": "go"}
    (call,) = asked["tool_calls"]
    assert asked["content"] is None and call["type"] == "function" and call["function"]["name"] == "todo_write"
    assert call["function"]["arguments"] == '{"items":[{"text":"x"}]}'
    assert result["tool_call_id"] == call["id"]


async def test_there_is_no_context_before_the_first_model_call(still_desk: Desk) -> None:
    task = await still_desk.create()
    assert await still_desk.site.get(f"/tasks/{task}/context") == {"taskId": task, "context": None}
