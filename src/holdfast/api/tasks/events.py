"""Task events, projected from the log of a run, in one shape for replayed and live events.

    a step begins      tool.start       or, if nothing before said that work began, status.change to `processing`
    a tool's result    tool.end         once the next event says whether the call succeeded
    a segment ends     status.change    to `waiting`, or to the final status
    work continues     status.change    back to `processing`

Each task event stands for one event of the log and has its number, so ids ascend with gaps. The log is read from its
start, because one task event combines what the log records separately: a tool's name, its arguments, how it ended.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.api.tasks.bodies import TaskState, TaskStatus
from holdfast.domain.content import Content, Json, TextPart
from holdfast.domain.events import (
    Custom,
    Event,
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
    """What happened to a task. Its id is the number of the event in the run's log that it stands for.

    `data` and `created_at` are what the contract's stored events have, `event` and `timestamp` what its live ones have.
    """

    id: int
    type: str
    data: EventFields
    created_at: Instant
    event: EventFields
    timestamp: Millis


class TaskEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The events of a task; `next_cursor` is the `since` to ask for more with: none, no more."""

    task_id: str = msgspec.field(name="taskId")
    events: list[TaskEvent]
    next_cursor: int | None


class TaskEndEvent(msgspec.Struct, frozen=True, kw_only=True):
    """How a task ended, after which a client may close its stream. It is no event of the task, so it has no id."""

    type: str
    data: EventFields
    created_at: Instant
    event: EventFields
    timestamp: Millis


def task_event(number: int, kind: str, data: EventFields, *, at: Instant) -> TaskEvent:
    """Return the event that stands for the one of that number in the run's log."""
    flat = {"type": kind, **data}
    if kind == "status.change":
        flat["status"] = data["to"]
    return TaskEvent(id=number, type=kind, data=data, created_at=at, event=flat, timestamp=millis(at))


def task_end_event(state: TaskState, *, at: Instant) -> TaskEndEvent:
    """Return what a stream ends with."""
    kind, data = "task.status", msgspec.to_builtins(state)
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
"""The events of a log that are read; whatever a model says is not among them."""
MAX_PREVIEW_CHARS: Final = 200
"""Characters of a tool's output that are shown."""

_RelevantEvent: TypeAlias = (
    RunFinished | RunErrorEvent | ToolCallStart | ToolCallArgs | ToolCallResult | StepChanged | StatusChanged
)
"""What an event must be to tell something of a task."""
_TypeAndFields: TypeAlias = tuple[str, EventFields]
_StatusAndReason: TypeAlias = tuple[TaskStatus, str | None]


