"""AG-UI messages, run input, interrupts and run outcomes: the data that requests and events carry."""

from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import force_setattr

from holdfast.domain.content import Content, Json
from holdfast.domain.errors import Invalid
from holdfast.domain.events.event import Metadata, SafeCount
from holdfast.domain.ids import InterruptId, MessageId, RunId, ThreadId, ToolCallId

TextRole: TypeAlias = Literal["developer", "system", "assistant", "user"]
"""Role of a streamed text; tool results have an event of their own."""


class FunctionCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's name, and its arguments exactly as the model wrote them."""

    name: str
    arguments: str


class AgUiToolCall(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="function"):
    """A tool call of an assistant message."""

    id: ToolCallId
    function: FunctionCall
    encrypted_value: str | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET


class _MessageBase(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="role"):
    id: MessageId
    metadata: Metadata | UnsetType = UNSET
    subagent_run_id: RunId | UnsetType = UNSET


class _NamedMessage(_MessageBase, frozen=True, kw_only=True):
    name: str | UnsetType = UNSET
    encrypted_value: str | UnsetType = UNSET


class DeveloperMessage(_NamedMessage, frozen=True, kw_only=True, tag="developer"):
    """Instructions of the application."""

    content: str


class SystemMessage(_NamedMessage, frozen=True, kw_only=True, tag="system"):
    """Instructions of the system."""

    content: str


class AssistantMessage(_NamedMessage, frozen=True, kw_only=True, tag="assistant"):
    """Text of the agent, tool calls, or both."""

    content: str | UnsetType = UNSET
    tool_calls: list[AgUiToolCall] | UnsetType = UNSET


class UserMessage(_NamedMessage, frozen=True, kw_only=True, tag="user"):
    """A message of the user."""

    content: Content


class ToolMessage(_MessageBase, frozen=True, kw_only=True, tag="tool"):
    """The result of a tool call; a failed call may still have content."""

    content: Content
    tool_call_id: ToolCallId
    error: str | UnsetType = UNSET
    encrypted_value: str | UnsetType = UNSET


class ActivityMessage(_MessageBase, frozen=True, kw_only=True, tag="activity"):
    """A progress message with a fixed place in the conversation."""

    activity_type: str
    content: dict[str, Json]


class ReasoningMessage(_MessageBase, frozen=True, kw_only=True, tag="reasoning"):
    """Reasoning of the agent."""

    content: str
    encrypted_value: str | UnsetType = UNSET


AgUiMessage: TypeAlias = (
    DeveloperMessage | SystemMessage | AssistantMessage | UserMessage | ToolMessage | ActivityMessage | ReasoningMessage
)


class AgUiTool(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool that the client runs; `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: Json | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET

    def __post_init__(self) -> None:
        _unset_null(self, "parameters")


class AgUiContext(msgspec.Struct, frozen=True, kw_only=True):
    """Additional context for one run."""

    description: str
    value: str


class ResumeEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The response to one interrupt."""

    interrupt_id: InterruptId
    status: Literal["resolved", "cancelled"]
    payload: Json | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET

    def __post_init__(self) -> None:
        _unset_null(self, "payload")


class RunAgentInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request to run an agent."""

    thread_id: ThreadId
    run_id: RunId
    messages: list[AgUiMessage]
    protocol_version: str | UnsetType = UNSET
    parent_run_id: RunId | UnsetType = UNSET
    state: Json | UnsetType = UNSET
    tools: list[AgUiTool] | UnsetType = UNSET
    context: list[AgUiContext] | UnsetType = UNSET
    forwarded_props: Json | UnsetType = UNSET
    resume: list[ResumeEntry] | UnsetType = UNSET

    def __post_init__(self) -> None:
        _unset_null(self, "state")
        _unset_null(self, "forwarded_props")


class AgUiInterrupt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request of a run for input that it needs to continue."""

    id: InterruptId
    reason: str
    message: str | UnsetType = UNSET
    tool_call_id: ToolCallId | UnsetType = UNSET
    response_schema: dict[str, Json] | UnsetType = UNSET
    expires_at: str | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET
    subagent_run_id: RunId | UnsetType = UNSET


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Token usage of one model; input and output are totals, the others are parts of them."""

    provider: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    input_tokens: SafeCount | UnsetType = UNSET
    output_tokens: SafeCount | UnsetType = UNSET
    total_tokens: SafeCount | UnsetType = UNSET
    reasoning_tokens: SafeCount | UnsetType = UNSET
    cached_input_tokens: SafeCount | UnsetType = UNSET
    cache_write_input_tokens: SafeCount | UnsetType = UNSET


class SuccessOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="success"):
    """The run has completed, or waits for the client to run the pending tools."""

    pending_tool_call_ids: list[ToolCallId] | UnsetType = UNSET


class InterruptOutcome(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="interrupt"):
    """The run waits for responses."""

    interrupts: list[AgUiInterrupt]

    def __post_init__(self) -> None:
        if not self.interrupts:
            raise Invalid("`interrupts` must name at least one interrupt", field="interrupts")


class CancelledOutcome(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="cancelled"):
    """The run was cancelled."""


RunOutcome: TypeAlias = SuccessOutcome | InterruptOutcome | CancelledOutcome


def _unset_null(struct: msgspec.Struct, field: str) -> None:
    # Clients may send null where any JSON is allowed; it is treated as absent.
    if getattr(struct, field) is None:
        force_setattr(struct, field, UNSET)
