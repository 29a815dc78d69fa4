"""Reading tasks, lists of tasks, their events and contexts."""

import asyncio
import re
from typing import Any, Final

import pytest

from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Mode, RunStatus
from holdfast.domain.thread import NewThread
from tests.api.site import serve
from tests.api.task_contract.task_client import TaskClient, check_error, run_of
from tests.builders import user
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace

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


async def test_a_finished_task_has_all_its_fields(any_client: TaskClient) -> None:
    name = await any_client.run_to_end(tags=["a"])
    task = await any_client.read(name)
    check_task(task, eventCount=int)
    assert (task["id"], task["agent_name"], task["status"], task["priority"]) == (name, "bot", "finished", "normal")
    assert (task["input"], task["output"], task["error"], task["tags"]) == ("go", "hello you", None, ["a"])
    assert (task["iterations"], task["token_input"], task["token_output"]) == (1, 7, 2)
    assert task["parent_task_id"] is None
    assert task["created_at"] <= task["started_at"] <= task["finished_at"]
    assert task["session_id"] == (await any_client.run(name)).thread_id


async def test_a_failed_task_has_its_error(client: TaskClient) -> None:
    task = await client.read(await client.run_to_end("failing"))
    check_task(task, eventCount=int)
    assert (task["status"], task["output"]) == ("failed", None)
    assert task["error"].items() >= {"code": "MODEL_REFUSED", "message": "no", "iteration": 0}.items()
    assert task["finished_at"] is not None


async def test_a_waiting_task_has_no_output_error_or_end_time(client: TaskClient) -> None:
    task = await client.read(await client.run_to_interrupt())
    assert (task["status"], task["output"], task["error"], task["finished_at"]) == ("waiting", None, None, None)
    assert task["started_at"] is not None


async def test_a_pending_task_has_not_started(idle_client: TaskClient) -> None:
    task = await idle_client.read(await idle_client.create())
    check_task(task, eventCount=int)
    assert (task["status"], task["started_at"], task["eventCount"], task["iterations"]) == ("pending", None, 0, 0)


async def test_a_task_that_waits_for_a_timer_is_processing(client: TaskClient) -> None:
    name = await client.wait_for_status(await client.create("sleeper"), RunStatus.WAITING)
    assert (await client.read(name))["status"] == "processing"
    await client.site.post(f"/tasks/{name}/cancel", expect=200)


async def test_a_spawned_task_names_its_parent(client: TaskClient) -> None:
    parent = await client.run_to_end("parent")
    (child,) = await client.site.store.runs.children(SPACE, run_of(parent))
    task = await client.read(child.id.replace("run_", "task_"))
    assert (task["parent_task_id"], task["input"], task["status"]) == (parent, "help", "finished")


async def test_both_apis_accept_run_ids_and_task_ids(client: TaskClient) -> None:
    task = await client.run_to_end()
    run = run_of(task)
    for path in ("/tasks/{}", "/tasks/{}/events", "/tasks/{}/context", "/api/runs/{}", "/api/runs/{}/events"):
        by_task, by_run = [await client.site.get(path.format(name)) for name in (task, run)]
        assert by_task == by_run, path
    assert (await client.read(run))["id"] == task
    assert (await client.site.get(f"/tasks/{run}/events"))["taskId"] == task
    assert (await client.site.get(f"/api/runs/{task}"))["id"] == run


async def test_the_list_has_only_tasks_newest_first(client: TaskClient) -> None:
    first, second = await client.run_to_end(), await client.run_to_end("failing")
    chat = (
        await client.site.store.runs.create(SPACE, NewRun(thread=NewThread(agent_type="bot"), messages=[user("x")]))
    ).run
    assert chat.mode is Mode.CHAT
    page = await client.site.get("/tasks")
    assert set(page) == {"tasks", "next_cursor"}
    assert [task["id"] for task in page["tasks"]][:2] == [second, first]
    for task in page["tasks"]:
        check_task(task)
    for path in ("", "/events", "/context", "/stream"):
        check_error(await client.request("GET", f"/tasks/{chat.id}{path}"), 404, "TASK_NOT_FOUND")


