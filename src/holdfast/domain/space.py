"""A space: the tenant that everything else belongs to."""

from typing import Annotated, Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.ids import SpaceId
from holdfast.domain.instant import Instant

DEFAULT_SPACE: Final = SpaceId("default")
"""The space that every workspace begins with."""

MAX_NAME: Final = 200
"""Characters of a space's name."""


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant."""

    id: SpaceId
    name: str
    metadata: dict[str, Json]
    created_at: Instant


class SpacePatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be changed of a space; what is absent stays."""

    name: Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": MAX_NAME})] | msgspec.UnsetType = msgspec.UNSET
    metadata: dict[str, Json] | msgspec.UnsetType = msgspec.UNSET
