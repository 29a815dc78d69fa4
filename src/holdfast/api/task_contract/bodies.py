"""What requests of the tasks contract carry, and what they are answered with."""

from typing import Annotated

import msgspec

from holdfast.control.task_contract.context import TaskContext
from holdfast.control.task_contract.task import ListedTask, Task, TaskStatus
from holdfast.domain.limits import MAX_SAFE_INTEGER, Limits
from holdfast.domain.new_run import MAX_TAGS
from holdfast.domain.run import Priority

_Count = Annotated[int, msgspec.Meta(gt=0, le=MAX_SAFE_INTEGER)]
_Tag = Annotated[str, msgspec.Meta(max_length=128)]


class TaskBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A task to be given to an agent."""

    input: str
    priority: Priority = Priority.NORMAL
    tags: Annotated[list[_Tag], msgspec.Meta(max_length=MAX_TAGS)] = []
    max_iterations: _Count | None = None
    max_duration_seconds: _Count | None = None
    token_budget: _Count | None = None

    def limits(self) -> Limits:
        """Return what the task may use."""
        return Limits(
            max_iterations=self.max_iterations,
            max_duration_seconds=self.max_duration_seconds,
            token_budget=self.token_budget,
        )


class MessageBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to a task that waits."""

    message: str


class TaskMoved(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A task, and where it stands now."""

    task_id: str
    status: TaskStatus


class TaskDeleted(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A task that is no more."""

    deleted: bool = True
    task_id: str


class OneTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task."""

    task: Task


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks, the newest first, and the cursor to ask for more with; no cursor, no more."""

    tasks: list[ListedTask]
    next_cursor: str | None


class TaskContextAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the model was told in the newest iteration; null before the first."""

    task_id: str
    context: TaskContext | None
