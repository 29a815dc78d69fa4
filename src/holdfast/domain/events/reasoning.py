"""What a model thinks before it speaks.

A span groups reasoning messages. Its id names nothing else, so a span and a message may have the same one.
"""

from typing import Literal, TypeAlias

from msgspec import UNSET, UnsetType

from holdfast.domain.events.event import Attributed
from holdfast.domain.ids import MessageId


class ReasoningStart(Attributed, frozen=True, kw_only=True, tag="REASONING_START"):
    """A span begins."""

    message_id: MessageId


class ReasoningEnd(Attributed, frozen=True, kw_only=True, tag="REASONING_END"):
    """A span is over."""

    message_id: MessageId


class ReasoningMessageStart(Attributed, frozen=True, kw_only=True, tag="REASONING_MESSAGE_START"):
    """A reasoning message begins."""

    message_id: MessageId
    role: Literal["reasoning"] = "reasoning"


class ReasoningMessageContent(Attributed, frozen=True, kw_only=True, tag="REASONING_MESSAGE_CONTENT"):
    """The next piece of a reasoning message."""

    message_id: MessageId
    delta: str


class ReasoningMessageEnd(Attributed, frozen=True, kw_only=True, tag="REASONING_MESSAGE_END"):
    """A reasoning message is complete."""

    message_id: MessageId


class ReasoningMessageChunk(Attributed, frozen=True, kw_only=True, tag="REASONING_MESSAGE_CHUNK"):
    """Start, content and end of a reasoning message in one."""

    message_id: MessageId | UnsetType = UNSET
    delta: str | UnsetType = UNSET


class ReasoningEncryptedValue(Attributed, frozen=True, kw_only=True, tag="REASONING_ENCRYPTED_VALUE"):
    """A provider's sealed reasoning, to be given back on a later turn."""

    subtype: Literal["tool-call", "message"]
    entity_id: str
    encrypted_value: str


SpanEvent: TypeAlias = ReasoningStart | ReasoningEnd
ThoughtEvent: TypeAlias = ReasoningMessageStart | ReasoningMessageContent | ReasoningMessageEnd | ReasoningMessageChunk
ReasoningEvent: TypeAlias = SpanEvent | ThoughtEvent | ReasoningEncryptedValue
