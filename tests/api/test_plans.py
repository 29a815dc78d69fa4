"""Plans over HTTP: read in both formats, and changed by users."""

import warnings
from importlib import import_module

import pytest
from pydantic import BaseModel, ConfigDict

from holdfast.domain.content import Json
from tests.api.site import Site, eventually
from tests.api.test_runs import start_waiting_run


async def thread_with_plan(site: Site) -> str:
    """Create a thread whose agent has made a plan, and return its id."""
    thread = await site.thread(agent_type="planner")
    await site.play(thread)
    return thread


async def test_a_plan_is_read_in_both_formats(backend_site: Site) -> None:
    thread = await backend_site.thread(agent_type="planner")
    run = await backend_site.play(thread)
    tasks = await backend_site.get(f"/api/threads/{thread}/tasks")
    (item,) = tasks["items"]
    assert (tasks["run_id"], item["title"], item["status"], item["task_id"]) == (run["id"], "bake", "planned", 1)
    plan = await backend_site.get(f"/api/threads/{thread}/plan", run_id=run["id"])
    assert [(task["title"], task["status"]) for task in plan["tasks"]] == [("bake", "pending")]
    space = await backend_site.get("/api/spaces/default/tasks", limit=200)
    assert item in space["items"]


async def test_users_add_and_change_plan_items(backend_site: Site) -> None:
    thread = await thread_with_plan(backend_site)
    path = f"/api/threads/{thread}/tasks"
    body = {
        "title": "eat",
        "priority": "urgent",
        "plan": {"how": "slowly"},
        "subtasks": [{"title": "fork"}],
        "position": 0,
    }
    created = await backend_site.post(path, body)
    assert {name: created[name] for name in body} == body | {"subtasks": [{"title": "fork", "status": "pending"}]}
    assert (created["task_id"], created["status"]) == (2, "planned")
    started = await backend_site.patch(f"{path}/2", {"status": "in_progress", "title": "dine"})
    assert (started["title"], started["status"]) == ("dine", "in_progress")
    refused = await backend_site.patch(f"{path}/2", {"status": "completed", "conclusion": "full"}, expect=409)
    assert refused["error"]["details"]["open_subtasks"] == ["fork"]
    done = {"status": "completed", "conclusion": "full", "subtasks": [{"title": "fork", "status": "done"}]}
    assert (await backend_site.patch(f"{path}/2", done))["conclusion"] == "full"
    await backend_site.patch(f"{path}/2", {"title": "again"}, expect=409)
    blocked = await backend_site.patch(f"{path}/1", {"status": "blocked", "reason": "no oven"})
    assert blocked["reason"] == "no oven"
    listed = (await backend_site.get(path))["items"]
    assert [(item["task_id"], item["status"]) for item in listed] == [(2, "completed"), (1, "blocked")]
    run = await backend_site.play(thread, base_run_id=(await backend_site.get(path))["run_id"], agent_type="bot")
    assert (await backend_site.get(path)) == {"thread_id": thread, "run_id": run["id"], "items": listed}


async def test_a_task_names_its_thread_and_run_in_every_answer(backend_site: Site) -> None:
    thread = await backend_site.thread(agent_type="planner")
    planned = await backend_site.play(thread)
    later = await backend_site.play(thread, agent_type="bot")  # inherits the plan
    path = f"/api/threads/{thread}/tasks"
    own = {"thread_id": thread, "run_id": planned["id"], "agent_type": "planner"}
    added = {"thread_id": thread, "run_id": later["id"], "agent_type": "bot"}
    created = await backend_site.post(path, {"title": "eat"})
    assert created | added == created
    changed = await backend_site.patch(f"{path}/1", {"title": "fry"})
    assert changed | own == changed
    assert await backend_site.get(f"{path}/1") == changed
    assert (await backend_site.get(path))["items"] == [changed, created]
    assert (await backend_site.get("/api/tasks", thread_id=thread))["items"] == [changed, created]


async def test_one_task_is_read_as_of_any_run(site: Site) -> None:
    thread = await site.thread(agent_type="planner")
    first = await site.play(thread)
    await site.play(thread, agent_type="bot")
    path = f"/api/threads/{thread}/tasks"
    await site.patch(f"{path}/1", {"title": "fry"})
    assert (await site.get(f"{path}/1"))["title"] == "fry"
    assert (await site.get(f"{path}/1", run_id=first["id"]))["title"] == "bake"
    assert (await site.get(f"{path}/2", expect=404))["error"]["code"] == "NOT_FOUND"
    assert (await site.get("/api/threads/nothing/tasks/1", expect=404))["error"]["code"] == "NOT_FOUND"
    await site.get(f"{path}/0", expect=400)


