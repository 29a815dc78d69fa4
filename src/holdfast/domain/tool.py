"""A tool, as everyone needs to know it: what it is called, what it takes, and what a crash in the middle means."""

import re
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid

DEFAULT_TIMEOUT: Final = 300.0
"""Seconds."""
DEFAULT_OUTPUT_LIMIT: Final = 32 * 1024
"""Characters that reach the model; the whole is kept as an artifact."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class ToolClass(StrEnum):
    """What it means that a call was cut off."""

    TRANSACTIONAL = "transactional"
    """It touches only our store, in the commit that settles it: it has happened or it has not."""
    IDEMPOTENT = "idempotent"
    """Under the same key it may be run again."""
    EFFECTFUL = "effectful"
    """Nobody knows whether it happened."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tool promises. `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Json]
    kind: ToolClass = ToolClass.EFFECTFUL
    read_only: bool = False
    """It changes nothing anywhere: such calls run side by side, and again after a crash."""
    timeout: float = DEFAULT_TIMEOUT
    output_limit: int = DEFAULT_OUTPUT_LIMIT


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool answers: any JSON, or text as it is."""

    content: Json
    failed: bool = False


def check_spec(spec: ToolSpec) -> ToolSpec:
    """Return `spec` if it can be a tool's."""
    if _NAME.fullmatch(spec.name) is None:
        raise Invalid("a tool's name is 1 to 64 letters, digits, `_` or `-`, and begins with no digit", field="name")
    if spec.parameters.get("type") != "object":
        raise Invalid(f"the parameters of `{spec.name}` must be a JSON Schema of an object", field="parameters")
    if spec.read_only and spec.kind is ToolClass.EFFECTFUL:
        raise Invalid(f"`{spec.name}` cannot be read-only and effectful", field="read_only")
    if spec.timeout <= 0 or spec.output_limit <= 0:
        raise Invalid(f"`timeout` and `output_limit` of `{spec.name}` must be more than 0")
    return spec
