"""Events of a run: every AG-UI 1.0 event type, and their JSON encoding.

A reasoning span groups reasoning messages. Its id names nothing else, so a span and a message may share one.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.content import Content, Json
from holdfast.domain.errors import Invalid
from holdfast.domain.events.event import AgUiEvent, AttributedEvent, JsonPatch, NonNullJson
from holdfast.domain.events.messages import AgUiMessage, RunAgentInput, RunOutcome, TextRole, TokenUsage
from holdfast.domain.ids import InterruptId, MessageId, RunId, ThreadId, ToolCallId

PROTOCOL_VERSION: Final = "1.0"


class RunStarted(AgUiEvent, frozen=True, kw_only=True, tag="RUN_STARTED"):
    """A segment begins; `parent_run_id` is the run that this one continues from."""

    thread_id: ThreadId
    run_id: RunId
    protocol_version: str | UnsetType = UNSET
    parent_run_id: RunId | UnsetType = UNSET
    input: RunAgentInput | UnsetType = UNSET


class RunFinished(AgUiEvent, frozen=True, kw_only=True, tag="RUN_FINISHED"):
    """A segment ended and did not fail; no outcome means success."""

    thread_id: ThreadId
    run_id: RunId
    result: NonNullJson | UnsetType = UNSET
    outcome: RunOutcome | UnsetType = UNSET
    usage: list[TokenUsage] | UnsetType = UNSET


class RunErrorEvent(AgUiEvent, frozen=True, kw_only=True, tag="RUN_ERROR"):
    """A segment failed."""

    message: str
    code: str | UnsetType = UNSET
    usage: list[TokenUsage] | UnsetType = UNSET


class StepStarted(AttributedEvent, frozen=True, kw_only=True, tag="STEP_STARTED"):
    """A named step begins."""

    step_name: str


class StepFinished(AttributedEvent, frozen=True, kw_only=True, tag="STEP_FINISHED"):
    """A named step ended."""

    step_name: str


TerminalEvent: TypeAlias = RunFinished | RunErrorEvent
RunLifecycleEvent: TypeAlias = RunStarted | TerminalEvent
StepEvent: TypeAlias = StepStarted | StepFinished


class TextMessageStart(AttributedEvent, frozen=True, kw_only=True, tag="TEXT_MESSAGE_START"):
    """A message begins; the default role is assistant."""

    message_id: MessageId
    role: TextRole | UnsetType = UNSET
    name: str | UnsetType = UNSET


class TextMessageContent(AttributedEvent, frozen=True, kw_only=True, tag="TEXT_MESSAGE_CONTENT"):
    """A delta of a message."""

    message_id: MessageId
    delta: str


class TextMessageEnd(AttributedEvent, frozen=True, kw_only=True, tag="TEXT_MESSAGE_END"):
    """A message is complete."""

    message_id: MessageId


class TextMessageChunk(AttributedEvent, frozen=True, kw_only=True, tag="TEXT_MESSAGE_CHUNK"):
    """Start, content and end of a message in one, for producers without message boundaries."""

    message_id: MessageId | UnsetType = UNSET
    role: TextRole | UnsetType = UNSET
    delta: str | UnsetType = UNSET
    name: str | UnsetType = UNSET


TextEvent: TypeAlias = TextMessageStart | TextMessageContent | TextMessageEnd | TextMessageChunk


class ToolCallStart(AttributedEvent, frozen=True, kw_only=True, tag="TOOL_CALL_START"):
    """The model requested a tool call, which has not run yet."""

    tool_call_id: ToolCallId
    tool_call_name: str
    parent_message_id: MessageId | UnsetType = UNSET


class ToolCallArgs(AttributedEvent, frozen=True, kw_only=True, tag="TOOL_CALL_ARGS"):
    """A delta of a call's arguments."""

    tool_call_id: ToolCallId
    delta: str


class ToolCallEnd(AttributedEvent, frozen=True, kw_only=True, tag="TOOL_CALL_END"):
    """A call's arguments are complete."""

    tool_call_id: ToolCallId


class ToolCallChunk(AttributedEvent, frozen=True, kw_only=True, tag="TOOL_CALL_CHUNK"):
    """Start, arguments and end of a call in one."""

    tool_call_id: ToolCallId | UnsetType = UNSET
    tool_call_name: str | UnsetType = UNSET
    parent_message_id: MessageId | UnsetType = UNSET
    delta: str | UnsetType = UNSET


class ToolCallResult(AttributedEvent, frozen=True, kw_only=True, tag="TOOL_CALL_RESULT"):
    """The result of a tool call, as a message of its own."""

    message_id: MessageId
    tool_call_id: ToolCallId
    content: Content
    role: Literal["tool"] | UnsetType = UNSET


ToolCallEvent: TypeAlias = ToolCallStart | ToolCallArgs | ToolCallEnd | ToolCallChunk | ToolCallResult


class ReasoningStart(AttributedEvent, frozen=True, kw_only=True, tag="REASONING_START"):
    """A span begins."""

    message_id: MessageId


class ReasoningEnd(AttributedEvent, frozen=True, kw_only=True, tag="REASONING_END"):
    """A span ended."""

    message_id: MessageId


class ReasoningMessageStart(AttributedEvent, frozen=True, kw_only=True, tag="REASONING_MESSAGE_START"):
    """A reasoning message begins."""

    message_id: MessageId
    role: Literal["reasoning"] = "reasoning"


class ReasoningMessageContent(AttributedEvent, frozen=True, kw_only=True, tag="REASONING_MESSAGE_CONTENT"):
    """A delta of a reasoning message."""

    message_id: MessageId
    delta: str