async def test_the_tasks_of_a_space_are_filtered(backend_site: Site) -> None:
    one, other = await thread_with_plan(backend_site), await thread_with_plan(backend_site)
    path = f"/api/threads/{one}/tasks"
    await backend_site.post(path, {"title": "eat", "priority": "urgent"})
    await backend_site.patch(f"{path}/2", {"status": "blocked", "reason": "no fork"})
    await backend_site.play(other, agent_type="bot")
    await backend_site.post(f"/api/threads/{other}/tasks", {"title": "wash"})

    async def titles(**query: Json) -> list[tuple[str, str]]:
        found = (await backend_site.get("/api/spaces/default/tasks", limit=200, **query))["items"]
        return [(task["thread_id"], task["title"]) for task in found if task["thread_id"] in (one, other)]

    assert await titles() == [(other, "bake"), (other, "wash"), (one, "bake"), (one, "eat")]
    assert await titles(status="blocked") == await titles(priority="urgent") == [(one, "eat")]
    assert await titles(status="planned", thread_id=one) == [(one, "bake")]
    assert await titles(agent_type="bot") == [(other, "wash")]
    assert await titles(status="completed") == await titles(agent_type="nobody") == []
    for query in ({"status": "pending"}, {"priority": "normal"}, {"thread_id": "a b"}, {"cursor": "1.2"}):
        assert (await backend_site.get("/api/tasks", expect=400, **query))["error"]["code"]
    await backend_site.get("/api/tasks", expect=404, thread_id="nothing")


async def test_an_edit_by_a_person_stamps_where_the_thread_stood(backend_site: Site) -> None:
    thread = await thread_with_plan(backend_site)
    path = f"/api/threads/{thread}/tasks"
    started = await backend_site.patch(f"{path}/1", {"status": "in_progress"})
    answer = {"message_sequence_num": 3, "content_sequence_num": 0}  # user, plan_create, its result, "planned"
    assert (started["start"], started["end"]) == (answer, None)
    await backend_site.play(thread, agent_type="bot")
    done = {"status": "completed", "conclusion": "a cake", "subtasks": [{"title": "mix", "status": "done"}]}
    completed = await backend_site.patch(f"{path}/1", done)
    assert (completed["start"], completed["end"]) == (answer, {"message_sequence_num": 5, "content_sequence_num": 0})
    (task,) = (await backend_site.get(f"/api/threads/{thread}/plan"))["tasks"]
    assert (task["start"], task["end"]) == (completed["start"], completed["end"])


async def test_an_edit_during_a_run_stamps_the_latest_tool_call(site: Site) -> None:
    run = await start_waiting_run(site)  # a user message, then an assistant message with one call
    path = f"/api/threads/{run['thread_id']}/tasks"
    created = await site.post(path, {"title": "choose"})
    call = {"message_sequence_num": 1, "content_sequence_num": 0}
    assert (await site.patch(f"{path}/{created['task_id']}", {"status": "in_progress"}))["start"] == call
    await site.request("POST", f"/api/runs/{run['id']}/respond", json={"response": "x"})

    async def has_ended() -> bool:
        return bool((await site.get(f"/api/runs/{run['id']}"))["status"] == "completed")

    await eventually(has_ended)
    assert [item["start"] for item in (await site.get(path))["items"]] == [call]


async def test_a_live_run_applies_an_edit_and_logs_it(site: Site) -> None:
    run = await start_waiting_run(site)
    path = f"/api/threads/{run['thread_id']}/tasks"
    created = await site.post(path, {"title": "choose"})
    assert (await site.get(path))["items"] == [created]
    await site.patch(f"{path}/{created['task_id']}", {"status": "in_progress"})

    async def is_logged() -> bool:
        events = (await site.get(f"/api/runs/{run['id']}/events", type="CUSTOM", limit=200))["items"]
        plans = [each["data"]["value"]["items"] for each in events if each["data"]["name"] == "holdfast.plan"]
        return bool(plans) and plans[-1][0]["status"] == "in_progress"

    await eventually(is_logged)
    assert [item["status"] for item in (await site.get(path))["items"]] == ["in_progress"]
    response = await site.request("POST", f"/api/runs/{run['id']}/respond", json={"response": "x"})
    assert response.status_code == 200  # the run still waits for its response


