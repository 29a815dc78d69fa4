"""What all events share."""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.content import Json
from holdfast.domain.ids import RunId

PROTOCOL_VERSION: Final = "1.0"

Present: TypeAlias = bool | int | float | str | list[Json] | dict[str, Json]
"""Any JSON value but null: an optional field without a value is left out."""

Metadata: TypeAlias = dict[str, Json]

_MAX_SAFE: Final = 2**53 - 1

# Beyond these bounds a JavaScript client reads another number than was written.
Timestamp: TypeAlias = Annotated[int, msgspec.Meta(ge=-_MAX_SAFE, le=_MAX_SAFE)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MAX_SAFE)]


class AgUiEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """A fact in a run's log; `timestamp` is in milliseconds."""

    timestamp: Timestamp | UnsetType = UNSET
    raw_event: Present | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET


class Attributed(AgUiEvent, frozen=True, kw_only=True):
    """An event that may belong to a sub-agent; without a tag it is the agent's own."""

    subagent_run_id: RunId | UnsetType = UNSET
