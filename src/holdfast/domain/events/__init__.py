"""What happens in a run, in the vocabulary of AG-UI 1.0: one small type per event."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, get_args

import msgspec

from holdfast.domain.errors import Invalid
from holdfast.domain.events.activity import ActivityDelta, ActivityEvent, ActivitySnapshot
from holdfast.domain.events.event import PROTOCOL_VERSION
from holdfast.domain.events.lifecycle import (
    RunError,
    RunEvent,
    RunFinished,
    RunStarted,
    StepEvent,
    StepFinished,
    StepStarted,
    Terminal,
)
from holdfast.domain.events.reasoning import (
    ReasoningEncryptedValue,
    ReasoningEnd,
    ReasoningEvent,
    ReasoningMessageChunk,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
)
from holdfast.domain.events.special import Custom, Raw, SpecialEvent
from holdfast.domain.events.state import MessagesSnapshot, StateDelta, StateEvent, StateSnapshot
from holdfast.domain.events.subagents import (
    SubagentError,
    SubagentEvent,
    SubagentFinished,
    SubagentStarted,
)
from holdfast.domain.events.text import (
    TextEvent,
    TextMessageChunk,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
)
from holdfast.domain.events.tool_calls import (
    ToolCallArgs,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallEvent,
    ToolCallResult,
    ToolCallStart,
)

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
    "RunError",
    "RunFinished",
    "RunStarted",
    "StateDelta",
    "StateSnapshot",
    "StepFinished",
    "StepStarted",
    "SubagentError",
    "SubagentFinished",
    "SubagentStarted",
    "Terminal",
    "TextMessageChunk",
    "TextMessageContent",
    "TextMessageEnd",
    "TextMessageStart",
    "ToolCallArgs",
    "ToolCallChunk",
    "ToolCallEnd",
    "ToolCallResult",
    "ToolCallStart",
    "decode",
    "encode",
    "event_type",
]

Event: TypeAlias = (
    RunEvent
    | StepEvent
    | TextEvent
    | ToolCallEvent
    | StateEvent
    | MessagesSnapshot
    | ActivityEvent
    | ReasoningEvent
    | SubagentEvent
    | SpecialEvent
)


def event_type(event: Event) -> str:
    """Name the type of `event` as it is on the wire."""
    return _TAGS[type(event)]


def encode(event: Event) -> bytes:
    """Write `event` as JSON."""
    try:
        return _encode(event)
    except (TypeError, UnicodeEncodeError) as exc:
        raise Invalid(f"`{event_type(event)}` holds what JSON cannot: {exc}") from exc


def decode(data: bytes) -> Event:
    """Read what `encode`, or another AG-UI producer, wrote."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Invalid(f"not an AG-UI {PROTOCOL_VERSION} event: {exc}") from exc


_TAGS: Final[Mapping[type[Event], str]] = {type_: str(type_.__struct_config__.tag) for type_ in get_args(Event)}
EVENT_TYPES: Final[Mapping[str, type[Event]]] = MappingProxyType({tag: type_ for type_, tag in _TAGS.items()})

_encode: Final = msgspec.json.Encoder().encode
_decode: Final[Callable[[bytes], Event]] = msgspec.json.Decoder(Event).decode
