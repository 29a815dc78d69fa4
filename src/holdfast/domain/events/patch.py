"""JSON Patch (RFC 6902): how a document changes."""

from typing import Annotated, TypeAlias

import msgspec

from holdfast.domain.content import Json

# `$` would let a line feed follow.
Pointer: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^(/([^/~]|~[01])*)*(?![\s\S])")]


class _Operation(msgspec.Struct, frozen=True, kw_only=True, tag_field="op"):
    path: Pointer


class Add(_Operation, frozen=True, kw_only=True, tag="add"):
    """Insert `value` at `path`."""

    value: Json


class Remove(_Operation, frozen=True, kw_only=True, tag="remove"):
    """Remove what is at `path`."""


class Replace(_Operation, frozen=True, kw_only=True, tag="replace"):
    """Put `value` in place of what is at `path`."""

    value: Json


class Move(_Operation, frozen=True, kw_only=True, tag="move"):
    """Move what is at `from` to `path`."""

    from_: Pointer = msgspec.field(name="from")


class Copy(_Operation, frozen=True, kw_only=True, tag="copy"):
    """Copy what is at `from` to `path`."""

    from_: Pointer = msgspec.field(name="from")


class Expect(_Operation, frozen=True, kw_only=True, tag="test"):
    """Apply the rest only if `value` is at `path`."""

    value: Json


Patch: TypeAlias = list[Add | Remove | Replace | Move | Copy | Expect]
