"""A tool, as everyone needs to know it: what it is called, what it takes, and what a crash in the middle means."""

import re
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid

DEFAULT_TOOL_TIMEOUT_SECONDS: Final = 300.0
"""Seconds."""
DEFAULT_OUTPUT_LIMIT_CHARS: Final = 32 * 1024
"""Characters that reach the model; the whole is kept as an artifact."""
REMOTE_METHOD_PREFIX: Final = "remote__"
"""How the names of methods begin that connected clients offer: they come and go, so one that is away may be named."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class ToolClass(StrEnum):
    """What it means that a call was cut off."""

    TRANSACTIONAL = "transactional"
    """It touches only our store, in the commit that settles it: it has happened or it has not."""
    IDEMPOTENT = "idempotent"
    """Under the same key it may be run again."""
    EFFECTFUL = "effectful"
    """Nobody knows whether it happened."""


class ToolReach(StrEnum):
    """How far what a tool changes reaches."""

    WORKSPACE = "workspace"
    """Not beyond the workspace and our own store."""
    COMMANDS = "commands"
    """As far as the commands of the agent do: beyond the workspace where they have the network."""
    OUTSIDE = "outside"
    """Beyond the workspace."""


class ToolChange(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of somebody else is not what it was when it was trusted."""

    digest: str
    """Of what it says of itself now: that is what a person trusts, and nothing that it becomes later."""
    description: str
    """What it says of itself now. The model is not told before that is trusted."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tool promises. `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Json]
    kind: ToolClass = ToolClass.EFFECTFUL
    read_only: bool = False
    """It changes nothing anywhere: such calls run side by side, and again after a crash."""
    timeout: float = DEFAULT_TOOL_TIMEOUT_SECONDS
    output_limit: int = DEFAULT_OUTPUT_LIMIT_CHARS
    reach: ToolReach | None = None
    """How far what it changes reaches; null is as its class says: see `reaches_outside`."""
    untrusted: bool = False
    """Whatever it answers was written by others: a run that has read it is tainted."""
    changed: ToolChange | None = None
    """Why nobody may call it before a person has seen what it has become."""


class ToolInterrupt(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool must know of a person before it goes on with a call."""

    message: str
    response_schema: dict[str, Json] | None = None
    state: Json = None
    """What it is given back with the answer."""


class ToolReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool answers: any JSON, or text as it is."""

    content: Json
    failed: bool = False
    unknown: bool = False
    """Nobody knows whether it happened: only an effectful tool that has `failed` may say so."""
    untrusted: str | None = None
    """Whose words it has, where others wrote them."""
    question: ToolInterrupt | None = None
    """It is not done yet: a person is asked first. Only a tool that is not transactional may ask like this."""


def reaches_outside(spec: ToolSpec, *, network: bool) -> bool:
    """Say whether a tool may change something beyond the workspace; `network` is whether commands have it."""
    match spec.reach:
        case None:
            return not spec.read_only and spec.kind is not ToolClass.TRANSACTIONAL
        case ToolReach.COMMANDS:
            return network
        case reach:
            return reach is ToolReach.OUTSIDE


def check_tool_spec(spec: ToolSpec) -> ToolSpec:
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
