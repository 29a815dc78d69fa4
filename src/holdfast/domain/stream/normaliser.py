"""The stream of a run: what producers say, made legal."""

from collections.abc import Iterable, Iterator
from typing import Self, TypeVar, assert_never

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.domain.events import (
    PROTOCOL_VERSION,
    ActivityDelta,
    ActivitySnapshot,
    Custom,
    Event,
    MessagesSnapshot,
    Raw,
    ReasoningEncryptedValue,
    ReasoningEnd,
    ReasoningMessageChunk,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    RunErrorEvent,
    RunFinished,
    RunStarted,
    StateDelta,
    StateSnapshot,
    StepFinished,
    StepStarted,
    SubagentError,
    SubagentFinished,
    SubagentStarted,
    TerminalEvent,
    TextMessageChunk,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from holdfast.domain.events.ag_ui import ActivityEvent, PassthroughEvent, RunLifecycleEvent, StateEvent, StepEvent
from holdfast.domain.ids import MessageId, RunId, ThreadId, ToolCallId
from holdfast.domain.instant import Millis
from holdfast.domain.stream.rules import normalise_reasoning, normalise_subagent, normalise_text, normalise_tool_call
from holdfast.domain.stream.state import (
    EventOwner,
    StreamSegment,
    StreamState,
    message_ends,
    span_ends,
    streamed_ends,
    subagent_ends,
    with_logged_ids,
    work_ends,
)

_OwnedEvent = TypeVar("_OwnedEvent", TextMessageContent, ReasoningMessageContent, ToolCallArgs, Custom)


class StreamNormaliser:
    """Turns the events of any producer into the legal log of one run."""

    __slots__ = ("_base", "_before_end", "_run_id", "_state", "_thread_id")

    def __init__(self, thread_id: ThreadId, run_id: RunId, base_run_id: RunId | None = None) -> None:
        self._thread_id = thread_id
        self._run_id = run_id
        self._base = UNSET if base_run_id is None else base_run_id
        self._state = StreamState()
        self._before_end: StreamSegment | None = None

    @classmethod
    def resume(
        cls,
        thread_id: ThreadId,
        run_id: RunId,
        logged: Iterable[Event],
        base_run_id: RunId | None = None,
    ) -> Self:
        """Go on with a run's log, of which at least the events of `STRUCTURAL_TYPES` are given, in order."""
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
        """Calls that were logged and have no result yet, in any segment."""
        return tuple(self._state.unanswered)

    @property
    def open_subagents(self) -> tuple[RunId, ...]:
        """Sub-agents that are at work in the open segment."""
        return tuple(self._state.subagents.open)

    @property
    def open_texts(self) -> tuple[MessageId, ...]:
        """Messages that are being said."""
        return tuple(self._state.texts.open)

    def has_call(self, call: ToolCallId) -> bool:
        """Say whether a call was logged under that id."""
        return self._state.calls.new_id(call) != call

    def feed(self, event: Event, *, at: Millis) -> list[Event]:
        """Return what to log for `event`; `at` is the time of all that says none itself."""
        state = self._state
        match event:
            # Most of what is fed are deltas of something open, and what opens, ends and names nothing: a short way.
            case TextMessageContent(message_id=message) if message in state.texts.open:
                return [_with_owner_and_time(event, state.texts.open[message], at)]
            case ReasoningMessageContent(message_id=message) if message in state.thoughts.open:
                return [_with_owner_and_time(event, state.thoughts.open[message], at)]
            case ToolCallArgs(tool_call_id=call) if call in state.calls.open:
                return [_with_owner_and_time(event, state.calls.open[call], at)]
            case Custom() if state.segment.run_id is not None:
                return [_with_owner_and_time(event, state.tag(event.subagent_run_id), at)]
            case _:
                return self._log(self._legal(event), at)

    def close(self, *, at: Millis) -> list[Event]:
        """Return what ends whatever a model was streaming; the segment goes on."""
        return self._log(streamed_ends(self._state), at)

    def end(self, outcome: TerminalEvent, *, at: Millis) -> list[Event]:
        """Return what ends the open segment, or else a new one that holds nothing but its end; the end comes last."""
        return self._log(self._terminal(outcome), at)

    def undo_end(self) -> None:
        """Forget the last event of `end`, which was never logged: the segment goes on."""
        if self._before_end is not None:
            self._state.segment, self._before_end = self._before_end, None

    def _log(self, legal: Iterable[Event], at: Millis) -> list[Event]:
        logged: list[Event] = []
        for event in legal:
            if self._state.segment.run_id is None and not isinstance(event, RunStarted):
                start = RunStarted(thread_id=self._thread_id, run_id=self._run_id, timestamp=at)
                self._append(logged, self._run_started(start))
            self._append(logged, replace(event, timestamp=at) if event.timestamp is UNSET else event)
        return logged

    def _append(self, logged: list[Event], event: Event) -> None:
        # The rules ask for the next event only when this one has been noted.
        self._state.record(event)
        logged.append(event)

    def _legal(self, event: Event) -> Iterator[Event]:
        match event:
            case TextMessageStart() | TextMessageContent() | TextMessageEnd() | TextMessageChunk():
                return normalise_text(self._state, event)
            case ToolCallStart() | ToolCallArgs() | ToolCallEnd() | ToolCallChunk() | ToolCallResult():
                return normalise_tool_call(self._state, event)
            case ReasoningStart() | ReasoningEnd() | ReasoningEncryptedValue():
                return normalise_reasoning(self._state, event)
            case ReasoningMessageStart() | ReasoningMessageContent() | ReasoningMessageEnd() | ReasoningMessageChunk():
                return normalise_reasoning(self._state, event)
            case SubagentStarted() | SubagentFinished() | SubagentError():
                return normalise_subagent(self._state, event)
            case StepStarted() | StepFinished():
                return self._step(event)
            case RunStarted() | RunFinished() | RunErrorEvent():
                return self._run(event)
            case MessagesSnapshot():
                return self._snapshot(event)
            case _:
                return self._other(event)

    def _run(self, event: RunLifecycleEvent) -> Iterator[Event]:
        is_open = self._state.segment.run_id is not None
        match event:
            case RunStarted():
                if not is_open:
                    yield self._run_started(event)
            case RunFinished() | RunErrorEvent():
                if is_open or not self._state.begun:
                    yield from self._terminal(event)
            case _:
                assert_never(event)

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
            yield from subagent_ends(self._state, event)
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

    def _step(self, event: StepEvent) -> Iterator[Event]:
        tagged = replace(event, subagent_run_id=self._state.tag(event.subagent_run_id))
        is_open = (tagged.subagent_run_id, tagged.step_name) in self._state.steps
        if is_open == isinstance(event, StepFinished):
            yield tagged

    def _snapshot(self, event: MessagesSnapshot) -> Iterator[Event]:
        # A client that gets a snapshot drops the message it was building.
        yield from message_ends(self._state)
        yield from span_ends(self._state)
        yield event

    def _other(self, event: StateEvent | ActivityEvent | PassthroughEvent) -> Iterator[Event]:
        match event:
            case ActivityDelta():
                # Without a tag it belongs to whoever owns the activity.
                yield replace(event, subagent_run_id=UNSET)
            case StateSnapshot() | StateDelta() | ActivitySnapshot() | Raw() | Custom():
                yield replace(event, subagent_run_id=self._state.tag(event.subagent_run_id))
            case _:
                assert_never(event)


def _with_owner_and_time(event: _OwnedEvent, owner: EventOwner, at: Millis) -> _OwnedEvent:
    if event.timestamp is UNSET:
        return replace(event, subagent_run_id=owner, timestamp=at)
    return event if event.subagent_run_id == owner else replace(event, subagent_run_id=owner)
