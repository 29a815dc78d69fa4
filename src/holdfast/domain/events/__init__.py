"""Events of a run: the AG-UI 1.0 event types, encoded and decoded as JSON."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, get_args

import msgspec

from holdfast.domain.errors import Invalid
from holdfast.domain.events.ag_ui import (
    ActivityDelta,
    ActivityEvent,
    ActivitySnapshot,
    Custom,
    MessagesSnapshot,
    PassthroughEvent,
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
    StateEvent,
    StateSnapshot,
    StepEvent,
    StepFinished,
    StepStarted,
    SubagentError,
    SubagentEvent,
    SubagentFinished,
    SubagentStarted,
    TerminalEvent,
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
)
from holdfast.domain.events.event import PROTOCOL_VERSION

__all__ = [
    "EVENT_TYPES",
    "PROTOCOL_VERSION",
    "ActivityDelta",
    "ActivitySnapshot",
    "Custom",
    "Event",
    "MessagesSnapshot",
    "Raw",
    "ReasoningEncryptedValue",
    "ReasoningEnd",
    "ReasoningMessageChunk",
    "ReasoningMessageContent",
    "ReasoningMessageEnd",
    "ReasoningMessageStart",
    "ReasoningStart",
    "RunErrorEvent",
    "RunFinished",
    "RunStarted",
    "StateDelta",
    "StateSnapshot",
    "StepFinished",
    "StepStarted",
    "SubagentError",
    "SubagentFinished",
    "SubagentStarted",
    "TerminalEvent",
    "TextMessageChunk",
    "TextMessageContent",
    "TextMessageEnd",
    "TextMessageStart",
    "ToolCallArgs",
    "ToolCallChunk",
    "ToolCallEnd",
    "ToolCallResult",
    "ToolCallStart",
    "decode_event",
    "encode_event",
    "event_type",
]

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
