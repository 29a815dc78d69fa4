"""Progress that is no part of what is said."""

from typing import TypeAlias

from msgspec import UNSET, UnsetType

from holdfast.domain.content import Json
from holdfast.domain.events.event import Attributed
from holdfast.domain.events.patch import Patch
from holdfast.domain.ids import MessageId


class ActivitySnapshot(Attributed, frozen=True, kw_only=True, tag="ACTIVITY_SNAPSHOT"):
    """An activity as it stands; it replaces an earlier one unless `replace` is false."""

    message_id: MessageId
    activity_type: str
    content: dict[str, Json]
    replace: bool | UnsetType = UNSET


class ActivityDelta(Attributed, frozen=True, kw_only=True, tag="ACTIVITY_DELTA"):
    """A change of an activity."""

    message_id: MessageId
    activity_type: str
    patch: Patch


ActivityEvent: TypeAlias = ActivitySnapshot | ActivityDelta
