"""What a log says so far: a fold over its structural events, and over nothing else."""

from collections.abc import Iterable
from typing import Final, TypeAlias, assert_never, get_args

from msgspec import UNSET, UnsetType

from holdfast.domain.events import (
    EVENT_TYPES,
    Event,
    MessagesSnapshot,
    ReasoningEnd,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    RunError,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    SubagentError,
    SubagentFinished,
    SubagentStarted,
    TextMessageEnd,
    TextMessageStart,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from holdfast.domain.events.messages import AssistantMessage, Message, ReasoningMessage, TextRole
from holdfast.domain.events.subagents import SubagentSuspended
from holdfast.domain.ids import MessageId, RunId, ToolCallId
from holdfast.domain.stream.names import Names, Owner

_Run: TypeAlias = RunStarted | RunFinished | RunError
_Step: TypeAlias = StepStarted | StepFinished
_Text: TypeAlias = TextMessageStart | TextMessageEnd
_Call: TypeAlias = ToolCallStart | ToolCallEnd | ToolCallResult
_Reasoning: TypeAlias = ReasoningStart | ReasoningEnd | ReasoningMessageStart | ReasoningMessageEnd
_Subagent: TypeAlias = SubagentStarted | SubagentFinished | SubagentError

_STRUCTURAL: Final = get_args(_Run | _Step | _Text | _Call | _Reasoning | _Subagent | MessagesSnapshot)

STRUCTURAL_TYPES: Final = frozenset(name for name, type_ in EVENT_TYPES.items() if type_ in _STRUCTURAL)
"""The types of event that say what is open and which ids are used."""


class Segment:
    """What is forgotten when a segment ends: who owns what.

    Things that came with the history count as nobody's: an event without a tag agrees with any owner.
    """

    __slots__ = ("calls", "last_said", "messages", "run_id", "subagents", "thoughts")

    def __init__(self, run_id: RunId | None = None) -> None:
        self.run_id = run_id
        self.messages: dict[MessageId, Owner] = {}
        self.thoughts: dict[MessageId, Owner] = {}
        self.calls: dict[ToolCallId, Owner] = {}
        self.subagents: set[RunId] = set()
        self.last_said: dict[Owner, MessageId] = {}


class State:
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
        self.texts: Names[MessageId] = Names(used=messages)
        self.thoughts: Names[MessageId] = Names(used=messages)
        self.spans: Names[MessageId] = Names()
        self.calls: Names[ToolCallId] = Names()
        self.subagents: Names[RunId] = Names()
        self.steps: dict[tuple[Owner, str], None] = {}
        self.suspended: set[RunId] = set()
        self.unanswered: dict[ToolCallId, None] = {}
        self.speakers: dict[MessageId, tuple[TextRole | UnsetType, str | UnsetType]] = {}
        self.segment = Segment()
        self.begun = False

    @property
    def anything_open(self) -> bool:
        """Whether something has started and not ended."""
        streamed = self.texts.open or self.thoughts.open or self.spans.open or self.calls.open
        return bool(streamed or self.steps or self.subagents.open)

    def tag(self, said: Owner) -> Owner:
        """Return the logged id of the sub-agent `said`; unset if it did not start in this segment."""
        if said is UNSET:
            return UNSET
        logged = self.subagents.logged(said)
        return logged if logged in self.segment.subagents else UNSET

    def note(self, event: Event) -> None:
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
            case RunStarted() | RunFinished() | RunError():
                self._note_run(event)
            case MessagesSnapshot(messages=messages):
                self._note_history(messages)
            case _:
                pass  # the others open, end and name nothing

    def _note_run(self, event: _Run) -> None:
        match event:
            case RunStarted(run_id=run_id, input=given):
                self.begun = True
                self.segment = Segment(run_id)
                if given is not UNSET:
                    self._note_history(given.messages)
            case RunFinished() | RunError():
                self.segment = Segment()
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

    def _note_history(self, messages: Iterable[Message]) -> None:
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
