from typing import Final

import msgspec
import pytest

from holdfast.domain.content import Json
from holdfast.domain.events.custom import PlanChanged, to_custom
from holdfast.domain.plan import (
    MAX_SUBTASKS,
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    Boundary,
    PlanItem,
    PlanPriority,
    PlanStatus,
    Subtask,
    SubtaskStatus,
)
from holdfast.tools.tool import ToolResult
from tests.support.calls import HERE, NOW
from tests.unit.tools.builtin.plan_tools import Planner

OF_RUN: Final[dict[str, Json]] = {"run_id": "run_1", "agent_type": "writer"}
LATER: Final = Boundary(message_sequence_num=9, content_sequence_num=0)
DONE: Final = SubtaskStatus.DONE


async def planned(**task: Json) -> Planner:
    planner = Planner()
    await planner.call("create", title="read", **task)
    return planner


async def test_creating_a_task_returns_only_its_id_and_status() -> None:
    planner = Planner()
    outcome = await planner.call(
        "create",
        title=" read ",
        description="all of it",
        priority="urgent",
        plan={"steps": [1]},
        subtasks=["first", "second"],
    )
    item = PlanItem(
        task_id=1,
        position=0,
        title="read",
        description="all of it",
        priority=PlanPriority.URGENT,
        plan={"steps": [1]},
        subtasks=(Subtask(title="first"), Subtask(title="second")),
        **OF_RUN,
    )
    assert outcome == ToolResult(
        content={"task_id": 1, "status": "pending"},
        values={"plan": {"items": [msgspec.json.decode(msgspec.json.encode(item))]}},
        events=[PlanChanged(items=(item,))],
    )
    assert to_custom(outcome.events[0]).value == planner.values["plan"]


async def test_a_task_can_be_put_between_others() -> None:
    planner = await planned()
    await planner.call("create", title="write")
    await planner.call("create", title="think", position=1)
    assert [(item.task_id, item.title) for item in planner.plan.items] == [(1, "read"), (3, "think"), (2, "write")]


async def test_starting_a_task_puts_the_previous_one_back() -> None:
    planner = await planned()
    await planner.call("create", title="write")
    assert (await planner.call("start", task_id=1)).content == {"task_id": 1, "status": "in_progress"}
    assert (await planner.call("start", task_id=2, at=LATER)).content == {"task_id": 2, "status": "in_progress"}
    first, second = planner.plan.items
    assert (first.status, first.start) == (PlanStatus.PLANNED, HERE)
    assert (second.status, second.start, second.started_at) == (PlanStatus.IN_PROGRESS, LATER, NOW)


async def test_starting_a_task_in_progress_changes_nothing() -> None:
    planner = await planned()
    await planner.call("start", task_id=1)
    outcome = await planner.call("start", task_id=1, at=LATER)
    assert outcome == ToolResult(content={"task_id": 1, "status": "in_progress"})


@pytest.mark.parametrize("subtask", [1, 1.0, "second"])
async def test_a_subtask_is_checked_by_its_index_or_its_title(subtask: Json) -> None:
    planner = await planned(subtasks=["first", "second"])
    outcome = await planner.call("check", task_id=1, subtask=subtask)
    assert outcome.content == {"task_id": 1, "status": "pending"}
    assert [part.status for part in planner.plan.items[0].subtasks] == [SubtaskStatus.PENDING, DONE]


async def test_a_task_is_completed_when_all_its_subtasks_are_done() -> None:
    planner = await planned(subtasks=["first"])
    refused = await planner.call("complete", task_id=1, conclusion="read it")
    assert refused.failed
    assert refused.content.startswith("CONFLICT: task 1 has open subtasks")
    await planner.call("check", task_id=1, subtask=0)
    outcome = await planner.call("complete", task_id=1, conclusion="read it", at=LATER)
    assert outcome.content == {"task_id": 1, "status": "completed"}
    (item,) = planner.plan.items
    assert (item.conclusion, item.end, item.ended_at) == ("read it", LATER, NOW)


