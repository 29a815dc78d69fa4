"""A message: immutable, and numbered in its thread when it enters the conversation.

An edit forks the thread before the message; the new message names the one that it `revises`.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.content import Content, Json
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import MessageId, RunId, ThreadId, ToolCallId, check_client_id
from holdfast.domain.instant import Instant
from holdfast.domain.validation import check_text

MAX_INPUT_MESSAGES: Final = 1000
FAILED_METADATA_KEY: Final = "failed"
"""Metadata key of the result of an unsuccessful tool call: `failed` or `unknown`."""
_UNPAIRED_CALL: Final = (
    "in the input of a run, each tool call must be followed by its result, and each result must follow its call"
)
STEERING_METADATA_KEY: Final = "steering"
"""Metadata key of a user message that reached an active run and starts no turn."""


class Role(StrEnum):
    """Author of a message."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of an assistant message."""

    id: ToolCallId
    name: str
    arguments: dict[str, Json]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message. `sequence` is null until its run starts."""

    id: MessageId
    thread_id: ThreadId
    run_id: RunId
    role: Role
    content: Content
    tool_calls: list[ToolCall]
    tool_call_id: ToolCallId | None
    sequence: int | None
    revises: MessageId | None
    metadata: dict[str, Json]
    created_by: str | None
    created_at: Instant

    @property
    def cursor(self) -> int | MessageId:
        """Position on its chain: the sequence, or the id while there is none."""
        return self.id if self.sequence is None else self.sequence


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to add."""

    role: Role
    content: Content
    id: MessageId | None = None
    tool_calls: list[ToolCall] = []
    tool_call_id: ToolCallId | None = None
    revises: MessageId | None = None
    metadata: dict[str, Json] = {}
    created_by: str | None = None


def check_input_messages(messages: Sequence[NewMessage]) -> None:
    """Raise unless `messages` may start a run: each tool call in them is followed by its result."""
    if len(messages) > MAX_INPUT_MESSAGES:
        raise Invalid(f"a run may start with at most {MAX_INPUT_MESSAGES} messages", field="messages")
    unanswered: set[ToolCallId | None] = set()
    for message in messages:
        calls = [call.id for call in message.tool_calls]
        has_valid_calls = not calls or (message.role is Role.ASSISTANT and len(calls) == len(set(calls)))
        if message.role is Role.TOOL and message.tool_call_id in unanswered:
            unanswered.remove(message.tool_call_id)
        elif unanswered or message.role is Role.TOOL or message.tool_call_id is not None or not has_valid_calls:
            raise Invalid(_UNPAIRED_CALL, field="messages")
        else:
            for call in calls:
                check_text(call, field="messages.tool_calls.id", max_chars=256)
            unanswered = set(calls)
    if unanswered:
        raise Invalid(_UNPAIRED_CALL, field="messages")
    check_message_ids(messages)


def check_message_ids(messages: Sequence[NewMessage]) -> None:
    """Raise if an id or name in a message is malformed, or two messages have the same id."""
    for message in messages:
        if message.revises is not None:
            check_client_id(message.revises, field="messages.revises")
        if message.created_by is not None:
            check_text(message.created_by, field="messages.created_by", max_chars=256)
    ids = [check_client_id(message.id, field="messages.id") for message in messages if message.id is not None]
    if len(ids) != len(set(ids)):
        raise Invalid("two messages have the same id: change one", field="messages.id")


def not_run_result(call: ToolCall) -> NewMessage:
    """Return the result of a call that a fork leaves before its result."""
    return NewMessage(
        role=Role.TOOL,
        content="not run: the conversation was continued from before this call had a result",
        tool_call_id=call.id,
        metadata={FAILED_METADATA_KEY: "failed"},
    )


def unanswered_calls(messages: Sequence[Message | NewMessage]) -> list[ToolCall]:
    """Return the tool calls of the last assistant message that have no result yet."""
    answered: set[ToolCallId] = set()
    for message in reversed(messages):
        if message.role is Role.ASSISTANT:
            return [call for call in message.tool_calls if call.id not in answered]
        if message.tool_call_id is not None:
            answered.add(message.tool_call_id)
    return []
