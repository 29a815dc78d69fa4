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
    """What came in."""

    RESPONSE = "answer"
    MESSAGE = "message"
    CHILD = "child"
    TASK = "task"
    """A task has ended that the run wanted to be told of."""
    CHILD_INTERRUPT = "question"
    """A child waits for people, or asks something else than before."""
    TIMER = "timer"
    EDIT = "edit"


class InboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that came in, numbered 1, 2, 3 in its run."""

    number: int
    kind: InboxKind
    data: Json
    created_by: str | None
    created_at: Instant


class RunEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody changes of a run: its plan, or whole values."""

    plan: PlanEdit | None = None
    values: Mapping[str, Json] = {}


def decode_steering_message(item: InboxItem) -> NewMessage | None:
    """Return what somebody said, as a message that begins no turn; one that is no message is refused (`Invalid`)."""
    if item.kind is not InboxKind.MESSAGE:
        return None
    try:
        said = msgspec.convert(item.data, NewMessage)
    except msgspec.ValidationError as exc:
        raise Invalid(f"item {item.number} of the inbox is not a message: {exc}") from exc
    metadata = {**said.metadata, STEERING_METADATA_KEY: True}
    return msgspec.structs.replace(said, role=Role.USER, metadata=metadata, created_by=item.created_by)


def decode_edit(item: InboxItem) -> RunEdit | None:
    """Return what somebody changes; what can be no change is refused (`Invalid`)."""
    if item.kind is not InboxKind.EDIT:
        return None
    try:
        edit = msgspec.convert(item.data, RunEdit)
    except msgspec.ValidationError as exc:
        raise Invalid(f"item {item.number} of the inbox is not an edit: {exc}") from exc
    check_value_names(edit.values)
    return edit


def is_from_person(item: InboxItem) -> bool:
    """Say whether an item is kept when its run ends before it reads it: what people said and changed, if it is that."""
    try:
        return decode_steering_message(item) is not None or decode_edit(item) is not None
    except Invalid:
        return False
