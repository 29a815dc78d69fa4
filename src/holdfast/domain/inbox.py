"""The inbox of a run: messages, edits, responses and other items that reach it from outside.

Only the lease holder reads it, and a commit names the items that it consumed.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.instant import Instant
from holdfast.domain.message import STEERING_METADATA_KEY, NewMessage, Role
from holdfast.domain.plan_edit import PlanEdit
from holdfast.domain.run import check_value_names


class InboxKind(StrEnum):
    """Kind of an inbox item."""

    RESPONSE = "answer"
    MESSAGE = "message"
    CHILD = "child"
    TASK = "task"
    """A task that the run subscribed to has ended."""
    CHILD_INTERRUPT = "question"
    """The open interrupts of a child changed."""
    TIMER = "timer"
    EDIT = "edit"


class InboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item, numbered 1, 2, 3 in its run."""

    number: int
    kind: InboxKind
    data: Json
    created_by: str | None
    created_at: Instant


class RunEdit(msgspec.Struct, frozen=True, kw_only=True):
    """A person's edit of a run: of its plan, or of whole values."""

    plan: PlanEdit | None = None
    values: Mapping[str, Json] = {}


def decode_steering_message(item: InboxItem) -> NewMessage | None:
    """Decode a steering message, which starts no turn; null for other kinds of items, `Invalid` if malformed."""
    if item.kind is not InboxKind.MESSAGE:
        return None
    try:
        message = msgspec.convert(item.data, NewMessage)
    except msgspec.ValidationError as exc:
        raise Invalid(f"item {item.number} of the inbox is not a message: {exc}") from exc
    metadata = {**message.metadata, STEERING_METADATA_KEY: True}
    return msgspec.structs.replace(message, role=Role.USER, metadata=metadata, created_by=item.created_by)


def decode_edit(item: InboxItem) -> RunEdit | None:
    """Decode an edit; null for other kinds of items, `Invalid` if malformed."""
    if item.kind is not InboxKind.EDIT:
        return None
    try:
        edit = msgspec.convert(item.data, RunEdit)
    except msgspec.ValidationError as exc:
        raise Invalid(f"item {item.number} of the inbox is not an edit: {exc}") from exc
    check_value_names(edit.values)
    return edit


def is_from_person(item: InboxItem) -> bool:
    """Return whether an item is a person's message or edit, which is kept if the run ends before it reads it."""
    try:
        return decode_steering_message(item) is not None or decode_edit(item) is not None
    except Invalid:
        return False
