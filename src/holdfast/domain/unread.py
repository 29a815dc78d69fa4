"""What people said to a run and changed of it, as an item of its inbox holds it."""

from collections.abc import Mapping

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.inbox import InboxItem, InboxKind
from holdfast.domain.message import STEERING, NewMessage, Role
from holdfast.domain.plan_edit import PlanEdit
from holdfast.domain.values import check_value_names


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody changes of a run: its plan, or whole values."""

    plan: PlanEdit | None = None
    values: Mapping[str, Json] = {}


def said_in(item: InboxItem) -> NewMessage | None:
    """Return what somebody said, as a message that begins no turn; one that is no message is refused (`Invalid`)."""
    if item.kind is not InboxKind.MESSAGE:
        return None
    try:
        said = msgspec.convert(item.data, NewMessage)
    except msgspec.ValidationError as exc:
        raise Invalid(f"item {item.number} of the inbox is not a message: {exc}") from exc
    metadata = {**said.metadata, STEERING: True}
    return msgspec.structs.replace(said, role=Role.USER, metadata=metadata, created_by=item.created_by)


def edit_in(item: InboxItem) -> Edit | None:
    """Return what somebody changes; what can be no change is refused (`Invalid`)."""
    if item.kind is not InboxKind.EDIT:
        return None
    try:
        edit = msgspec.convert(item.data, Edit)
    except msgspec.ValidationError as exc:
        raise Invalid(f"item {item.number} of the inbox is not an edit: {exc}") from exc
    check_value_names(edit.values)
    return edit


def is_of_people(item: InboxItem) -> bool:
    """Say whether an item is kept when its run ends before it reads it: what people said and changed, if it is that."""
    try:
        return said_in(item) is not None or edit_in(item) is not None
    except Invalid:
        return False