async def test_a_thread_without_a_run_has_no_plan_to_change(site: Site) -> None:
    path = f"/api/threads/{await site.thread()}/tasks"
    assert (await site.post(path, {"title": "x"}, expect=409))["error"]["code"] == "CONFLICT"
    assert (await site.patch(f"{path}/1", {"title": "x"}, expect=409))["error"]["code"] == "CONFLICT"


async def test_the_plan_of_an_archived_thread_cannot_be_changed(site: Site) -> None:
    thread = await thread_with_plan(site)
    await site.post(f"/api/threads/{thread}/archive", expect=200)
    refused = await site.post(f"/api/threads/{thread}/tasks", {"title": "x"}, expect=409)
    assert refused["error"]["code"] == "THREAD_CLOSED"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"title": ""}, 400),
        ({"title": "x" * 301}, 413),
        ({"title": "\x00"}, 400),
        ({"title": "x", "status": "planned"}, 400),
        ({"title": "x", "subtasks": ["y"]}, 400),
        ({"title": "x", "subtasks": [{"title": "y", "done": True}]}, 400),
        ({"title": "x", "position": 2}, 400),
        ({"title": "x", "position": -1}, 400),
        ({"title": "x", "priority": "normal"}, 400),
        ({"title": "x", "plan": "x" * 50_001}, 413),
    ],
)
async def test_an_invalid_item_is_refused(site: Site, body: Json, status: int) -> None:
    path = f"/api/threads/{await thread_with_plan(site)}/tasks"
    before = await site.get(path)
    await site.post(path, body, expect=status)
    assert await site.get(path) == before


@pytest.mark.parametrize(
    ("number", "body", "status"),
    [
        ("1", {}, 400),
        ("1", {"status": "completed"}, 400),
        ("1", {"conclusion": "x"}, 400),
        ("1", {"status": "pending"}, 400),
        ("1", {"task_id": 2}, 400),
        ("1", {"position": 5}, 400),
        ("2", {"title": "x"}, 404),
        ("0", {"title": "x"}, 400),
        ("9" * 30, {"title": "x"}, 400),
        ("x", {"title": "x"}, 404),
    ],
)
async def test_an_invalid_change_is_refused(site: Site, number: str, body: Json, status: int) -> None:
    path = f"/api/threads/{await thread_with_plan(site)}/tasks"
    before = await site.get(path)
    await site.patch(f"{path}/{number}", body, expect=status)
    assert await site.get(path) == before


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False)


class Boundary(_Model):
    message_sequence_num: int
    content_sequence_num: int


class Subtask(_Model):
    title: str
    status: str


class Task(_Model):
    """A task in the documented format of agent tasks, without other fields."""

    task_id: int
    position: int
    title: str
    status: str
    description: str | None
    conclusion: str | None
    start: Boundary | None
    end: Boundary | None
    subtasks: list[Subtask]


async def whole_plan(site: Site) -> list[Json]:
    """Return the tasks of a plan with items of every status."""
    thread = await site.thread(agent_type="worker")
    await site.play(thread)
    path = f"/api/threads/{thread}/tasks"
    await site.post(path, {"title": "blocked", "subtasks": [{"title": "one", "status": "done"}, {"title": "two"}]})
    await site.patch(f"{path}/2", {"status": "blocked", "reason": "x"})
    await site.post(path, {"title": "begun", "description": "d"})
    await site.patch(f"{path}/3", {"status": "in_progress"})
    await site.post(path, {"title": "given up"})
    await site.patch(f"{path}/4", {"status": "cancelled", "reason": "x"})
    tasks: list[Json] = (await site.get(f"/api/threads/{thread}/plan"))["tasks"]
    return tasks


async def test_a_plan_has_the_format_of_agent_tasks(site: Site) -> None:
    tasks = [Task.model_validate(task) for task in await whole_plan(site)]
    assert [(task.title, task.status) for task in tasks] == [
        ("bake", "completed"),
        ("blocked", "pending"),
        ("begun", "in_progress"),
    ]
    assert tasks[0].start == Boundary(message_sequence_num=5, content_sequence_num=0)
    assert tasks[0].end == Boundary(message_sequence_num=7, content_sequence_num=0)
    assert [subtask.status for subtask in tasks[1].subtasks] == ["done", "pending"]


async def test_the_models_of_roboto_accept_a_plan(site: Site) -> None:
    tasks = await whole_plan(site)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = import_module("roboto.ai.core.task")
    parsed = [models.AgentTask.model_validate(task) for task in tasks]
    assert [task.model_dump(mode="json") for task in parsed] == tasks
