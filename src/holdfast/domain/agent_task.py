"""Agent tasks: the view of a plan for models and clients, with fewer statuses and no cancelled items."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.plan import Boundary, Plan, PlanItem, PlanStatus


class AgentTaskStatus(StrEnum):
    """Lifecycle state of a task."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class AgentSubtaskStatus(StrEnum):
    """Lifecycle state of a subtask, which is active while its task is."""

    PENDING = "pending"
    DONE = "done"


class AgentTaskBoundary(msgspec.Struct, frozen=True, kw_only=True):
    """The assistant message and the content block in it whose tool call started or ended a task.

    If a person started or ended it, the last block of the newest assistant message.
    """

    message_sequence_num: int
    content_sequence_num: int


class AgentSubtask(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a task's checklist."""

    title: str
    status: AgentSubtaskStatus


class AgentTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that an agent tracks on a thread. `start` is its latest change to `in_progress`."""

    task_id: int
    position: int
    title: str
    status: AgentTaskStatus
    description: str | None = None
    subtasks: list[AgentSubtask] = []
    start: AgentTaskBoundary | None = None
    end: AgentTaskBoundary | None = None
    conclusion: str | None = None


class AgentTaskMinimal(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a plan tool; the whole plan is in the context of the next turn."""

    task_id: int
    status: AgentTaskStatus


def agent_tasks(plan: Plan) -> list[AgentTask]:
    """Return the tasks of `plan` in order, each with its position in the plan."""
    return [
        AgentTask(
            task_id=item.task_id,
            position=item.position,
            title=item.title,
            status=_AGENT_TASK_STATUS[item.status],
            description=item.description,
            subtasks=[AgentSubtask(title=sub.title, status=AgentSubtaskStatus(sub.status)) for sub in item.subtasks],
            start=_boundary(item.start),
            end=_boundary(item.end),
            conclusion=item.conclusion,
        )
        for item in plan.items
        if item.status in _AGENT_TASK_STATUS
    ]


def minimal_agent_task(item: PlanItem) -> AgentTaskMinimal:
    """Return the id and the status of `item`; a cancelled one, which no list shows, is acknowledged as `completed`."""
    status = _AGENT_TASK_STATUS.get(item.status, AgentTaskStatus.COMPLETED)
    return AgentTaskMinimal(task_id=item.task_id, status=status)


_AGENT_TASK_STATUS: Final[Mapping[PlanStatus, AgentTaskStatus]] = {
    PlanStatus.PLANNED: AgentTaskStatus.PENDING,
    PlanStatus.BLOCKED: AgentTaskStatus.PENDING,
    PlanStatus.IN_PROGRESS: AgentTaskStatus.IN_PROGRESS,
    PlanStatus.COMPLETED: AgentTaskStatus.COMPLETED,
}


def _boundary(at: Boundary | None) -> AgentTaskBoundary | None:
    if at is None:
        return None
    return AgentTaskBoundary(message_sequence_num=at.message_sequence_num, content_sequence_num=at.content_sequence_num)
