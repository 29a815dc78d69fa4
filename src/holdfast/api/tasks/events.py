"""Task events, projected from the log of a run, in one shape for replayed and live events.

    a step begins      tool.start       or, if no earlier event started the work, status.change to `processing`
    a tool's result    tool.end         once the next event shows whether the call succeeded
    a segment ends     status.change    to `waiting`, or to the final status
    work continues     status.change    back to `processing`

Each task event stands for one event of the log and has its number, so ids ascend with gaps. The log is read from its
start, because one task event combines what the log records separately: a tool's name, its arguments, its outcome.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET

from holdfast.api.tasks.bodies import TaskStatus, task_state
from holdfast.domain.content import Content, Json, TextPart
from holdfast.domain.events import (
    Custom,
    RunErrorEvent,
    RunFinished,
    ToolCallArgs,
    ToolCallResult,
    ToolCallStart,
    decode_event,
)
from holdfast.domain.events.custom import StatusChanged, StepChanged, from_custom
from holdfast.domain.events.messages import CancelledOutcome, InterruptOutcome, SuccessOutcome
from holdfast.domain.ids import RunId, ToolCallId
from holdfast.domain.instant import Instant, Millis, millis
from holdfast.domain.run import Run, RunStatus, WaitsFor
from holdfast.domain.step import StepKind, StepState
from holdfast.ports.log import EventLog, LoggedEvent

EventFields: TypeAlias = dict[str, Json]


class TaskEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a task. Its id is the number of the event in the run's log that it stands for.

    `data` and `created_at` are the fields of the contract's stored events, `event` and `timestamp` of its live ones.
    """

    id: int
    type: str
    data: EventFields
    created_at: Instant
    event: EventFields
    timestamp: Millis


class TaskEvents(msgspec.Struct, frozen=True, kw_only=True):
    """A page of events of a task; `next_cursor` is the `since` of the next page, null on the last page."""

    task_id: str = msgspec.field(name="taskId")
    events: list[TaskEvent]
    next_cursor: int | None


class TaskEndEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a task, after which a client may close its stream. It stands for no event of the log: no id."""

    type: str
    data: EventFields
    created_at: Instant
    event: EventFields
    timestamp: Millis


def task_end_event(run: Run) -> TaskEndEvent:
    """Return the last event of the stream of an ended task."""
    kind, data, at = "task.status", msgspec.to_builtins(task_state(run)), run.completed_at or run.created_at
    return TaskEndEvent(type=kind, data=data, created_at=at, event={"type": kind, **data}, timestamp=millis(at))


TASK_LOG_EVENT_TYPES: Final = frozenset(
    {
        "RUN_FINISHED",
        "RUN_ERROR",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_RESULT",
        "CUSTOM",
    }
)
"""The types of log events that a projection reads; text of the model is not among them."""
MAX_PREVIEW_CHARS: Final = 200
"""Length of the preview of a tool's output."""

_RelevantEvent: TypeAlias = (
    RunFinished | RunErrorEvent | ToolCallStart | ToolCallArgs | ToolCallResult | StepChanged | StatusChanged
)
_TypeAndFields: TypeAlias = tuple[str, EventFields]


class _OpenToolCall:
    def __init__(self, name: str) -> None:
        self.name = name
        self.arguments = ""
        self.started_at: int | None = None


class _PendingResult(NamedTuple):
    """The result of a tool call; the next event shows whether the call succeeded."""

    logged: LoggedEvent
    call_id: ToolCallId
    data: EventFields


