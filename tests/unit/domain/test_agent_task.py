import msgspec
import pytest

from holdfast.domain import plan
from holdfast.domain.agent_task import (
    AgentSubtask,
    AgentSubtaskStatus,
    AgentTask,
    AgentTaskBoundary,
    AgentTaskMinimal,
    AgentTaskStatus,
    agent_tasks,
    minimal_agent_task,
)
from holdfast.domain.plan import Boundary, Plan, Subtask

HERE = Boundary(message_sequence_num=1, content_sequence_num=0)
THERE = Boundary(message_sequence_num=4, content_sequence_num=2)


@pytest.fixture
def every_status() -> Plan:
    current = Plan()
    for task_id, title in enumerate(["planned", "blocked", "cancelled", "completed", "in_progress"], start=1):
        current = plan.create(current, task_id=task_id, title=title, subtasks=[Subtask(title="look")])
    current = plan.block(current, 2, reason="no key")
    current = plan.cancel(current, 3, reason="not wanted")
    current = plan.check(plan.start(current, 4, at=HERE), 4, subtask=0)
    current = plan.complete(current, 4, conclusion="it works", at=THERE)
    return plan.start(current, 5, at=THERE)


def test_planned_and_blocked_read_pending_and_cancelled_ones_are_left_out(every_status: Plan) -> None:
    assert [(task.title, task.status) for task in agent_tasks(every_status)] == [
        ("planned", AgentTaskStatus.PENDING),
        ("blocked", AgentTaskStatus.PENDING),
        ("completed", AgentTaskStatus.COMPLETED),
        ("in_progress", AgentTaskStatus.IN_PROGRESS),
    ]


def test_a_task_has_the_fields_of_its_plan_item(every_status: Plan) -> None:
    assert agent_tasks(every_status)[2] == AgentTask(
        task_id=4,
        position=3,
        title="completed",
        status=AgentTaskStatus.COMPLETED,
        subtasks=[AgentSubtask(title="look", status=AgentSubtaskStatus.DONE)],
        start=AgentTaskBoundary(message_sequence_num=1, content_sequence_num=0),
        end=AgentTaskBoundary(message_sequence_num=4, content_sequence_num=2),
        conclusion="it works",
    )


def test_the_json_has_every_field_of_the_contract_and_no_other(every_status: Plan) -> None:
    tasks = msgspec.json.decode(msgspec.json.encode(agent_tasks(every_status)))
    for task in tasks:
        assert set(task) == {
            "task_id",
            "position",
            "title",
            "status",
            "description",
            "subtasks",
            "start",
            "end",
            "conclusion",
        }
        assert all(set(subtask) == {"title", "status"} for subtask in task["subtasks"])
    assert set(tasks[2]["start"]) == {"message_sequence_num", "content_sequence_num"}
    assert [tasks[0][field] for field in ("description", "start", "end", "conclusion")] == [None] * 4


def test_the_statuses_are_those_of_the_contract() -> None:
    assert {status.name: status.value for status in AgentTaskStatus} == {
        "PENDING": "pending",
        "IN_PROGRESS": "in_progress",
        "COMPLETED": "completed",
    }
    assert {status.name: status.value for status in AgentSubtaskStatus} == {
        "PENDING": "pending",
        "DONE": "done",
    }


def test_a_minimal_task_has_only_id_and_status(every_status: Plan) -> None:
    answer = minimal_agent_task(plan.find(every_status, 2))
    assert answer == AgentTaskMinimal(task_id=2, status=AgentTaskStatus.PENDING)
    assert msgspec.json.encode(answer) == b'{"task_id":2,"status":"pending"}'


def test_a_cancelled_item_is_acknowledged_with_the_only_final_status(every_status: Plan) -> None:
    acknowledged = minimal_agent_task(plan.find(every_status, 3))
    assert acknowledged == AgentTaskMinimal(task_id=3, status=AgentTaskStatus.COMPLETED)


def test_an_item_without_subtasks_has_an_empty_list() -> None:
    (task,) = agent_tasks(plan.create(Plan(), task_id=1, title="a"))
    assert msgspec.to_builtins(task)["subtasks"] == []
