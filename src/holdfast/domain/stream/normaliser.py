"""The normaliser: turns the events of any producer into the legal log of one run."""

from collections.abc import Iterable, Iterator
from typing import Self, TypeVar, assert_never

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.domain.events import (
    PROTOCOL_VERSION,
    ActivityDelta,
    ActivityEvent,
    Custom,
    Event,
    MessagesSnapshot,
    PassthroughEvent,
    ReasoningEvent,
    ReasoningMessageContent,
    RunErrorEvent,
    RunFinished,
    RunStarted,
    StateEvent,
    StepEvent,
    StepFinished,
    StepStarted,
    SubagentEvent,
    TerminalEvent,
    TextEvent,
    TextMessageContent,
    ToolCallArgs,
    ToolCallEvent,
)
from holdfast.domain.ids import RunId, ThreadId, ToolCallId
from holdfast.domain.instant import Millis
from holdfast.domain.stream.rules import normalise_reasoning, normalise_subagent, normalise_text, normalise_tool_call
from holdfast.domain.stream.state import (
    EventOwner,
    StreamSegment,
    StreamState,
    message_ends,
    span_ends,
    streamed_ends,
    subagent_end,
    with_logged_ids,
    work_ends,
)

_OwnedEvent = TypeVar("_OwnedEvent", TextMessageContent, ReasoningMessageContent, ToolCallArgs, Custom)


class StreamNormaliser:
    """Normalises events to the legal log of one run, and keeps the state of that log."""

    __slots__ = ("_base", "_before_end", "_run_id", "_state", "_thread_id")

    def __init__(self, thread_id: ThreadId, run_id: RunId, base_run_id: RunId | None = None) -> None:
        self._thread_id = thread_id
        self._run_id = run_id
        self._base = UNSET if base_run_id is None else base_run_id
        self._state = StreamState()
        self._before_end: StreamSegment | None = None

    @classmethod
    def resume(
        cls, thread_id: ThreadId, run_id: RunId, logged: Iterable[Event], base_run_id: RunId | None = None
    ) -> Self:
        """Continue the log of a run; `logged` holds at least its events of `STRUCTURAL_TYPES`, in order."""
        stream = cls(thread_id, run_id, base_run_id)
        for event in logged:
            stream._state.record(event)
        return stream

    @property
    def segment_id(self) -> RunId | None:
        """The `runId` of the open segment."""
        return self._state.segment.run_id

    @property
    def open_tool_calls(self) -> tuple[ToolCallId, ...]:
        """Tool calls without a result, of any segment."""
        return tuple(self._state.unanswered)

    @property
    def open_subagents(self) -> tuple[RunId, ...]:
        """Sub-agents that are active in the open segment."""
        return tuple(self._state.subagents.open)

    def has_call(self, call: ToolCallId) -> bool:
        """Return whether a tool call was logged under this id."""
        return self._state.calls.new_id(call) != call

    def feed(self, event: Event, *, at: Millis) -> list[Event]:
        """Return the events to log for `event`; `at` is the time of those without a timestamp."""
        state = self._state
        match event:
            # Fast path: most events are deltas of something open, which change no state.
            case TextMessageContent(message_id=message) if message in state.texts.open:
                return [_with_owner_and_time(event, state.texts.open[message], at)]
            case ReasoningMessageContent(message_id=message) if message in state.reasoning.open:
                return [_with_owner_and_time(event, state.reasoning.open[message], at)]
            case ToolCallArgs(tool_call_id=call) if call in state.calls.open:
                return [_with_owner_and_time(event, state.calls.open[call], at)]
            case Custom() if state.segment.run_id is not None:
                return [_with_owner_and_time(event, state.tag(event.subagent_run_id), at)]
            case _:
                return self._log(self._normalise(event), at)

    def close(self, *, at: Millis) -> list[Event]:
        """Return the events that end everything a model streams; the segment stays open."""
        return self._log(streamed_ends(self._state), at)

    def end(self, outcome: TerminalEvent, *, at: Millis) -> list[Event]:
        """Return the events that end the open segment, or a new empty one; `outcome` comes last."""
        return self._log(self._terminal(outcome), at)

    def undo_end(self) -> None:
        """Undo the terminal event of `end`, which was never logged: the segment stays open."""
        if self._before_end is not None:
            self._state.segment, self._before_end = self._before_end, None

    def _log(self, events: Iterable[Event], at: Millis) -> list[Event]:
        logged: list[Event] = []
        for event in events:
            if self._state.segment.run_id is None and not isinstance(event, RunStarted):
                start = RunStarted(thread_id=self._thread_id, run_id=self._run_id, timestamp=at)
                logged.append(self._run_started(start))
                self._state.record(logged[-1])
            logged.append(replace(event, timestamp=at) if event.timestamp is UNSET else event)
            # Recorded at once: the rules produce the next event from the updated state.
            self._state.record(logged[-1])
        return logged

    def _normalise(self, event: Event) -> Iterator[Event]:
        if isinstance(event, TextEvent):
            return normalise_text(self._state, event)
        if isinstance(event, ToolCallEvent):
            return normalise_tool_call(self._state, event)
        if isinstance(event, ReasoningEvent):
            return normalise_reasoning(self._state, event)
        if isinstance(event, SubagentEvent):
            return normalise_subagent(self._state, event)
        if isinstance(event, TerminalEvent):
            is_open = self._state.segment.run_id is not None
            return self._terminal(event) if is_open or not self._state.has_started else iter(())
        return self._other(event)

    def _run_started(self, event: RunStarted) -> RunStarted:
        return replace(
            event,
            thread_id=self._thread_id,
            protocol_version=PROTOCOL_VERSION,
            parent_run_id=self._base if event.parent_run_id is UNSET else event.parent_run_id,
        )

    def _terminal(self, event: TerminalEvent) -> Iterator[Event]:
        if self._state.anything_open:
            yield from work_ends(self._state)
            for name in reversed(list(self._state.subagents.open)):
                yield subagent_end(name, event)
        self._before_end = self._state.segment
        match event:
            case RunFinished(outcome=outcome):
                segment = self._state.segment.run_id
                yield replace(
                    event,
                    thread_id=self._thread_id,
                    run_id=self._run_id if segment is None else segment,
                    outcome=with_logged_ids(self._state, outcome),
                )
            case RunErrorEvent():
                yield event
            case _:
                assert_never(event)

    def _other(
        self, event: RunStarted | StepEvent | MessagesSnapshot | StateEvent | ActivityEvent | PassthroughEvent
    ) -> Iterator[Event]:
        match event:
            case RunStarted():
                if self._state.segment.run_id is None:
                    yield self._run_started(event)
            case MessagesSnapshot():
                # A client that receives a snapshot drops the message that it was building.
                yield from message_ends(self._state)
                yield from span_ends(self._state)
                yield event
            case ActivityDelta():
                # Without a tag it belongs to the owner of the activity.
                yield replace(event, subagent_run_id=UNSET)
            case StepStarted() | StepFinished():
                owner = self._state.tag(event.subagent_run_id)
                is_open = (owner, event.step_name) in self._state.steps
                if is_open == isinstance(event, StepFinished):
                    yield replace(event, subagent_run_id=owner)
            case _:
                yield replace(event, subagent_run_id=self._state.tag(event.subagent_run_id))


def _with_owner_and_time(event: _OwnedEvent, owner: EventOwner, at: Millis) -> _OwnedEvent:
    if event.timestamp is UNSET:
        return replace(event, subagent_run_id=owner, timestamp=at)
    return event if event.subagent_run_id == owner else replace(event, subagent_run_id=owner)
