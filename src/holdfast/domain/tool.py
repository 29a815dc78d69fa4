"""The specification of a tool: name, parameters, and class (the meaning of an interrupted call)."""

import re
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid

DEFAULT_TOOL_TIMEOUT_SECONDS: Final = 300.0
DEFAULT_OUTPUT_LIMIT_CHARS: Final = 32 * 1024
"""The part of a result that the model receives; the whole is stored as an artifact."""
REMOTE_METHOD_PREFIX: Final = "remote__"
"""Name prefix of methods of connected clients; rules may name a method that is not connected."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class ToolClass(StrEnum):
    """Class of a tool: the meaning of an interrupted call."""

    TRANSACTIONAL = "transactional"
    """It changes only the Holdfast store, in the commit that settles it, so its outcome is always known."""
    IDEMPOTENT = "idempotent"
    """It may be called again with the same idempotency key."""
    EFFECTFUL = "effectful"
    """The outcome of an interrupted call is unknown."""


class ToolReach(StrEnum):
    """Reach of the changes of a tool."""

    WORKSPACE = "workspace"
    """Only the workspace and the Holdfast store."""
    COMMANDS = "commands"
    """The same as commands: beyond the workspace only if commands have network access."""
    OUTSIDE = "outside"


class ToolChange(msgspec.Struct, frozen=True, kw_only=True):
    """A third-party tool changed after it was trusted."""

    digest: str
    """The digest of its current definition; trust covers only this definition."""
    description: str
    """Its current description, hidden from the model until a person trusts it."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Specification of a tool. `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Json]
    kind: ToolClass = ToolClass.EFFECTFUL
    read_only: bool = False
    """It changes nothing: its calls run in parallel, and again after a crash."""
    timeout: float = DEFAULT_TOOL_TIMEOUT_SECONDS
    output_limit: int = DEFAULT_OUTPUT_LIMIT_CHARS
    reach: ToolReach | None = None
    """Reach of its changes; null derives it from the class, see `reaches_outside`."""
    untrusted: bool = False
    """Its results are third-party text: a run that reads them is tainted."""
    changed: ToolChange | None = None
    """The change that a person must review before the tool may be called again."""


class ToolInterrupt(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a tool for a person's input, needed to continue a call."""

    message: str
    response_schema: dict[str, Json] | None = None
    state: Json = None
    """Returned to the tool with the response."""


class ToolReply(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool call: any JSON value, or plain text."""

    content: Json
    failed: bool = False
    unknown: bool = False
    """The outcome is unknown; only for a `failed` call of an effectful tool."""
    untrusted: str | None = None
    """The source of third-party text in the result."""
    interrupt: ToolInterrupt | None = None
    """The call waits for a person's input; not available to transactional tools."""


def reaches_outside(spec: ToolSpec, *, network: bool) -> bool:
    """Return whether a tool may change anything beyond the workspace; `network`: commands have network access."""
    match spec.reach:
        case None:
            return not spec.read_only and spec.kind is not ToolClass.TRANSACTIONAL
        case ToolReach.COMMANDS:
            return network
        case reach:
            return reach is ToolReach.OUTSIDE


def check_tool_spec(spec: ToolSpec) -> ToolSpec:
    """Return `spec` if it is valid."""
    if _NAME.fullmatch(spec.name) is None:
        raise Invalid(
            "a tool's name must be 1 to 64 letters, digits, `_` or `-`, and begin with a letter or `_`",
            field="name",
        )
    if spec.parameters.get("type") != "object":
        raise Invalid(f"the parameters of `{spec.name}` must be a JSON Schema of an object", field="parameters")
    if spec.read_only and spec.kind is ToolClass.EFFECTFUL:
        raise Invalid(f"`{spec.name}` cannot be read-only and effectful", field="read_only")
    if spec.timeout <= 0 or spec.output_limit <= 0:
        raise Invalid(f"`timeout` and `output_limit` of `{spec.name}` must be more than 0")
    return spec
