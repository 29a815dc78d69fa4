"""What a client asks of a run, and what a run says at its end."""

from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import force_setattr

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.events.event import Count, Metadata
from holdfast.domain.events.messages import Message
from holdfast.domain.ids import InterruptId, RunId, ThreadId, ToolCallId


class Tool(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool that the client runs; `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: Json | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET

    def __post_init__(self) -> None:
        _leave_out_null(self, "parameters")


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the agent should know for this run."""

    description: str
    value: str


class ResumeEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to one interrupt."""

    interrupt_id: InterruptId
    status: Literal["resolved", "cancelled"]
    payload: Json | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET

    def __post_init__(self) -> None:
        _leave_out_null(self, "payload")


class RunAgentInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request to run an agent."""

    thread_id: ThreadId
    run_id: RunId
    messages: list[Message]
    protocol_version: str | UnsetType = UNSET
    parent_run_id: RunId | UnsetType = UNSET
    state: Json | UnsetType = UNSET
    tools: list[Tool] | UnsetType = UNSET
    context: list[Context] | UnsetType = UNSET
    forwarded_props: Json | UnsetType = UNSET
    resume: list[ResumeEntry] | UnsetType = UNSET

    def __post_init__(self) -> None:
        _leave_out_null(self, "state")
        _leave_out_null(self, "forwarded_props")


class Interrupt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that a run needs from outside before it can go on."""

    id: InterruptId
    reason: str
    message: str | UnsetType = UNSET
    tool_call_id: ToolCallId | UnsetType = UNSET
    response_schema: dict[str, Json] | UnsetType = UNSET
    expires_at: str | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET
    subagent_run_id: RunId | UnsetType = UNSET


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Tokens of one model; input and output are totals, the others are parts of them."""

    provider: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    input_tokens: Count | UnsetType = UNSET
    output_tokens: Count | UnsetType = UNSET
    total_tokens: Count | UnsetType = UNSET
    reasoning_tokens: Count | UnsetType = UNSET
    cached_input_tokens: Count | UnsetType = UNSET
    cache_write_input_tokens: Count | UnsetType = UNSET


class Succeeded(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="success"):
    """The run is done, or waits for the client to run the pending tools."""

    pending_tool_call_ids: list[ToolCallId] | UnsetType = UNSET


class Interrupted(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="interrupt"):
    """The run waits for answers."""

    interrupts: list[Interrupt]

    def __post_init__(self) -> None:
        if not self.interrupts:
            raise Invalid("`interrupts` must name at least one interrupt", field="interrupts")


class Cancelled(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="cancelled"):
    """The run was stopped; it did not fail."""


Outcome: TypeAlias = Succeeded | Interrupted | Cancelled


def _leave_out_null(struct: msgspec.Struct, field: str) -> None:
    # Clients may send null where any JSON is allowed; it means the same as nothing, and we never send it on.
    if getattr(struct, field) is None:
        force_setattr(struct, field, UNSET)
