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
    RunStarted,
    StepFinished,
    StepStarted,
    SubagentError,
    SubagentFinished,
    SubagentStarted,
    TerminalEvent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from holdfast.domain.events.ag_ui import SubagentSuspended
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
"""The sub-agent that something belongs to; unset when it is the agent's own."""

LoggedId = TypeVar("LoggedId", bound=str)


class StreamIds(Generic[LoggedId]):
    """Ids as producers say them, and as they are logged: one that was used before is logged as `<id>-2`.

    Which logged id a said one stands for is seen from the logged ids alone, so that it survives a restart. So
    a producer's own `a-2`, said after the end of its `a`, is taken for `a` come again.
    """

    __slots__ = ("_logged", "_used", "open")

    def __init__(self, *, used: set[LoggedId] | None = None) -> None:
        self.open: dict[LoggedId, EventOwner] = {}
        """Logged ids, in the order of their start."""
        self._used: set[LoggedId] = set() if used is None else used
        self._logged: dict[LoggedId, LoggedId] = {}

    def logged_id(self, said: LoggedId) -> LoggedId:
        """Return the newest logged id of what producers call `said`."""
        return self._logged.get(said, said)

    def is_open(self, said: LoggedId) -> bool:
        """Tell whether what producers call `said` is open."""
        return self.logged_id(said) in self.open

    def new_id(self, said: LoggedId) -> LoggedId:
        """Return the id under which to log a new thing that producers call `said`."""
        if said not in self._used:
            return said
        newest = self.logged_id(said)
        numbers = count(2 if newest == said else int(newest[len(said) + 1 :]) + 1)
        candidates = (cast(LoggedId, f"{said}-{number}") for number in numbers)
        return next(name for name in candidates if name not in self._used)

    def latest(self, owner: EventOwner) -> LoggedId | None:
        """Return the open one of `owner` that started last."""
        return next((name for name, each in reversed(self.open.items()) if each == owner), None)

    def start(self, name: LoggedId, owner: EventOwner) -> None:
        """Take note that `name` was logged as started."""
        said = cast(LoggedId, name.rpartition("-")[0])
        if name == self.new_id(said) and not self.is_open(said):
            self._logged[said] = name
        self._used.add(name)
        self.open[name] = owner

    def end(self, name: LoggedId) -> None:
        """Take note that `name` was logged as ended."""
        self.open.pop(name, None)

    def use(self, name: LoggedId) -> None:
        """Take note that `name` now names something that never was open."""
        self._used.add(name)


_Run: TypeAlias = RunStarted | RunFinished | RunErrorEvent
_Step: TypeAlias = StepStarted | StepFinished
_Text: TypeAlias = TextMessageStart | TextMessageEnd
_Call: TypeAlias = ToolCallStart | ToolCallEnd | ToolCallResult
_Reasoning: TypeAlias = ReasoningStart | ReasoningEnd | ReasoningMessageStart | ReasoningMessageEnd
_Subagent: TypeAlias = SubagentStarted | SubagentFinished | SubagentError

_STRUCTURAL_CLASSES: Final = get_args(_Run | _Step | _Text | _Call | _Reasoning | _Subagent | MessagesSnapshot)

STRUCTURAL_TYPES: Final = frozenset(name for name, type_ in EVENT_TYPES.items() if type_ in _STRUCTURAL_CLASSES)
"""The types of event that say what is open and which ids are used."""


class StreamSegment:
    """What is forgotten when a segment ends: who owns what.

    Things that came with the history count as nobody's: an event without a tag agrees with any owner.
    """

    __slots__ = ("calls", "last_said", "messages", "run_id", "subagents", "thoughts")

    def __init__(self, run_id: RunId | None = None) -> None:
        self.run_id = run_id
        self.messages: dict[MessageId, EventOwner] = {}
        self.thoughts: dict[MessageId, EventOwner] = {}
        self.calls: dict[ToolCallId, EventOwner] = {}
        self.subagents: set[RunId] = set()
        self.last_said: dict[EventOwner, MessageId] = {}


