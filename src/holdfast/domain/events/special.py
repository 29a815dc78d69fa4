"""What the protocol carries without reading it."""

from typing import TypeAlias

from msgspec import UNSET, UnsetType

from holdfast.domain.content import Json
from holdfast.domain.events.event import Attributed


class Raw(Attributed, frozen=True, kw_only=True, tag="RAW"):
    """A provider's own event."""

    event: Json
    source: str | UnsetType = UNSET


class Custom(Attributed, frozen=True, kw_only=True, tag="CUSTOM"):
    """An application's own event; ours are in `custom`."""

    name: str
    value: Json


SpecialEvent: TypeAlias = Raw | Custom