class TaskProjection:
    """Reads the log of a run in order, and returns the events of its task."""

    def __init__(self) -> None:
        self.seq = 0
        self.status = TaskStatus.PENDING
        self.event_count = 0
        """How many task events it has returned so far."""
        self._calls: dict[ToolCallId, _OpenToolCall] = {}
        self._result: _PendingResult | None = None

    def feed(self, logged: LoggedEvent) -> list[TaskEvent]:
        """Return the task events that `logged` completes; an event that was read before is skipped."""
        if logged.seq <= self.seq:
            return []
        self.seq = logged.seq
        if logged.type not in TASK_LOG_EVENT_TYPES:
            return []
        event = decode_event(logged.data)
        fact = from_custom(event) if isinstance(event, Custom) else event
        if not isinstance(fact, _RelevantEvent):
            return []
        events: list[TaskEvent] = []
        if self._result is not None:
            result, self._result = self._result, None
            result.data["success"] = (
                isinstance(fact, StepChanged) and fact.tool_call_id == result.call_id and fact.state is StepState.DONE
            )
            events.append(_task_event(result.logged, "tool.end", result.data))
        millis_at = millis(logged.created_at) if event.timestamp is UNSET else event.timestamp
        change = self._tool_change(logged, fact, millis_at) or self._status_change(fact)
        if change is not None:
            events.append(_task_event(logged, *change))
        self.event_count += len(events)
        return events

    def _tool_change(self, logged: LoggedEvent, fact: _RelevantEvent, millis_at: int) -> _TypeAndFields | None:
        match fact:
            case ToolCallStart(tool_call_id=call_id, tool_call_name=name):
                self._calls[call_id] = _OpenToolCall(name)
            case ToolCallArgs(tool_call_id=call_id, delta=delta) if call_id in self._calls:
                self._calls[call_id].arguments += delta
            case StepChanged(kind=StepKind.TOOL, state=StepState.STARTED, tool_call_id=str(call_id)):
                call = self._calls.get(call_id)
                if call is not None and call.started_at is None:  # not a restart after a crash
                    call.started_at = millis_at
                    return "tool.start", {"toolName": call.name, "toolInput": _decode_arguments(call.arguments)}
            case ToolCallResult(tool_call_id=call_id, content=content):
                call = self._calls.pop(call_id, None)
                if call is not None and call.started_at is not None:  # a call that never started has no `tool.end`
                    data = {
                        "toolName": call.name,
                        "durationMs": max(millis_at - call.started_at, 0),
                        "success": False,
                        "outputPreview": _preview(content),
                    }
                    self._result = _PendingResult(logged, call_id, data)
            case _:
                pass
        return None

    def _status_change(self, fact: _RelevantEvent) -> _TypeAndFields | None:
        status, reason = _next_status(fact, self.status)
        if status is self.status:
            return None
        data: EventFields = {"from": str(self.status), "to": str(status)}
        self.status = status
        return "status.change", data if reason is None else data | {"reason": reason}


def _task_event(logged: LoggedEvent, kind: str, data: EventFields) -> TaskEvent:
    """Return the task event that stands for `logged`."""
    at, flat = logged.created_at, {"type": kind, **data}
    if kind == "status.change":
        flat["status"] = data["to"]
    return TaskEvent(id=logged.seq, type=kind, data=data, created_at=at, event=flat, timestamp=millis(at))


def _next_status(fact: _RelevantEvent, status: TaskStatus) -> tuple[TaskStatus, str | None]:
    """Return the status of a task after an event, and the reason of the change."""
    match fact:
        case StepChanged() if status is TaskStatus.PENDING:
            return TaskStatus.PROCESSING, None
        case StatusChanged(to=RunStatus.RUNNING):
            return TaskStatus.PROCESSING, None
        case StatusChanged(to=RunStatus.WAITING, reason=WaitsFor.PERSON):
            return TaskStatus.WAITING, None
        case RunFinished(outcome=InterruptOutcome(interrupts=[first, *_])):
            return TaskStatus.WAITING, first.reason if first.message is UNSET else first.message
        case RunFinished(outcome=SuccessOutcome(pending_tool_call_ids=list())):
            return TaskStatus.WAITING, None
        case RunFinished(outcome=CancelledOutcome()):
            return TaskStatus.CANCELED, None
        case RunFinished():
            return TaskStatus.FINISHED, None
        case RunErrorEvent(code=code, message=message):
            return TaskStatus.FAILED, message if code is UNSET else code
        case _:
            return status, None


def _decode_arguments(text: str) -> Json:
    try:
        return msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return text


def _preview(content: Content) -> str:
    text = content if isinstance(content, str) else " ".join(p.text for p in content if isinstance(p, TextPart))
    return text[:MAX_PREVIEW_CHARS]


EVENT_PAGE_SIZE: Final = 1000
MAX_CACHED_PROJECTIONS: Final = 512
"""Tasks whose projection is kept, so that counting their events again reads only the new ones."""

_SORTED_TYPES: Final = sorted(TASK_LOG_EVENT_TYPES)


class TaskHistory:
    """Reads the events of tasks from the logs of their runs."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._projections: OrderedDict[RunId, TaskProjection] = OrderedDict()

    async def events(self, run: Run) -> list[TaskEvent]:
        """Return all events of a task so far."""
        return [event async for event in self._read(run, TaskProjection())]

    async def count(self, run: Run) -> int:
        """Return the number of events of a task so far; events counted before are not read again."""
        projection = self._projections.setdefault(run.id, TaskProjection())
        self._projections.move_to_end(run.id)
        if len(self._projections) > MAX_CACHED_PROJECTIONS:
            self._projections.popitem(last=False)
        async for _ in self._read(run, projection):
            pass
        return projection.event_count

    async def _read(self, run: Run, projection: TaskProjection) -> AsyncIterator[TaskEvent]:
        """Yield the task events after the position of `projection`."""
        while projection.seq < run.last_event_seq:
            page = await self._events.after(
                run.space_id, run.id, seq=projection.seq, limit=EVENT_PAGE_SIZE, types=_SORTED_TYPES
            )
            for logged in page:
                if logged.seq <= run.last_event_seq:
                    for event in projection.feed(logged):
                        yield event
            if len(page) < EVENT_PAGE_SIZE:
                return