async def test_a_listed_task_equals_the_task_without_its_event_count(client: TaskClient) -> None:
    await client.run_to_end("worker", tags=["same"])
    (listed,) = (await client.site.get("/tasks", tag="same"))["tasks"]
    task = await client.read(listed["id"])
    assert {name: value for name, value in task.items() if name != "eventCount"} == listed


async def test_lists_are_filtered_by_agent_status_priority_and_tag(any_client: TaskClient) -> None:
    tag = f"filtered {any_client.site.host}"
    made = {
        "finished": await any_client.run_to_end(tags=[tag, "a"], priority="high"),
        "failed": await any_client.run_to_end("failing", tags=[tag]),
        "waiting": await any_client.wait_for_status(await any_client.create("asker", tags=[tag]), RunStatus.WAITING),
        "processing": await any_client.wait_for_text(await any_client.create("staller", tags=[tag], priority="low")),
        "canceled": await any_client.create("staller", tags=[tag]),
    }
    await any_client.site.post(f"/tasks/{made['canceled']}/cancel", expect=200)
    for status, task in made.items():
        assert await any_client.list_ids(status=status, tag=tag) == [task]
        assert (await any_client.read(task))["status"] == status
    assert await any_client.list_ids(status="pending", tag=tag) == []
    assert await any_client.list_ids(agentName="asker", tag=tag) == [made["waiting"]]
    assert await any_client.list_ids(agentName="nobody", tag=tag) == []
    assert await any_client.list_ids(priority="high", tag=tag) == [made["finished"]]
    assert await any_client.list_ids(priority="low", tag=tag) == [made["processing"]]
    assert await any_client.list_ids(tag=tag, agentName="staller", priority="low", status="processing") == [
        made["processing"]
    ]
    assert await any_client.list_ids(tag="a", agentName="bot", limit=1) == [made["finished"]]
    assert set(await any_client.list_ids(tag=tag)) == set(made.values())
    for name in ("waiting", "processing"):
        await any_client.site.delete(f"/tasks/{made[name]}?force=true", expect=200)


async def test_the_cursor_of_a_list_is_its_last_task(idle_client: TaskClient) -> None:
    made = [await idle_client.create(tags=["paged"]) for _ in range(23)][::-1]
    first = await idle_client.site.get("/tasks", tag="paged")
    assert [task["id"] for task in first["tasks"]] == made[:20]
    assert first["next_cursor"] == made[19]
    rest = await idle_client.site.get("/tasks", tag="paged", cursor=made[19])
    assert ([task["id"] for task in rest["tasks"]], rest["next_cursor"]) == (made[20:], None)
    assert await idle_client.list_ids(tag="paged", cursor=run_of(made[4]), limit=3) == made[5:8]
    whole = await idle_client.site.get("/tasks", tag="paged", limit=23)
    assert whole["next_cursor"] is None, "the last page has no cursor"
    for name in (made[4], made[22]):
        await idle_client.site.delete(f"/tasks/{name}?force=true", expect=200)
    assert await idle_client.list_ids(tag="paged", cursor=made[4], limit=3) == made[5:8], (
        "even if the task of the cursor was deleted"
    )


async def test_a_page_may_exceed_the_native_page_size(workshop: AgentWorkspace) -> None:
    async with serve(workshop, workers=0) as site:
        new = NewRun(thread=NewThread(agent_type="bot"), mode=Mode.TASK)
        runs = [made.run for made in await asyncio.gather(*(site.store.runs.create(SPACE, new) for _ in range(205)))]
        listed = await TaskClient(site).list_ids(limit=1000)
        assert set(listed) == {run.id.replace("run_", "task_") for run in runs} and len(listed) == 205
        assert await TaskClient(site).list_ids(limit=203) == listed[:203]


