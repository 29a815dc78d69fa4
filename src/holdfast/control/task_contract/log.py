"""The log of a run, read as the events of its task: those few that the contract knows, in its words.

    a step begins      tool.start       or, if nothing said before that work began, status.change to `processing`
    a tool's result    tool.end         once the event after it tells whether the call went well
    a segment ends     status.change    to `waiting`, or to how the task ended
    work goes on       status.change    back to `processing`

Each stands for one event of the log and has its number, so ids ascend with gaps. The log is read from its beginning,
because the contract tells at once what the log tells apart: the name of a tool, its arguments, how it ended.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.control.task_contract.events import Fields, TaskEvent, task_event
from holdfast.control.task_contract.task import TaskStatus
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
from holdfast.domain.ids import ToolCallId
from holdfast.domain.instant import millis
from holdfast.domain.run import RunStatus, WaitsFor
from holdfast.domain.step import StepKind, StepState
from holdfast.ports.log import LoggedEvent

TYPES: Final = frozenset(
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
PREVIEW: Final = 200
"""Characters of a tool's output that are shown."""

_Said: TypeAlias = (
    RunFinished | RunErrorEvent | ToolCallStart | ToolCallArgs | ToolCallResult | StepChanged | StatusChanged
)
"""What an event must be to tell something of a task."""
_Told: TypeAlias = tuple[str, Fields]
_Move: TypeAlias = tuple[TaskStatus, str | None]


class _Call:
    """A tool call on its way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.arguments = ""
        self.began: int | None = None


class _Result(NamedTuple):
    """The result of a call, of which the next event tells whether it is a good one."""

    logged: LoggedEvent
    call_id: ToolCallId
    data: Fields


class TaskLog:
    """Reads the log of a run, one event after the other, as the events of its task."""

    def __init__(self) -> None:
        self.seq = 0
        self.status = TaskStatus.PENDING
        self._calls: dict[ToolCallId, _Call] = {}
        self._result: _Result | None = None

    def feed(self, logged: LoggedEvent) -> list[TaskEvent]:
        """Return what can be told now that `logged` is read; what was read before is passed over."""
        if logged.seq <= self.seq:
            return []
        self.seq = logged.seq
        return list(self._tell(logged)) if logged.type in TYPES else []

    def _tell(self, logged: LoggedEvent) -> Iterator[TaskEvent]:
        event = decode_event(logged.data)
        said = from_custom(event) if isinstance(event, Custom) else event
        if not isinstance(said, _Said):
            return
        result, self._result = self._result, None
        if result is not None:
            data = result.data | {"success": _is_settled_well(said, result.call_id)}
            yield task_event(result.logged.seq, "tool.end", data, at=result.logged.created_at)
        told = self._of_call(logged, event, said) or self._of_status(said)
        if told is not None:
            yield task_event(logged.seq, *told, at=logged.created_at)

    def _of_call(self, logged: LoggedEvent, event: Event, said: _Said) -> _Told | None:
        match said:
            case ToolCallStart(tool_call_id=call_id, tool_call_name=name):
                self._calls[call_id] = _Call(name)
            case ToolCallArgs(tool_call_id=call_id, delta=delta) if call_id in self._calls:
                self._calls[call_id].arguments += delta
            case StepChanged(kind=StepKind.TOOL, state=StepState.STARTED, tool_call_id=str(call_id)):
                return self._begin(call_id, at=_at(logged, event))
            case ToolCallResult(tool_call_id=call_id, content=content):
                self._hold(logged, call_id, content, at=_at(logged, event))
            case _:
                pass
        return None

    def _of_status(self, said: _Said) -> _Told | None:
        move = _move(said, at_work=self.status is TaskStatus.PROCESSING)
        if isinstance(said, StepChanged) and self.status is TaskStatus.PENDING:
            move = TaskStatus.PROCESSING, None
        if move is None or move[0] is self.status:
            return None
        data: Fields = {"from": str(self.status), "to": str(move[0])}
        self.status, reason = move
        return "status.change", data if reason is None else data | {"reason": reason}

    def _begin(self, call_id: ToolCallId, *, at: int) -> _Told | None:
        call = self._calls.get(call_id)
        if call is None or call.began is not None:  # begun again after a crash
            return None
        call.began = at
        return "tool.start", {"toolName": call.name, "toolInput": _arguments(call.arguments)}

    def _hold(self, logged: LoggedEvent, call_id: ToolCallId, content: Content, *, at: int) -> None:
        """Keep a result until more is known of it; one of a call that never began is none."""
        call = self._calls.pop(call_id, None)
        if call is not None and call.began is not None:
            took = max(at - call.began, 0)
            data = {"toolName": call.name, "durationMs": took, "success": False, "outputPreview": _preview(content)}
            self._result = _Result(logged, call_id, data)


def _move(said: _Said, *, at_work: bool) -> _Move | None:
    """Return where an event takes a task, and why."""
    match said:
        case StatusChanged(to=RunStatus.RUNNING) if not at_work:
            return TaskStatus.PROCESSING, None
        case StatusChanged(to=RunStatus.WAITING, reason=WaitsFor.PERSON):
            return TaskStatus.WAITING, None
        case RunFinished(outcome=outcome):
            return _end(outcome)
        case RunErrorEvent(code=code, message=message):
            return TaskStatus.FAILED, message if code is UNSET else code
        case _:
            return None


def _end(outcome: SuccessOutcome | InterruptOutcome | CancelledOutcome | UnsetType) -> _Move:
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


def _is_settled_well(said: _Said, call_id: ToolCallId) -> bool:
    return isinstance(said, StepChanged) and said.tool_call_id == call_id and said.state is StepState.DONE


def _at(logged: LoggedEvent, event: Event) -> int:
    return millis(logged.created_at) if event.timestamp is UNSET else event.timestamp


def _arguments(text: str) -> Json:
    try:
        return msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return text


def _preview(content: Content) -> str:
    text = content if isinstance(content, str) else " ".join(p.text for p in content if isinstance(p, TextPart))
    return text[:PREVIEW]
