"""The base classes of AG-UI events, and JSON Patch (RFC 6902)."""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.content import Json
from holdfast.domain.ids import RunId

NonNullJson: TypeAlias = bool | int | float | str | list[Json] | dict[str, Json]
"""Any JSON value except null: an optional field without a value is omitted."""

Metadata: TypeAlias = dict[str, Json]

_MAX_SAFE_INTEGER: Final = 2**53 - 1

# JavaScript clients read integers beyond these bounds inexactly.
Timestamp: TypeAlias = Annotated[int, msgspec.Meta(ge=-_MAX_SAFE_INTEGER, le=_MAX_SAFE_INTEGER)]
SafeCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MAX_SAFE_INTEGER)]


class AgUiEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """Base of all events; `timestamp` is in milliseconds."""

    timestamp: Timestamp | UnsetType = UNSET
    raw_event: NonNullJson | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET


class AttributedEvent(AgUiEvent, frozen=True, kw_only=True):
    """An event that may belong to a sub-agent; without a tag it belongs to the agent of the run."""

    subagent_run_id: RunId | UnsetType = UNSET


# `$` would accept a trailing line feed.
JsonPointer: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^(/([^/~]|~[01])*)*(?![\s\S])")]


class _PatchOperation(msgspec.Struct, frozen=True, kw_only=True, tag_field="op"):
    path: JsonPointer


class PatchAdd(_PatchOperation, frozen=True, kw_only=True, tag="add"):
    """Insert `value` at `path`."""

    value: Json


class PatchRemove(_PatchOperation, frozen=True, kw_only=True, tag="remove"):
    """Remove the value at `path`."""


class PatchReplace(_PatchOperation, frozen=True, kw_only=True, tag="replace"):
    """Replace the value at `path`."""

    value: Json


class PatchMove(_PatchOperation, frozen=True, kw_only=True, tag="move"):
    """Move the value at `from` to `path`."""

    from_: JsonPointer = msgspec.field(name="from")


class PatchCopy(_PatchOperation, frozen=True, kw_only=True, tag="copy"):
    """Copy the value at `from` to `path`."""

    from_: JsonPointer = msgspec.field(name="from")


class PatchTest(_PatchOperation, frozen=True, kw_only=True, tag="test"):
    """Apply the patch only if `value` is at `path`."""

    value: Json


JsonPatch: TypeAlias = list[PatchAdd | PatchRemove | PatchReplace | PatchMove | PatchCopy | PatchTest]