class StreamState:
    """What is open, which ids are used up, and who owns what."""

    __slots__ = (
        "begun",
        "calls",
        "segment",
        "spans",
        "speakers",
        "steps",
        "subagents",
        "suspended",
        "texts",
        "thoughts",
        "unanswered",
    )

    def __init__(self) -> None:
        # Texts, thoughts and tool results are all messages to a client, so they draw on the same ids.
        messages: set[MessageId] = set()
        self.texts: StreamIds[MessageId] = StreamIds(used=messages)
        self.thoughts: StreamIds[MessageId] = StreamIds(used=messages)
        self.spans: StreamIds[MessageId] = StreamIds()
        self.calls: StreamIds[ToolCallId] = StreamIds()
        self.subagents: StreamIds[RunId] = StreamIds()
        self.steps: dict[tuple[EventOwner, str], None] = {}
        self.suspended: set[RunId] = set()
        self.unanswered: dict[ToolCallId, None] = {}
        self.speakers: dict[MessageId, tuple[TextRole | UnsetType, str | UnsetType]] = {}
        self.segment = StreamSegment()
        self.begun = False

    @property
    def anything_open(self) -> bool:
        """Whether something has started and not ended."""
        streamed = self.texts.open or self.thoughts.open or self.spans.open or self.calls.open
        return bool(streamed or self.steps or self.subagents.open)

    def tag(self, said: EventOwner) -> EventOwner:
        """Return the logged id of the sub-agent `said`; unset if it did not start in this segment."""
        if said is UNSET:
            return UNSET
        logged = self.subagents.logged_id(said)
        return logged if logged in self.segment.subagents else UNSET

    def record(self, event: Event) -> None:
        """Take note of an event that was logged."""
        match event:
            case TextMessageStart() | TextMessageEnd():
                self._note_text(event)
            case ToolCallStart() | ToolCallEnd() | ToolCallResult():
                self._note_call(event)
            case ReasoningStart() | ReasoningEnd() | ReasoningMessageStart() | ReasoningMessageEnd():
                self._note_reasoning(event)
            case StepStarted() | StepFinished():
                self._note_step(event)
            case SubagentStarted() | SubagentFinished() | SubagentError():
                self._note_subagent(event)
            case RunStarted() | RunFinished() | RunErrorEvent():
                self._note_run(event)
            case MessagesSnapshot(messages=messages):
                self._note_history(messages)
            case _:
                pass  # the others open, end and name nothing

    def _note_run(self, event: _Run) -> None:
        match event:
            case RunStarted(run_id=run_id, input=given):
                self.begun = True
                self.segment = StreamSegment(run_id)
                if given is not UNSET:
                    self._note_history(given.messages)
            case RunFinished() | RunErrorEvent():
                self.segment = StreamSegment()
            case _:
                assert_never(event)

    def _note_step(self, event: _Step) -> None:
        key = (event.subagent_run_id, event.step_name)
        match event:
            case StepStarted():
                self.steps[key] = None
            case StepFinished():
                self.steps.pop(key, None)
            case _:
                assert_never(event)

    def _note_text(self, event: _Text) -> None:
        name, owner = event.message_id, event.subagent_run_id
        match event:
            case TextMessageStart(role=role):
                self.texts.start(name, owner)
                self.speakers[name] = (role, event.name)
                self.segment.messages[name] = owner
                if role is UNSET or role == "assistant":
                    self.segment.last_said[owner] = name
            case TextMessageEnd():
                self.texts.end(name)
            case _:
                assert_never(event)

    def _note_call(self, event: _Call) -> None:
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

    def _note_reasoning(self, event: _Reasoning) -> None:
        name, owner = event.message_id, event.subagent_run_id
        match event:
            case ReasoningStart():
                self.spans.start(name, owner)
                self.segment.thoughts.setdefault(name, owner)
            case ReasoningMessageStart():
                self.thoughts.start(name, owner)
                self.segment.thoughts.setdefault(name, owner)
            case ReasoningEnd():
                self.spans.end(name)
            case ReasoningMessageEnd():
                self.thoughts.end(name)
            case _:
                assert_never(event)

    def _note_subagent(self, event: _Subagent) -> None:
        name = event.subagent_run_id
        match event:
            case SubagentStarted(parent_subagent_run_id=parent):
                self.subagents.start(name, parent)
                self.suspended.discard(name)
                self.segment.subagents.add(name)
            case SubagentFinished(outcome=outcome):
                self.subagents.end(name)
                if isinstance(outcome, SubagentSuspended):
                    self.suspended.add(name)
            case SubagentError():
                self.subagents.end(name)
            case _:
                assert_never(event)

    def _note_history(self, messages: Iterable[AgUiMessage]) -> None:
        for message in messages:
            self.texts.use(message.id)
            if isinstance(message, ReasoningMessage):
                self.segment.thoughts[message.id] = UNSET
            else:
                self.segment.messages[message.id] = UNSET
            if isinstance(message, AssistantMessage) and message.tool_calls is not UNSET:
                for call in message.tool_calls:
                    self._note_known_call(call.id)

    def _note_known_call(self, name: ToolCallId) -> None:
        self.calls.use(name)
        self.segment.calls[name] = UNSET
        if name in self.calls.open:
            self.calls.open[name] = UNSET


