"""The state of an event stream, folded from its structural events, and the events that close it.

Each closing event must be recorded in the state before the next one is requested.
"""

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Final, Generic, TypeAlias, TypeVar, assert_never, cast, get_args

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.domain.events import (
    EVENT_TYPES,
    Event,
    MessagesSnapshot,
    ReasoningEnd,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    RunErrorEvent,
    RunFinished,
    RunLifecycleEvent,
    RunStarted,
    StepEvent,
    StepFinished,
    StepStarted,
    SubagentError,
    SubagentEvent,
    SubagentFinished,
    SubagentStarted,
    SubagentSuspended,
    TerminalEvent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from holdfast.domain.events.messages import (
    AgUiInterrupt,
    AgUiMessage,
    AssistantMessage,
    CancelledOutcome,
    InterruptOutcome,
    ReasoningMessage,
    RunOutcome,
    SuccessOutcome,
    TextRole,
)
from holdfast.domain.ids import MessageId, RunId, ToolCallId

EventOwner: TypeAlias = RunId | UnsetType
"""The sub-agent that an event belongs to; unset for the agent of the run itself."""

LoggedId = TypeVar("LoggedId", bound=str)


class StreamIds(Generic[LoggedId]):
    """Ids of producers mapped to logged ids: an id that was used before is logged as `<id>-2`.

    The mapping follows from the logged ids alone, so it survives a restart. As a consequence, a producer's own `a-2`
    after the end of its `a` counts as a second `a`.
    """

    __slots__ = ("_logged", "_used", "open")

    def __init__(self, *, used: set[LoggedId] | None = None) -> None:
        self.open: dict[LoggedId, EventOwner] = {}
        """Logged ids, in the order of their start."""
        self._used: set[LoggedId] = set() if used is None else used
        self._logged: dict[LoggedId, LoggedId] = {}

    def logged_id(self, producer_id: LoggedId) -> LoggedId:
        """Return the newest logged id of `producer_id`."""
        return self._logged.get(producer_id, producer_id)

    def is_open(self, producer_id: LoggedId) -> bool:
        """Return whether `producer_id` is open."""
        return self.logged_id(producer_id) in self.open

    def new_id(self, producer_id: LoggedId) -> LoggedId:
        """Return the id under which to log a new use of `producer_id`."""
        if producer_id not in self._used:
            return producer_id
        newest = self.logged_id(producer_id)
        numbers = count(2 if newest == producer_id else int(newest[len(producer_id) + 1 :]) + 1)
        candidates = (cast(LoggedId, f"{producer_id}-{number}") for number in numbers)
        return next(name for name in candidates if name not in self._used)

    def latest(self, owner: EventOwner) -> LoggedId | None:
        """Return the open id of `owner` that started last."""
        return next((name for name, each in reversed(self.open.items()) if each == owner), None)

    def start(self, name: LoggedId, owner: EventOwner) -> None:
        """Record that `name` was logged as started."""
        producer_id = cast(LoggedId, name.rpartition("-")[0])
        if name == self.new_id(producer_id) and not self.is_open(producer_id):
            self._logged[producer_id] = name
        self._used.add(name)
        self.open[name] = owner

    def end(self, name: LoggedId) -> None:
        """Record that `name` was logged as ended."""
        self.open.pop(name, None)

    def use(self, name: LoggedId) -> None:
        """Record that `name` is used by something that is never open."""
        self._used.add(name)


_TextBoundary: TypeAlias = TextMessageStart | TextMessageEnd
_CallBoundary: TypeAlias = ToolCallStart | ToolCallEnd | ToolCallResult
_ReasoningBoundary: TypeAlias = ReasoningStart | ReasoningEnd | ReasoningMessageStart | ReasoningMessageEnd

_STRUCTURAL_CLASSES: Final = get_args(
    RunLifecycleEvent
    | StepEvent
    | _TextBoundary
    | _CallBoundary
    | _ReasoningBoundary
    | SubagentEvent
    | MessagesSnapshot
)

STRUCTURAL_TYPES: Final = frozenset(name for name, type_ in EVENT_TYPES.items() if type_ in _STRUCTURAL_CLASSES)
"""The event types that open or end something, or use an id."""


class StreamSegment:
    """The owners of things in one segment, forgotten when it ends.

    Things from the history have no owner: an event without a tag is compatible with any owner.
    """

    __slots__ = ("calls", "last_message", "messages", "reasoning", "run_id", "subagents")

    def __init__(self, run_id: RunId | None = None) -> None:
        self.run_id = run_id
        self.messages: dict[MessageId, EventOwner] = {}
        self.reasoning: dict[MessageId, EventOwner] = {}
        self.calls: dict[ToolCallId, EventOwner] = {}
        self.subagents: set[RunId] = set()
        self.last_message: dict[EventOwner, MessageId] = {}
        """The newest assistant message of each owner."""


class StreamState:
    """The open things of a stream, its used ids, and the owners in its current segment."""

    def __init__(self) -> None:
        # Text, reasoning and tool results are all messages to a client, so they share one set of ids.
        messages: set[MessageId] = set()
        self.texts: StreamIds[MessageId] = StreamIds(used=messages)
        self.reasoning: StreamIds[MessageId] = StreamIds(used=messages)
        self.spans: StreamIds[MessageId] = StreamIds()
        self.calls: StreamIds[ToolCallId] = StreamIds()
        self.subagents: StreamIds[RunId] = StreamIds()
        self.steps: dict[tuple[EventOwner, str], None] = {}
        self.suspended: set[RunId] = set()
        self.unanswered: dict[ToolCallId, None] = {}
        self.authors: dict[MessageId, tuple[TextRole | UnsetType, str | UnsetType]] = {}
        self.segment = StreamSegment()
        self.has_started = False

    @property
    def anything_open(self) -> bool:
        """Whether anything has started and not ended."""
        streamed = self.texts.open or self.reasoning.open or self.spans.open or self.calls.open
        return bool(streamed or self.steps or self.subagents.open)

    def tag(self, owner: EventOwner) -> EventOwner:
        """Return the logged id of the sub-agent `owner`; unset if it did not start in this segment."""
        if owner is UNSET:
            return UNSET
        logged = self.subagents.logged_id(owner)
        return logged if logged in self.segment.subagents else UNSET

    def record(self, event: Event) -> None:
        """Update the state with a logged event."""
        match event:
            case TextMessageStart() | TextMessageEnd():
                self._record_text(event)
            case ToolCallStart() | ToolCallEnd() | ToolCallResult():
                self._record_call(event)
            case ReasoningStart() | ReasoningEnd() | ReasoningMessageStart() | ReasoningMessageEnd():
                self._record_reasoning(event)
            case StepStarted(subagent_run_id=owner, step_name=name):
                self.steps[(owner, name)] = None
            case StepFinished(subagent_run_id=owner, step_name=name):
                self.steps.pop((owner, name), None)
            case SubagentStarted() | SubagentFinished() | SubagentError():
                self._record_subagent(event)
            case RunStarted(run_id=run_id, input=run_input):
                self.has_started = True
                self.segment = StreamSegment(run_id)
                self._record_history([] if run_input is UNSET else run_input.messages)
            case RunFinished() | RunErrorEvent():
                self.segment = StreamSegment()
            case MessagesSnapshot(messages=messages):
                self._record_history(messages)
            case _:
                pass  # the other events open, end and name nothing

    def _record_text(self, event: _TextBoundary) -> None:
        name, owner = event.message_id, event.subagent_run_id
        match event:
            case TextMessageStart(role=role):
                self.texts.start(name, owner)
                self.authors[name] = (role, event.name)
                self.segment.messages[name] = owner
                if role is UNSET or role == "assistant":
                    self.segment.last_message[owner] = name
            case TextMessageEnd():
                self.texts.end(name)
            case _:
                assert_never(event)

    def _record_call(self, event: _CallBoundary) -> None:
        name, owner = event.tool_call_id, event.subagent_run_id
        match event:
            case ToolCallStart():
                self.calls.start(name, owner)
                self.segment.calls[name] = owner
                self.unanswered[name] = None
            case ToolCallEnd():
                self.calls.end(name)
            case ToolCallResult(message_id=message_id):
                self.unanswered.pop(name, None)
                self.texts.use(message_id)
                self.segment.messages[message_id] = owner
            case _:
                assert_never(event)

    def _record_reasoning(self, event: _ReasoningBoundary) -> None:
        name, owner = event.message_id, event.subagent_run_id
        ids = self.spans if isinstance(event, ReasoningStart | ReasoningEnd) else self.reasoning
        if isinstance(event, ReasoningStart | ReasoningMessageStart):
            ids.start(name, owner)
            self.segment.reasoning.setdefault(name, owner)
        else:
            ids.end(name)

    def _record_subagent(self, event: SubagentEvent) -> None:
        name = event.subagent_run_id
        match event:
            case SubagentStarted(parent_subagent_run_id=parent):
                self.subagents.start(name, parent)
                self.suspended.discard(name)
                self.segment.subagents.add(name)
            case SubagentFinished(outcome=SubagentSuspended()):
                self.subagents.end(name)
                self.suspended.add(name)
            case SubagentFinished() | SubagentError():
                self.subagents.end(name)
            case _:
                assert_never(event)

    def _record_history(self, messages: Iterable[AgUiMessage]) -> None:
        for message in messages:
            self.texts.use(message.id)
            if isinstance(message, ReasoningMessage):
                self.segment.reasoning[message.id] = UNSET
            else:
                self.segment.messages[message.id] = UNSET
            if isinstance(message, AssistantMessage) and message.tool_calls is not UNSET:
                for call in message.tool_calls:
                    self.calls.use(call.id)
                    self.segment.calls[call.id] = UNSET
                    if call.id in self.calls.open:
                        self.calls.open[call.id] = UNSET


def reasoning_message_ends(state: StreamState, *, owner: EventOwner | None = None) -> Iterator[Event]:
    """Yield the ends of open reasoning messages: those of `owner`, or all."""
    for name, tag in _open_ids(state.reasoning, owner):
        yield ReasoningMessageEnd(message_id=name, subagent_run_id=tag)


def message_ends(state: StreamState, *, owner: EventOwner | None = None) -> Iterator[Event]:
    """Yield the ends of open reasoning and text messages: those of `owner`, or all."""
    yield from reasoning_message_ends(state, owner=owner)
    for name, tag in _open_ids(state.texts, owner):
        yield TextMessageEnd(message_id=name, subagent_run_id=tag)


def span_ends(state: StreamState, *, owner: EventOwner | None = None) -> Iterator[Event]:
    """Yield the ends of open reasoning spans: those of `owner`, or all."""
    for name, tag in _open_ids(state.spans, owner):
        yield ReasoningEnd(message_id=name, subagent_run_id=tag)


def streamed_ends(state: StreamState, *, owner: EventOwner | None = None) -> Iterator[Event]:
    """Yield the ends of everything that a model streams: for `owner`, or for all."""
    yield from message_ends(state, owner=owner)
    yield from span_ends(state, owner=owner)
    for name, tag in _open_ids(state.calls, owner):
        yield ToolCallEnd(tool_call_id=name, subagent_run_id=tag)


def work_ends(state: StreamState, *, owner: EventOwner | None = None) -> Iterator[Event]:
    """Yield the ends of everything open, except sub-agents: of `owner`, or of all."""
    yield from streamed_ends(state, owner=owner)
    for tag, name in list(state.steps):
        if owner is None or tag == owner:
            yield StepFinished(step_name=name, subagent_run_id=tag)


def with_logged_ids(state: StreamState, outcome: RunOutcome | UnsetType) -> RunOutcome | UnsetType:
    """Return `outcome` with producer ids replaced by logged ids."""
    match outcome:
        case SuccessOutcome(pending_tool_call_ids=list(pending)):
            return SuccessOutcome(pending_tool_call_ids=[state.calls.logged_id(call) for call in pending])
        case InterruptOutcome(interrupts=interrupts):
            return InterruptOutcome(interrupts=[_interrupt_with_logged_ids(state, each) for each in interrupts])
        case SuccessOutcome() | CancelledOutcome() | UnsetType():
            return outcome
        case _:
            assert_never(outcome)


def _interrupt_with_logged_ids(state: StreamState, interrupt: AgUiInterrupt) -> AgUiInterrupt:
    call, tag = interrupt.tool_call_id, interrupt.subagent_run_id
    return replace(
        interrupt,
        tool_call_id=UNSET if call is UNSET else state.calls.logged_id(call),
        subagent_run_id=UNSET if tag is UNSET else state.subagents.logged_id(tag),
    )


def subagent_end(name: RunId, terminal: TerminalEvent) -> Event:
    """Return the end of an open sub-agent when its segment ends with `terminal`."""
    match terminal:
        case RunFinished(outcome=InterruptOutcome(interrupts=interrupts)):
            interrupt_ids = [interrupt.id for interrupt in interrupts if interrupt.subagent_run_id == name]
            return SubagentFinished(
                subagent_run_id=name, outcome=SubagentSuspended(interrupt_ids=interrupt_ids or UNSET)
            )
        case RunFinished(outcome=SuccessOutcome(pending_tool_call_ids=[_, *_])):
            return SubagentFinished(subagent_run_id=name, outcome=SubagentSuspended())
        case RunFinished(outcome=CancelledOutcome()):
            return SubagentError(subagent_run_id=name, message="the run was cancelled", code="CANCELLED")
        case RunFinished():
            return SubagentFinished(subagent_run_id=name)
        case RunErrorEvent(message=message, code=code):
            return SubagentError(subagent_run_id=name, message=message, code=code)
        case _:
            assert_never(terminal)


def _open_ids(names: StreamIds[LoggedId], owner: EventOwner | None) -> list[tuple[LoggedId, EventOwner]]:
    return [(name, tag) for name, tag in names.open.items() if owner is None or tag == owner]
