"""The events of a task, in one shape for those that are replayed and those that are live."""

from typing import TypeAlias

import msgspec

from holdfast.control.task_contract.task import TaskState
from holdfast.domain.content import Json
from holdfast.domain.instant import Instant, Millis, millis

Fields: TypeAlias = dict[str, Json]


class TaskEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a task. Its id is the number of the event in the run's log that it stands for.

    `data` and `created_at` are what the contract's stored events have, `event` and `timestamp` what its live ones have.
    """

    id: int
    type: str
    data: Fields
    created_at: Instant
    event: Fields
    timestamp: Millis


class TaskEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The events of a task; `next_cursor` is the `since` to ask for more with: none, no more."""

    task_id: str = msgspec.field(name="taskId")
    events: list[TaskEvent]
    next_cursor: int | None


class LastWord(msgspec.Struct, frozen=True, kw_only=True):
    """How a task ended, after which a client may close its stream. It is no event of the task, so it has no id."""

    type: str
    data: Fields
    created_at: Instant
    event: Fields
    timestamp: Millis


def task_event(number: int, kind: str, data: Fields, *, at: Instant) -> TaskEvent:
    """Return the event that stands for the one of that number in the run's log."""
    flat = {"type": kind, **data}
    if kind == "status.change":
        flat["status"] = data["to"]
    return TaskEvent(id=number, type=kind, data=data, created_at=at, event=flat, timestamp=millis(at))


def last_word(state: TaskState, *, at: Instant) -> LastWord:
    """Return what a stream ends with."""
    kind, data = "task.status", msgspec.to_builtins(state)
    return LastWord(type=kind, data=data, created_at=at, event={"type": kind, **data}, timestamp=millis(at))
