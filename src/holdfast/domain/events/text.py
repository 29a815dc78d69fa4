"""Text that streams."""

from typing import TypeAlias

from msgspec import UNSET, UnsetType

from holdfast.domain.events.event import Attributed
from holdfast.domain.events.messages import TextRole
from holdfast.domain.ids import MessageId


class TextMessageStart(Attributed, frozen=True, kw_only=True, tag="TEXT_MESSAGE_START"):
    """A message begins; without a role the assistant speaks."""

    message_id: MessageId
    role: TextRole | UnsetType = UNSET
    name: str | UnsetType = UNSET


class TextMessageContent(Attributed, frozen=True, kw_only=True, tag="TEXT_MESSAGE_CONTENT"):
    """The next piece of a message."""

    message_id: MessageId
    delta: str


class TextMessageEnd(Attributed, frozen=True, kw_only=True, tag="TEXT_MESSAGE_END"):
    """A message is complete."""

    message_id: MessageId


class TextMessageChunk(Attributed, frozen=True, kw_only=True, tag="TEXT_MESSAGE_CHUNK"):
    """Start, content and end in one, for producers that do not know where a message begins."""

    message_id: MessageId | UnsetType = UNSET
    role: TextRole | UnsetType = UNSET
    delta: str | UnsetType = UNSET
    name: str | UnsetType = UNSET


TextEvent: TypeAlias = TextMessageStart | TextMessageContent | TextMessageEnd | TextMessageChunk
