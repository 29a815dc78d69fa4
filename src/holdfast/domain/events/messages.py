"""The conversation as AG-UI carries it, in a snapshot and in a request."""

from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.content import Content, Json
from holdfast.domain.events.event import Metadata
from holdfast.domain.ids import MessageId, RunId, ToolCallId

TextRole: TypeAlias = Literal["developer", "system", "assistant", "user"]
"""Who may speak in a streamed text; what a tool says comes as its result."""


class FunctionCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's name, and its arguments exactly as the model wrote them."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="function"):
    """A call that an assistant message made."""

    id: ToolCallId
    function: FunctionCall
    encrypted_value: str | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET


class _Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="role"):
    id: MessageId
    metadata: Metadata | UnsetType = UNSET
    subagent_run_id: RunId | UnsetType = UNSET


class _Spoken(_Message, frozen=True, kw_only=True):
    name: str | UnsetType = UNSET
    encrypted_value: str | UnsetType = UNSET


class DeveloperMessage(_Spoken, frozen=True, kw_only=True, tag="developer"):
    """Instructions of the application."""

    content: str


class SystemMessage(_Spoken, frozen=True, kw_only=True, tag="system"):
    """Instructions of the system."""

    content: str


class AssistantMessage(_Spoken, frozen=True, kw_only=True, tag="assistant"):
    """What the agent said, the tools it called, or both."""

    content: str | UnsetType = UNSET
    tool_calls: list[ToolCall] | UnsetType = UNSET


class UserMessage(_Spoken, frozen=True, kw_only=True, tag="user"):
    """What a person said."""

    content: Content


class ToolMessage(_Message, frozen=True, kw_only=True, tag="tool"):
    """What a tool returned; a failed one may still say something."""

    content: Content
    tool_call_id: ToolCallId
    error: str | UnsetType = UNSET
    encrypted_value: str | UnsetType = UNSET


class ActivityMessage(_Message, frozen=True, kw_only=True, tag="activity"):
    """Progress that keeps its place in the conversation."""

    activity_type: str
    content: dict[str, Json]


class ReasoningMessage(_Message, frozen=True, kw_only=True, tag="reasoning"):
    """What the agent thought."""

    content: str
    encrypted_value: str | UnsetType = UNSET


Message: TypeAlias = (
    DeveloperMessage | SystemMessage | AssistantMessage | UserMessage | ToolMessage | ActivityMessage | ReasoningMessage
)