async def test_a_blocked_task_reads_as_pending() -> None:
    planner = await planned()
    assert (await planner.call("block", task_id=1, reason="no key")).content == {"task_id": 1, "status": "pending"}
    assert (planner.plan.items[0].status, planner.plan.items[0].reason) == (PlanStatus.BLOCKED, "no key")


async def test_cancelling_returns_a_status_of_agent_tasks() -> None:
    planner = await planned()
    outcome = await planner.call("cancel", task_id=1, reason="not wanted")
    assert outcome.content == {"task_id": 1, "status": "completed"}
    assert (await planner.call("start", task_id=1)).content.startswith("CONFLICT: task 1 is cancelled")


async def test_an_update_changes_only_the_given_fields() -> None:
    planner = await planned(description="all", plan="slowly", priority="low")
    outcome = await planner.call("update", task_id=1, title="write", description=None, position=0)
    assert outcome.content == {"task_id": 1, "status": "pending"}
    (item,) = planner.plan.items
    assert item == PlanItem(task_id=1, position=0, title="write", priority=PlanPriority.LOW, plan="slowly", **OF_RUN)


async def test_a_subtask_with_the_same_title_keeps_its_status() -> None:
    planner = await planned(subtasks=["a", "b", "a"])
    await planner.call("check", task_id=1, subtask=0)
    await planner.call("update", task_id=1, subtasks=["c", " a ", "a", "a"])
    assert [(part.title, part.status is DONE) for part in planner.plan.items[0].subtasks] == [
        ("c", False),
        ("a", True),
        ("a", False),
        ("a", False),
    ]


async def test_an_update_of_nothing_is_refused() -> None:
    outcome = await (await planned()).call("update", task_id=1)
    assert outcome == ToolResult(
        content="INVALID: there is nothing to change: give at least one of `title`, `description`, `priority`, `plan`, "
        "`position`, `subtasks`",
        failed=True,
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("create", {"title": ""}),
        ("create", {"title": " "}),
        ("create", {"title": "x" * (MAX_TITLE_CHARS + 1)}),
        ("create", {"title": "a", "description": "x" * (MAX_TEXT_CHARS + 1)}),
        ("create", {"title": "a", "position": -1}),
        ("create", {"title": "a", "position": 5}),
        ("create", {"title": "a", "priority": "normal"}),
        ("create", {"title": "a", "subtasks": ["x"] * (MAX_SUBTASKS + 1)}),
        ("create", {"title": "a", "plan": 5}),
        ("update", {"task_id": 1, "title": None}),
        ("update", {"task_id": 9, "title": "b"}),
        ("update", {"task_id": 9, "subtasks": ["b"]}),
        ("start", {"task_id": 9}),
        ("start", {"task_id": "1"}),
        ("check", {"task_id": 1, "subtask": 0}),
        ("check", {"task_id": 1, "subtask": "b"}),
        ("complete", {"task_id": 1}),
        ("complete", {"task_id": 1, "conclusion": " "}),
        ("block", {"task_id": 1, "reason": ""}),
        ("cancel", {"task_id": 1}),
    ],
)
async def test_an_invalid_change_fails_and_changes_nothing(name: str, arguments: dict[str, Json]) -> None:
    planner = await planned()
    outcome = await planner.call(name, **arguments)
    assert outcome.failed
    assert outcome.content.split(":")[0] in ("INVALID", "NOT_FOUND", "CONFLICT", "TOO_LARGE")
    assert (outcome.values, outcome.events) == ({}, ())


async def test_an_unreadable_plan_value_is_an_error() -> None:
    planner = Planner()
    planner.values["plan"] = {"items": 5}
    outcome = await planner.call("start", task_id=1)
    assert outcome.content.startswith("INVALID: the `plan` of this run cannot be read")
