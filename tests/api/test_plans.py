"""Plans over HTTP: read in both their shapes, and changed by people."""

import warnings
from importlib import import_module

import pytest
from pydantic import BaseModel, ConfigDict

from holdfast.domain.content import Json
from tests.api.site import Site, eventually
from tests.api.test_runs import asking


async def planned(site: Site) -> str:
    """Make a thread whose agent planned something, and return its id."""
    thread = await site.thread(agent_type="planner")
    await site.play(thread)
    return thread


async def test_a_plan_is_read_in_both_its_shapes(backend_site: Site) -> None:
    thread = await backend_site.thread(agent_type="planner")
    run = await backend_site.play(thread)
    tasks = await backend_site.get(f"/api/threads/{thread}/tasks")
    (item,) = tasks["items"]
    assert (tasks["run_id"], item["title"], item["status"], item["task_id"]) == (run["id"], "bake", "planned", 1)
    plan = await backend_site.get(f"/api/threads/{thread}/plan", run_id=run["id"])
    assert [(task["title"], task["status"]) for task in plan["tasks"]] == [("bake", "pending")]
    space = await backend_site.get("/api/spaces/default/tasks", limit=200)
    assert thread in [each["thread_id"] for each in space["items"]]


async def test_people_add_to_a_plan_and_change_it(backend_site: Site) -> None:
    thread = await planned(backend_site)
    path = f"/api/threads/{thread}/tasks"
    body = {
        "title": "eat",
        "priority": "urgent",
        "plan": {"how": "slowly"},
        "subtasks": [{"title": "fork"}],
        "position": 0,
    }
    made = await backend_site.post(path, body)
    assert {name: made[name] for name in body} == body | {"subtasks": [{"title": "fork", "status": "pending"}]}
    assert (made["task_id"], made["status"]) == (2, "planned")
    begun = await backend_site.patch(f"{path}/2", {"status": "in_progress", "title": "dine"})
    assert (begun["title"], begun["status"], begun["start"]) == ("dine", "in_progress", None)
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


async def test_a_live_run_takes_an_edit_in_and_its_log_tells(site: Site) -> None:
    run = await asking(site)
    path = f"/api/threads/{run['thread_id']}/tasks"
    made = await site.post(path, {"title": "choose"})
    assert (await site.get(path))["items"] == [made]
    await site.patch(f"{path}/{made['task_id']}", {"status": "in_progress"})

    async def is_told() -> bool:
        told = (await site.get(f"/api/runs/{run['id']}/events", type="CUSTOM", limit=200))["items"]
        plans = [each["data"]["value"]["items"] for each in told if each["data"]["name"] == "holdfast.plan"]
        return bool(plans) and plans[-1][0]["status"] == "in_progress"

    await eventually(is_told)
    assert [item["status"] for item in (await site.get(path))["items"]] == ["in_progress"]
    answered = await site.request("POST", f"/api/runs/{run['id']}/respond", json={"response": "x"})
    assert answered.status_code == 200  # it waits for its answer as before


async def test_a_thread_without_a_run_has_no_plan_to_change(site: Site) -> None:
    path = f"/api/threads/{await site.thread()}/tasks"
    assert (await site.post(path, {"title": "x"}, expect=409))["error"]["code"] == "CONFLICT"
    assert (await site.patch(f"{path}/1", {"title": "x"}, expect=409))["error"]["code"] == "CONFLICT"


async def test_a_closed_thread_keeps_its_plan(site: Site) -> None:
    thread = await planned(site)
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
async def test_an_item_that_can_never_be_is_refused(site: Site, body: Json, status: int) -> None:
    path = f"/api/threads/{await planned(site)}/tasks"
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
async def test_a_change_that_can_never_be_is_refused(site: Site, number: str, body: Json, status: int) -> None:
    path = f"/api/threads/{await planned(site)}/tasks"
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
    """The page of agent tasks: every field, and none besides."""

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
    """Return the tasks of a plan that has one of each kind."""
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


async def test_a_plan_has_the_shape_of_agent_tasks(site: Site) -> None:
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
    read = [models.AgentTask.model_validate(task) for task in tasks]
    assert [task.model_dump(mode="json") for task in read] == tasks
