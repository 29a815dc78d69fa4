"""Strict verifier of a run's event stream.

It checks every ordering rule that the AG-UI 1.0 client enforces, and those that Holdfast adds: a version in
`RUN_STARTED`, a message for each tool call, nothing open at the end of a segment, one terminal event per segment, no
chunks, no id used twice. It shares no code with the producers of streams.
"""

from collections.abc import Iterable, Mapping
from typing import NoReturn, TypeAlias, assert_never

from msgspec import UNSET, UnsetType

from holdfast.domain.events import (
    PROTOCOL_VERSION,
    ActivityDelta,
    ActivityEvent,
    ActivitySnapshot,
    Custom,
    Event,
    MessagesSnapshot,
    Raw,
    ReasoningEncryptedValue,
    ReasoningEnd,
    ReasoningEvent,
    ReasoningMessageChunk,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    RunErrorEvent,
    RunFinished,
    RunLifecycleEvent,
    RunStarted,
    StateDelta,
    StateSnapshot,
    StepEvent,
    StepFinished,
    StepStarted,
    SubagentError,
    SubagentEvent,
    SubagentFinished,
    SubagentStarted,
    SubagentSuspended,
    TextEvent,
    TextMessageChunk,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallEvent,
    ToolCallResult,
    ToolCallStart,
    event_type,
)
from holdfast.domain.events.event import AttributedEvent
from holdfast.domain.events.messages import ActivityMessage, AgUiMessage, AssistantMessage, ReasoningMessage

_Owner: TypeAlias = str | UnsetType


