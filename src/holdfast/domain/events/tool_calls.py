"""What a model asks of tools, and what they answer."""

from typing import Literal, TypeAlias

from msgspec import UNSET, UnsetType

from holdfast.domain.content import Content
from holdfast.domain.events.event import Attributed
from holdfast.domain.ids import MessageId, ToolCallId


class ToolCallStart(Attributed, frozen=True, kw_only=True, tag="TOOL_CALL_START"):
    """The model asked for a tool; nothing has run yet."""

    tool_call_id: ToolCallId
    tool_call_name: str
    parent_message_id: MessageId | UnsetType = UNSET


class ToolCallArgs(Attributed, frozen=True, kw_only=True, tag="TOOL_CALL_ARGS"):
    """The next piece of a call's arguments."""

    tool_call_id: ToolCallId
    delta: str


class ToolCallEnd(Attributed, frozen=True, kw_only=True, tag="TOOL_CALL_END"):
    """A call's arguments are complete."""

    tool_call_id: ToolCallId


class ToolCallChunk(Attributed, frozen=True, kw_only=True, tag="TOOL_CALL_CHUNK"):
    """Start, arguments and end of a call in one."""

    tool_call_id: ToolCallId | UnsetType = UNSET
    tool_call_name: str | UnsetType = UNSET
    parent_message_id: MessageId | UnsetType = UNSET
    delta: str | UnsetType = UNSET


class ToolCallResult(Attributed, frozen=True, kw_only=True, tag="TOOL_CALL_RESULT"):
    """What the tool answered, as a message of its own."""

    message_id: MessageId
    tool_call_id: ToolCallId
    content: Content
    role: Literal["tool"] | UnsetType = UNSET


ToolCallEvent: TypeAlias = ToolCallStart | ToolCallArgs | ToolCallEnd | ToolCallChunk | ToolCallResult