async def test_the_events_of_a_task_have_the_documented_shape(any_client: TaskClient) -> None:
    task = await any_client.run_to_end("worker")
    response = await any_client.site.get(f"/tasks/{task}/events")
    assert (response["taskId"], response["next_cursor"]) == (task, None)
    events = response["events"]
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
    assert (await any_client.read(task))["eventCount"] == len(events)


def _short(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in ("durationMs", "outputPreview")}


@pytest.mark.parametrize("agent", ["bot", "failing", "worker", "parent", "asker", "sleeper", "curious"])
async def test_event_ids_are_log_numbers_and_the_count_is_right(client: TaskClient, agent: str) -> None:
    task = await (client.run_to_interrupt if agent in ("asker", "sleeper", "curious") else client.run_to_end)(agent)
    log = dict(await client.site.log(run_of(task)))
    events = await client.events(task)
    for _ in range(2):  # the second count reads only new events
        assert (await client.read(task))["eventCount"] == len(events)
    ids = [event["id"] for event in events]
    assert ids == sorted(set(ids)) and set(ids) <= set(log)
    await client.site.delete(f"/tasks/{task}?force=true", expect=200)


async def test_concurrent_event_counts_are_equal(any_client: TaskClient) -> None:
    task = await any_client.run_to_end("worker")
    counts = [read["eventCount"] for read in await asyncio.gather(*(any_client.read(task) for _ in range(8)))]
    assert counts == [6] * 8


async def test_the_cursor_of_events_is_the_last_id(client: TaskClient) -> None:
    task = await client.run_to_end("worker")
    events = await client.events(task)
    ids = [event["id"] for event in events]
    for since in range(ids[-1] + 2):
        assert await client.events(task, since=since) == [event for event in events if event["id"] > since]
    page = await client.site.get(f"/tasks/{task}/events", limit=4)
    assert (page["events"], page["next_cursor"]) == (events[:4], ids[3])
    page = await client.site.get(f"/tasks/{task}/events", since=ids[3], limit=2)
    assert (page["events"], page["next_cursor"]) == (events[4:], None)


async def test_cancelling_a_task_ends_its_open_tool_calls(client: TaskClient) -> None:
    task = await client.run_to_interrupt()
    await client.site.post(f"/tasks/{task}/cancel", expect=200)
    events = [(event["type"], _short(event["data"])) for event in await client.events(task)]
    assert events[-2:] == [
        ("tool.end", {"toolName": "ask_user", "success": False}),
        ("status.change", {"from": "waiting", "to": "canceled"}),
    ]


async def test_the_context_is_that_of_the_last_model_call(any_client: TaskClient) -> None:
    task = await any_client.run_to_end("worker")
    response = await any_client.site.get(f"/tasks/{task}/context")
    context = response["context"]
    assert set(response) == {"taskId", "context"} and response["taskId"] == task
    assert set(context) == {"messages", "tools", "iteration", "timestamp"}
    assert (context["tools"], context["iteration"]) == (["todo_write"], 3) and TIME.fullmatch(context["timestamp"])
    roles = [message["role"] for message in context["messages"]]
    assert roles[:6] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    system, message, reply, result, *_ = context["messages"]
    assert "Do as you are told." in system["content"] and message == {"role": "user", "content": "go"}
    (call,) = reply["tool_calls"]
    assert reply["content"] is None and call["type"] == "function" and call["function"]["name"] == "todo_write"
    assert call["function"]["arguments"] == '{"items":[{"text":"x"}]}'
    assert result["tool_call_id"] == call["id"]


async def test_there_is_no_context_before_the_first_model_call(idle_client: TaskClient) -> None:
    task = await idle_client.create()
    assert await idle_client.site.get(f"/tasks/{task}/context") == {"taskId": task, "context": None}