class IllegalStream(AssertionError):
    """The event at `index`, or the end of the stream, breaks a rule."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"event {index}: {reason}")
        self.index = index
        self.reason = reason


def verify_stream(events: Iterable[Event], *, complete: bool = True) -> None:
    """Raise `IllegalStream` unless `events` are the legal log of one run, ended if `complete`."""
    verifier = _StreamVerifier()
    for event in events:
        verifier.check(event)
    if complete and verifier.segment is not None:
        verifier.refuse("the stream stops without a terminal event")


class _Segment:
    """The open entities of the current segment, and the owners of all its ids."""

    def __init__(self, start: RunStarted) -> None:
        self.start = start
        self.texts: set[str] = set()
        self.reasoning: set[str] = set()
        self.spans: set[str] = set()
        self.calls: set[str] = set()
        self.steps: set[tuple[_Owner, str]] = set()
        self.subagents: set[str] = set()
        self.announced: set[str] = set()
        self.message_owners: dict[str, _Owner] = {}
        self.reasoning_owners: dict[str, _Owner] = {}
        self.call_owners: dict[str, _Owner] = {}
        self.activity_owners: dict[str, _Owner] = {}

    def open_kinds(self) -> list[str]:
        """Return the kinds of entities that are open."""
        kinds: Mapping[str, set[str] | set[tuple[_Owner, str]]] = {
            "text message": self.texts,
            "tool call": self.calls,
            "step": self.steps,
            "reasoning message": self.reasoning,
            "reasoning span": self.spans,
            "subagent": self.subagents,
        }
        return [kind for kind, names in kinds.items() if names]

    def load_owners(self, messages: Iterable[AgUiMessage], *, authoritative: bool) -> None:
        """Set the owners of the messages and calls in a history."""
        for message in messages:
            match message:
                case ReasoningMessage():
                    owners = self.reasoning_owners
                case ActivityMessage():
                    owners = self.activity_owners
                case _:
                    owners = self.message_owners
            if authoritative or message.id not in owners:
                owners[message.id] = message.subagent_run_id
            calls = message.tool_calls if isinstance(message, AssistantMessage) else UNSET
            for call in calls or ():
                if authoritative or call.id not in self.call_owners:
                    self.call_owners[call.id] = message.subagent_run_id


class _StreamVerifier:
    def __init__(self) -> None:
        self.index = -1
        self.segment: _Segment | None = None
        self.used_messages: set[str] = set()
        self.used_spans: set[str] = set()
        self.used_calls: set[str] = set()
        self.used_subagents: set[str] = set()
        self.suspended: set[str] = set()

    def refuse(self, reason: str) -> NoReturn:
        raise IllegalStream(self.index, reason)

    def require(self, condition: bool, reason: str) -> None:
        if not condition:
            self.refuse(reason)

    def check(self, event: Event) -> None:
        self.index += 1
        if self.segment is not None:
            owner = event.subagent_run_id if isinstance(event, AttributedEvent) else UNSET
            announced = owner is UNSET or owner in self.segment.announced
            self.require(announced, f"no subagent `{owner}` started in this segment")
            self._check(self.segment, event)
        elif isinstance(event, RunStarted):
            self.require(event.protocol_version == PROTOCOL_VERSION, "RUN_STARTED without protocolVersion")
            self.segment = _Segment(event)
            if event.input is not UNSET:
                self.segment.load_owners(event.input.messages, authoritative=False)
        else:
            self.refuse(f"{event_type(event)} outside of a segment: only RUN_STARTED may come here")

    def _check(self, segment: _Segment, event: Event) -> None:
        match event:
            case TextMessageStart() | TextMessageContent() | TextMessageEnd() | TextMessageChunk():
                self._text(segment, event)
            case ToolCallStart() | ToolCallArgs() | ToolCallEnd() | ToolCallChunk() | ToolCallResult():
                self._tool_call(segment, event)
            case (
                ReasoningStart()
                | ReasoningEnd()
                | ReasoningMessageStart()
                | ReasoningMessageContent()
                | ReasoningMessageEnd()
                | ReasoningMessageChunk()
                | ReasoningEncryptedValue()
            ):
                self._reasoning(segment, event)
            case StepStarted() | StepFinished():
                self._step(segment, event)
            case SubagentStarted() | SubagentFinished() | SubagentError():
                self._subagent(segment, event)
            case ActivitySnapshot() | ActivityDelta():
                self._activity(segment, event)
            case RunStarted() | RunFinished() | RunErrorEvent():
                self._run(segment, event)
            case MessagesSnapshot():
                lost = segment.texts | segment.reasoning
                self.require(not lost, f"MESSAGES_SNAPSHOT would lose the open messages {sorted(lost)}")
                segment.load_owners(event.messages, authoritative=True)
            case StateSnapshot() | StateDelta() | Raw() | Custom():
                pass
            case _:
                assert_never(event)

    def _check_owner(self, owner: _Owner, owners: Mapping[str, _Owner], name: str) -> None:
        """Refuse an event whose subagent is not the owner of `name`, where both are known."""
        if owner is not UNSET and name in owners and owners[name] != owner:
            self.refuse(f"tagged `{owner}`, but `{name}` belongs to {_owner_text(owners[name])}")

    def _open(self, name: str, *, open_names: set[str], used: set[str], kind: str) -> None:
        self.require(name not in open_names, f"the {kind} `{name}` is already open")
        self.require(name not in used, f"the id `{name}` was used before")
        open_names.add(name)
        used.add(name)

    def _run(self, segment: _Segment, event: RunLifecycleEvent) -> None:
        if isinstance(event, RunStarted):
            self.refuse("RUN_STARTED in a segment that has not ended")
        for kind in segment.open_kinds():
            self.refuse(f"{event_type(event)} with an open {kind}")
        if isinstance(event, RunFinished):
            self.require(event.run_id == segment.start.run_id, "RUN_FINISHED has another runId than its start")
            same = event.thread_id == segment.start.thread_id
            self.require(same, "RUN_FINISHED has another threadId than its start")
        self.segment = None

    def _text(self, segment: _Segment, event: TextEvent) -> None:
        match event:
            case TextMessageStart(message_id=name, subagent_run_id=owner):
                self._check_owner(owner, segment.message_owners, name)
                self._open(name, open_names=segment.texts, used=self.used_messages, kind="text message")
                segment.message_owners.setdefault(name, owner)
            case TextMessageContent(message_id=name, subagent_run_id=owner):
                self.require(name in segment.texts, f"no text message `{name}` is open")
                self._check_owner(owner, segment.message_owners, name)
            case TextMessageEnd(message_id=name, subagent_run_id=owner):
                self.require(name in segment.texts, f"no text message `{name}` is open")
                self._check_owner(owner, segment.message_owners, name)
                segment.texts.remove(name)
            case TextMessageChunk():
                self.refuse("a chunk that was not expanded")
            case _:
                assert_never(event)

    def _tool_call(self, segment: _Segment, event: ToolCallEvent) -> None:
        match event:
            case ToolCallStart():
                self._tool_call_start(segment, event)
            case ToolCallArgs(tool_call_id=name, subagent_run_id=owner):
                self.require(name in segment.calls, f"no tool call `{name}` is open")
                self._check_owner(owner, segment.call_owners, name)
            case ToolCallEnd(tool_call_id=name, subagent_run_id=owner):
                self.require(name in segment.calls, f"no tool call `{name}` is open")
                self._check_owner(owner, segment.call_owners, name)
                segment.calls.remove(name)
            case ToolCallResult(tool_call_id=name, message_id=message, subagent_run_id=owner):
                self._check_owner(owner, segment.call_owners, name)
                self.require(message not in self.used_messages, f"the id `{message}` was used before")
                self.used_messages.add(message)
                segment.message_owners[message] = owner
            case ToolCallChunk():
                self.refuse("a chunk that was not expanded")
            case _:
                assert_never(event)

    def _tool_call_start(self, segment: _Segment, event: ToolCallStart) -> None:
        name, parent = event.tool_call_id, event.parent_message_id
        if parent is UNSET:
            self.refuse("TOOL_CALL_START without parentMessageId")
        self._check_owner(event.subagent_run_id, segment.message_owners, parent)
        self._check_owner(event.subagent_run_id, segment.call_owners, name)
        owner: _Owner = event.subagent_run_id
        if owner is UNSET:
            owner = segment.message_owners.get(parent, UNSET)
        if parent in segment.message_owners and segment.call_owners.get(name, owner) != owner:
            self.refuse(
                f"`{name}` belongs to {_owner_text(segment.call_owners[name])}, its message to {_owner_text(owner)}"
            )
        self._open(name, open_names=segment.calls, used=self.used_calls, kind="tool call")
        segment.call_owners.setdefault(name, owner)

    def _reasoning(self, segment: _Segment, event: ReasoningEvent) -> None:
        match event:
            case ReasoningEncryptedValue():
                if event.subtype == "tool-call":
                    owners = segment.call_owners
                elif event.entity_id in segment.message_owners:
                    owners = segment.message_owners
                else:
                    owners = segment.reasoning_owners
                self._check_owner(event.subagent_run_id, owners, event.entity_id)
                return
            case ReasoningMessageChunk():
                self.refuse("a chunk that was not expanded")
            case _:
                pass
        name, owner = event.message_id, event.subagent_run_id
        self._check_owner(owner, segment.reasoning_owners, name)
        match event:
            case ReasoningStart():
                self._open(name, open_names=segment.spans, used=self.used_spans, kind="reasoning span")
                segment.reasoning_owners.setdefault(name, owner)
            case ReasoningMessageStart():
                self._open(name, open_names=segment.reasoning, used=self.used_messages, kind="reasoning message")
                segment.reasoning_owners.setdefault(name, owner)
            case ReasoningEnd():
                self.require(name in segment.spans, f"no reasoning span `{name}` is open")
                segment.spans.remove(name)
            case ReasoningMessageContent() | ReasoningMessageEnd():
                self.require(name in segment.reasoning, f"no reasoning message `{name}` is open")
                if isinstance(event, ReasoningMessageEnd):
                    segment.reasoning.remove(name)
            case _:
                assert_never(event)

    def _step(self, segment: _Segment, event: StepEvent) -> None:
        key = (event.subagent_run_id, event.step_name)
        if isinstance(event, StepStarted):
            self.require(key not in segment.steps, f"the step `{event.step_name}` is already open")
            segment.steps.add(key)
        else:
            self.require(key in segment.steps, f"no step `{event.step_name}` of that owner is open")
            segment.steps.remove(key)

    def _subagent(self, segment: _Segment, event: SubagentEvent) -> None:
        name = event.subagent_run_id
        match event:
            case SubagentStarted(parent_subagent_run_id=parent):
                known = parent is UNSET or parent in segment.announced
                self.require(known, f"the parent subagent `{parent}` never started in this segment")
                if name in self.suspended and name not in segment.announced:
                    self.used_subagents.remove(name)
                self._open(name, open_names=segment.subagents, used=self.used_subagents, kind="subagent")
                segment.announced.add(name)
            case SubagentFinished() | SubagentError():
                self.require(name in segment.subagents, f"no subagent `{name}` is open")
                segment.subagents.remove(name)
                self.suspended.discard(name)
                if isinstance(event, SubagentFinished) and isinstance(event.outcome, SubagentSuspended):
                    self.suspended.add(name)
            case _:
                assert_never(event)

    def _activity(self, segment: _Segment, event: ActivityEvent) -> None:
        name, owner = event.message_id, event.subagent_run_id
        if isinstance(event, ActivityDelta):
            self._check_owner(owner, segment.activity_owners, name)
        elif event.replace is not False or name not in segment.activity_owners:
            segment.activity_owners[name] = owner


def _owner_text(owner: _Owner) -> str:
    return "the agent itself" if owner is UNSET else f"the subagent `{owner}`"