def reasoning_message_ends(state: StreamState, *, owner: EventOwner | None = None) -> Iterator[Event]:
    """End the reasoning messages of `owner`, or all."""
    for name, tag in _open_ids(state.thoughts, owner):
        yield ReasoningMessageEnd(message_id=name, subagent_run_id=tag)


def message_ends(state: StreamState, *, owner: EventOwner | None = None) -> Iterator[Event]:
    """End the messages of `owner`, or all: what was said and what was thought."""
    yield from reasoning_message_ends(state, owner=owner)
    for name, tag in _open_ids(state.texts, owner):
        yield TextMessageEnd(message_id=name, subagent_run_id=tag)


def span_ends(state: StreamState, *, owner: EventOwner | None = None) -> Iterator[Event]:
    """End the reasoning spans of `owner`, or all."""
    for name, tag in _open_ids(state.spans, owner):
        yield ReasoningEnd(message_id=name, subagent_run_id=tag)


def streamed_ends(state: StreamState, *, owner: EventOwner | None = None) -> Iterator[Event]:
    """End whatever a model was streaming for `owner`, or for all."""
    yield from message_ends(state, owner=owner)
    yield from span_ends(state, owner=owner)
    for name, tag in _open_ids(state.calls, owner):
        yield ToolCallEnd(tool_call_id=name, subagent_run_id=tag)


def work_ends(state: StreamState, *, owner: EventOwner | None = None) -> Iterator[Event]:
    """End whatever `owner` has open, or all of them, but no sub-agent."""
    yield from streamed_ends(state, owner=owner)
    for tag, name in list(state.steps):
        if owner is None or tag == owner:
            yield StepFinished(step_name=name, subagent_run_id=tag)


def subagent_ends(state: StreamState, terminal: TerminalEvent) -> Iterator[Event]:
    """End the sub-agents, the youngest first, in the way in which the segment ends."""
    for name in reversed(list(state.subagents.open)):
        yield _subagent_end(name, terminal)


def with_logged_ids(state: StreamState, outcome: RunOutcome | UnsetType) -> RunOutcome | UnsetType:
    """Return `outcome` with the ids under which things were logged."""
    match outcome:
        case SuccessOutcome(pending_tool_call_ids=list(pending)):
            return SuccessOutcome(pending_tool_call_ids=[state.calls.logged_id(call) for call in pending])
        case InterruptOutcome(interrupts=interrupts):
            return InterruptOutcome(
                interrupts=[_interrupt_with_logged_ids(state, interrupt) for interrupt in interrupts]
            )
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


def _subagent_end(name: RunId, terminal: TerminalEvent) -> Event:
    match terminal:
        case RunFinished(outcome=InterruptOutcome(interrupts=interrupts)):
            asked = [interrupt.id for interrupt in interrupts if interrupt.subagent_run_id == name]
            return SubagentFinished(subagent_run_id=name, outcome=SubagentSuspended(interrupt_ids=asked or UNSET))
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
