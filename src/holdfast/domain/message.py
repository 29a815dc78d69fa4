"""A message: immutable, and numbered in its thread when it enters the conversation.

To edit one is to fork the thread before it; the new message names what it `revises`.
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
"""The key that a tool's result has in its metadata when its call did not go well: `failed` or `unknown`."""
STEERING_METADATA_KEY: Final = "steering"
"""The key in the metadata of a user message that reached a run on its way, and begins no turn."""


class Role(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """What an assistant message asks for."""

    id: ToolCallId
    name: str
    arguments: dict[str, Json]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One thing said. `sequence` is null while it waits for its run to begin."""

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
        """Where it stands on its chain: its sequence, or its id while it has none."""
        return self.id if self.sequence is None else self.sequence


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to be said."""

    role: Role
    content: Content
    id: MessageId | None = None
    tool_calls: list[ToolCall] = []
    tool_call_id: ToolCallId | None = None
    revises: MessageId | None = None
    metadata: dict[str, Json] = {}
    created_by: str | None = None


def check_input_messages(messages: Sequence[NewMessage]) -> None:
    """Raise unless `messages` may begin a run: what asks for a tool in them is answered right after it."""
    if len(messages) > MAX_INPUT_MESSAGES:
        raise Invalid(f"a run may begin with at most {MAX_INPUT_MESSAGES} messages", field="messages")
    _check_calls(messages)
    check_message_ids(messages)


def _check_calls(messages: Sequence[NewMessage]) -> None:
    waiting: set[ToolCallId | None] = set()
    for message in messages:
        if message.role is Role.TOOL and message.tool_call_id in waiting:
            waiting.remove(message.tool_call_id)
        elif waiting or message.role is Role.TOOL or message.tool_call_id is not None or not _has_valid_calls(message):
            raise _unpaired_call()
        else:
            waiting = {_checked_call_id(call.id) for call in message.tool_calls}
    if waiting:
        raise _unpaired_call()


def _checked_call_id(call: ToolCallId) -> ToolCallId:
    check_text(call, field="messages.tool_calls.id", max_chars=256)
    return call


def _has_valid_calls(message: NewMessage) -> bool:
    """Say whether a message makes no call, or may make those that it does."""
    ids = [call.id for call in message.tool_calls]
    return not ids or (message.role is Role.ASSISTANT and len(ids) == len(set(ids)))


def _unpaired_call() -> Invalid:
    return Invalid(
        "the input of a run may not call a tool or answer one, unless each call is answered right after it",
        field="messages",
    )


def check_message_ids(messages: Sequence[NewMessage]) -> None:
    """Raise if a name in a message is malformed, or an id chosen twice."""
    for message in messages:
        if message.revises is not None:
            check_client_id(message.revises, field="messages.revises")
        if message.created_by is not None:
            check_text(message.created_by, field="messages.created_by", max_chars=256)
    chosen = [check_client_id(message.id, field="messages.id") for message in messages if message.id is not None]
    if len(chosen) != len(set(chosen)):
        raise Invalid("two messages have the same id", field="messages.id")


def unanswered_calls(messages: Sequence[Message | NewMessage]) -> list[ToolCall]:
    """Return the calls of the last assistant message that no later message answers."""
    answered: set[ToolCallId] = set()
    for message in reversed(messages):
        if message.role is Role.ASSISTANT:
            return [call for call in message.tool_calls if call.id not in answered]
        if message.tool_call_id is not None:
            answered.add(message.tool_call_id)
    return []
