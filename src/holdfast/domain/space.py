"""A space: the tenant that everything else belongs to."""

from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.ids import SpaceId
from holdfast.domain.instant import Instant

DEFAULT_SPACE: Final = SpaceId("default")
"""The space that every workspace begins with."""


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant."""

    id: SpaceId
    name: str
    metadata: dict[str, Json]
    created_at: Instant


class SpacePatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be changed of a space; what is absent stays."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    metadata: dict[str, Json] | msgspec.UnsetType = msgspec.UNSET