class _OpenToolCall:
    """A tool call on its way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.arguments = ""
        self.began: int | None = None


class _PendingResult(NamedTuple):
    """The result of a call, of which the next event tells whether it is a good one."""

    logged: LoggedEvent
    call_id: ToolCallId
    data: EventFields


class TaskProjection:
    """Reads the log of a run, one event after the other, as the events of its task."""

    def __init__(self) -> None:
        self.seq = 0
        self.status = TaskStatus.PENDING
        self._calls: dict[ToolCallId, _OpenToolCall] = {}
        self._result: _PendingResult | None = None

    def feed(self, logged: LoggedEvent) -> list[TaskEvent]:
        """Return what can be told now that `logged` is read; what was read before is passed over."""
        if logged.seq <= self.seq:
            return []
        self.seq = logged.seq
        return list(self._tell(logged)) if logged.type in TASK_LOG_EVENT_TYPES else []

    def _tell(self, logged: LoggedEvent) -> Iterator[TaskEvent]:
        event = decode_event(logged.data)
        said = from_custom(event) if isinstance(event, Custom) else event
        if not isinstance(said, _RelevantEvent):
            return
        result, self._result = self._result, None
        if result is not None:
            data = result.data | {"success": _is_success(said, result.call_id)}
            yield task_event(result.logged.seq, "tool.end", data, at=result.logged.created_at)
        told = self._of_call(logged, event, said) or self._of_status(said)
        if told is not None:
            yield task_event(logged.seq, *told, at=logged.created_at)

    def _of_call(self, logged: LoggedEvent, event: Event, said: _RelevantEvent) -> _TypeAndFields | None:
        match said:
            case ToolCallStart(tool_call_id=call_id, tool_call_name=name):
                self._calls[call_id] = _OpenToolCall(name)
            case ToolCallArgs(tool_call_id=call_id, delta=delta) if call_id in self._calls:
                self._calls[call_id].arguments += delta
            case StepChanged(kind=StepKind.TOOL, state=StepState.STARTED, tool_call_id=str(call_id)):
                return self._begin(call_id, at=_event_millis(logged, event))
            case ToolCallResult(tool_call_id=call_id, content=content):
                self._hold(logged, call_id, content, at=_event_millis(logged, event))
            case _:
                pass
        return None

    def _of_status(self, said: _RelevantEvent) -> _TypeAndFields | None:
        move = _next_status(said, at_work=self.status is TaskStatus.PROCESSING)
        if isinstance(said, StepChanged) and self.status is TaskStatus.PENDING:
            move = TaskStatus.PROCESSING, None
        if move is None or move[0] is self.status:
            return None
        data: EventFields = {"from": str(self.status), "to": str(move[0])}
        self.status, reason = move
        return "status.change", data if reason is None else data | {"reason": reason}

    def _begin(self, call_id: ToolCallId, *, at: int) -> _TypeAndFields | None:
        call = self._calls.get(call_id)
        if call is None or call.began is not None:  # begun again after a crash
            return None
        call.began = at
        return "tool.start", {"toolName": call.name, "toolInput": _decode_arguments(call.arguments)}

    def _hold(self, logged: LoggedEvent, call_id: ToolCallId, content: Content, *, at: int) -> None:
        """Keep a result until more is known of it; one of a call that never began is none."""
        call = self._calls.pop(call_id, None)
        if call is not None and call.began is not None:
            took = max(at - call.began, 0)
            data = {"toolName": call.name, "durationMs": took, "success": False, "outputPreview": _preview(content)}
            self._result = _PendingResult(logged, call_id, data)


def _next_status(said: _RelevantEvent, *, at_work: bool) -> _StatusAndReason | None:
    """Return where an event takes a task, and why."""
    match said:
        case StatusChanged(to=RunStatus.RUNNING) if not at_work:
            return TaskStatus.PROCESSING, None
        case StatusChanged(to=RunStatus.WAITING, reason=WaitsFor.PERSON):
            return TaskStatus.WAITING, None
        case RunFinished(outcome=outcome):
            return _status_after_outcome(outcome)
        case RunErrorEvent(code=code, message=message):
            return TaskStatus.FAILED, message if code is UNSET else code
        case _:
            return None


def _status_after_outcome(
    outcome: SuccessOutcome | InterruptOutcome | CancelledOutcome | UnsetType,
) -> _StatusAndReason:
    """Return where the end of a segment takes a task."""
    match outcome:
        case InterruptOutcome(interrupts=[first, *_]):
            return TaskStatus.WAITING, first.reason if first.message is UNSET else first.message
        case SuccessOutcome(pending_tool_call_ids=list()):
            return TaskStatus.WAITING, None
        case CancelledOutcome():
            return TaskStatus.CANCELED, None
        case _:
            return TaskStatus.FINISHED, None


def _is_success(said: _RelevantEvent, call_id: ToolCallId) -> bool:
    return isinstance(said, StepChanged) and said.tool_call_id == call_id and said.state is StepState.DONE


def _event_millis(logged: LoggedEvent, event: Event) -> int:
    return millis(logged.created_at) if event.timestamp is UNSET else event.timestamp


def _decode_arguments(text: str) -> Json:
    try:
        return msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return text


def _preview(content: Content) -> str:
    text = content if isinstance(content, str) else " ".join(p.text for p in content if isinstance(p, TextPart))
    return text[:MAX_PREVIEW_CHARS]


EVENT_PAGE_SIZE: Final = 1000
MAX_CACHED_COUNTS: Final = 512
"""Tasks of which it is remembered how many events they have."""

_SORTED_TYPES: Final = sorted(TASK_LOG_EVENT_TYPES)


class _CachedCount:
    """How many events a task has, as far as its log was read."""

    def __init__(self) -> None:
        self.log = TaskProjection()
        self.events = 0


class TaskHistory:
    """Reads what happened to tasks."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._counts: OrderedDict[RunId, _CachedCount] = OrderedDict()

    async def events(self, run: Run) -> list[TaskEvent]:
        """Return all events of a task so far."""
        return [event async for event in self._read(run, TaskProjection())]

    async def count(self, run: Run) -> int:
        """Return how many those are; what was counted before is not read again."""
        count = self._counts.setdefault(run.id, _CachedCount())
        self._counts.move_to_end(run.id)
        if len(self._counts) > MAX_CACHED_COUNTS:
            self._counts.popitem(last=False)
        async for _ in self._read(run, count.log):
            count.events += 1
        return count.events

    async def _read(self, run: Run, log: TaskProjection) -> AsyncIterator[TaskEvent]:
        """Yield the events that come after what `log` has read."""
        while log.seq < run.last_event_seq:
            page = await self._events.after(
                run.space_id, run.id, seq=log.seq, limit=EVENT_PAGE_SIZE, types=_SORTED_TYPES
            )
            for logged in page:
                if logged.seq <= run.last_event_seq:
                    for event in log.feed(logged):
                        yield event
            if len(page) < EVENT_PAGE_SIZE:
                return