class ReasoningMessageEnd(AttributedEvent, frozen=True, kw_only=True, tag="REASONING_MESSAGE_END"):
    """A reasoning message is complete."""

    message_id: MessageId


class ReasoningMessageChunk(AttributedEvent, frozen=True, kw_only=True, tag="REASONING_MESSAGE_CHUNK"):
    """Start, content and end of a reasoning message in one."""

    message_id: MessageId | UnsetType = UNSET
    delta: str | UnsetType = UNSET


class ReasoningEncryptedValue(AttributedEvent, frozen=True, kw_only=True, tag="REASONING_ENCRYPTED_VALUE"):
    """Encrypted reasoning of a provider, to be returned to it on a later turn."""

    subtype: Literal["tool-call", "message"]
    entity_id: str
    encrypted_value: str


ReasoningSpanEvent: TypeAlias = ReasoningStart | ReasoningEnd
ReasoningMessageEvent: TypeAlias = (
    ReasoningMessageStart | ReasoningMessageContent | ReasoningMessageEnd | ReasoningMessageChunk
)
ReasoningEvent: TypeAlias = ReasoningSpanEvent | ReasoningMessageEvent | ReasoningEncryptedValue


class StateSnapshot(AttributedEvent, frozen=True, kw_only=True, tag="STATE_SNAPSHOT"):
    """The whole state, which may be null."""

    snapshot: Json


class StateDelta(AttributedEvent, frozen=True, kw_only=True, tag="STATE_DELTA"):
    """A change of the state."""

    delta: JsonPatch


class MessagesSnapshot(AgUiEvent, frozen=True, kw_only=True, tag="MESSAGES_SNAPSHOT"):
    """The whole conversation, in order."""

    messages: list[AgUiMessage]


StateEvent: TypeAlias = StateSnapshot | StateDelta


class ActivitySnapshot(AttributedEvent, frozen=True, kw_only=True, tag="ACTIVITY_SNAPSHOT"):
    """The whole activity; it replaces an earlier one unless `replace` is false."""

    message_id: MessageId
    activity_type: str
    content: dict[str, Json]
    replace: bool | UnsetType = UNSET


class ActivityDelta(AttributedEvent, frozen=True, kw_only=True, tag="ACTIVITY_DELTA"):
    """A change of an activity."""

    message_id: MessageId
    activity_type: str
    patch: JsonPatch


ActivityEvent: TypeAlias = ActivitySnapshot | ActivityDelta


class SubagentSucceeded(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="success"):
    """The sub-agent has completed."""


class SubagentSuspended(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="suspended"):
    """The sub-agent waits, and may continue in a later segment."""

    interrupt_ids: list[InterruptId] | UnsetType = UNSET


SubagentOutcome: TypeAlias = SubagentSucceeded | SubagentSuspended


class SubagentStarted(AgUiEvent, frozen=True, kw_only=True, tag="SUBAGENT_STARTED"):
    """A sub-agent begins; its events are tagged with its id."""

    subagent_run_id: RunId
    name: str
    description: str | UnsetType = UNSET
    parent_subagent_run_id: RunId | UnsetType = UNSET
    parent_tool_call_id: ToolCallId | UnsetType = UNSET
    parent_message_id: MessageId | UnsetType = UNSET


class SubagentFinished(AgUiEvent, frozen=True, kw_only=True, tag="SUBAGENT_FINISHED"):
    """A sub-agent ended or suspended; no outcome means success."""

    subagent_run_id: RunId
    result: NonNullJson | UnsetType = UNSET
    outcome: SubagentOutcome | UnsetType = UNSET


class SubagentError(AgUiEvent, frozen=True, kw_only=True, tag="SUBAGENT_ERROR"):
    """A sub-agent failed; the run may continue."""

    subagent_run_id: RunId
    message: str
    code: str | UnsetType = UNSET


SubagentEvent: TypeAlias = SubagentStarted | SubagentFinished | SubagentError


class Raw(AttributedEvent, frozen=True, kw_only=True, tag="RAW"):
    """An event of a provider, passed through."""

    event: Json
    source: str | UnsetType = UNSET


class Custom(AttributedEvent, frozen=True, kw_only=True, tag="CUSTOM"):
    """An application-defined event; those of Holdfast are in `custom`."""

    name: str
    value: Json


PassthroughEvent: TypeAlias = Raw | Custom
Event: TypeAlias = (
    RunLifecycleEvent
    | StepEvent
    | TextEvent
    | ToolCallEvent
    | StateEvent
    | MessagesSnapshot
    | ActivityEvent
    | ReasoningEvent
    | SubagentEvent
    | PassthroughEvent
)


def event_type(event: Event) -> str:
    """Return the wire name of the type of `event`."""
    return _TYPE_TAGS[type(event)]


def encode_event(event: Event) -> bytes:
    """Encode `event` as JSON."""
    try:
        return _encode(event)
    except (TypeError, UnicodeEncodeError) as exc:
        raise Invalid(f"`{event_type(event)}` cannot be encoded as JSON: {exc}") from exc


def decode_event(data: bytes) -> Event:
    """Decode an event of Holdfast or of another AG-UI producer."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Invalid(f"not an AG-UI {PROTOCOL_VERSION} event: {exc}") from exc


_TYPE_TAGS: Final[Mapping[type[Event], str]] = {type_: str(type_.__struct_config__.tag) for type_ in get_args(Event)}
EVENT_TYPES: Final[Mapping[str, type[Event]]] = MappingProxyType({tag: type_ for type_, tag in _TYPE_TAGS.items()})

_encode: Final = msgspec.json.Encoder().encode
_decode: Final[Callable[[bytes], Event]] = msgspec.json.Decoder(Event).decode
