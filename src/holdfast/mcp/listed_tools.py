"""Tools that an MCP server lists, converted to `ToolSpec`s with names that every model provider accepts.

The server is never trusted to make a tool look safer: the operator's declaration decides, and the server's hints
can only restrict it. A tool that has changed since it was trusted is listed without its own description until a
person has approved it, because a model reads a tool description as if the operator had written it.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.idempotency import request_digest
from holdfast.domain.mcp_server import McpServer, McpToolClass, server_tool_prefix
from holdfast.domain.tool import ToolChange, ToolClass, ToolSpec, check_tool_spec
from holdfast.tools.arguments import check_parameters

MAX_TOOLS: Final = 512
"""Tools of one server that are taken."""
MAX_DESCRIPTION_CHARS: Final = 4_000
MAX_SCHEMA_BYTES: Final = 64 * 1024
"""Bytes."""
STARTUP_MARGIN_SECONDS: Final = 90.0
"""Seconds that a call has beside those of the tool: its server may have to be started first."""

_CONTROL_CHARS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_log: Final = logging.getLogger("holdfast.mcp")


class ToolHints(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a server claims of a tool. Null: it claims nothing."""

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None


class ListedTool(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool as a server lists it."""

    name: str
    description: str | None = None
    input_schema: dict[str, Json] = {}
    output_schema: dict[str, Json] | None = None
    annotations: ToolHints | None = None


class McpTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that may be used."""

    remote_name: str
    """What the server calls it."""
    digest: str
    """Of all that it says of itself: another digest is another tool, as far as trust goes."""
    spec: ToolSpec


def usable_tools(name: str, server: McpServer, listed: Sequence[Json]) -> list[McpTool]:
    """Return the tools of a server that may be used; one that cannot be a tool is left out, and the log says why."""
    wanted = {tool.name: tool for tool in _parse_tools(name, listed[:MAX_TOOLS]) if _is_wanted(tool, server)}
    names = tool_names(name, wanted)
    return [offer for tool in wanted.values() if (offer := _to_mcp_tool(names[tool.name], tool, server)) is not None]


def _parse_tools(name: str, listed: Iterable[Json]) -> Iterator[ListedTool]:
    for one in listed:
        try:
            yield msgspec.convert(one, ListedTool)
        except msgspec.ValidationError as exc:
            _log.warning("a tool of the MCP server `%s` cannot be read: %s", name, exc)


def _is_wanted(tool: ListedTool, server: McpServer) -> bool:
    return server.tools is None or tool.name in server.tools


def _to_mcp_tool(name: str, tool: ListedTool, server: McpServer) -> McpTool | None:
    kind, read_only = _tool_class(
        server.classes.get(tool.name, McpToolClass.EFFECTFUL), tool.annotations or ToolHints()
    )
    spec = ToolSpec(
        name=name,
        description=_CONTROL_CHARS.sub("�", tool.description or "")[:MAX_DESCRIPTION_CHARS],
        parameters={"type": "object", **tool.input_schema},
        kind=kind,
        read_only=read_only,
        timeout=server.timeout_seconds + STARTUP_MARGIN_SECONDS,
    )
    try:
        if len(msgspec.json.encode(spec.parameters)) > MAX_SCHEMA_BYTES:
            raise Invalid(f"the parameters of `{name}` are longer than {MAX_SCHEMA_BYTES} bytes")
        check_parameters(check_tool_spec(spec))
        return McpTool(remote_name=tool.name, digest=request_digest(tool), spec=spec)
    except (Invalid, UnicodeEncodeError) as exc:
        _log.warning("the MCP tool `%s` is left out: %s", name, exc)
        return None


def _tool_class(declared: McpToolClass, hints: ToolHints) -> tuple[ToolClass, bool]:
    """Return the class of a tool, and whether it only reads: what the operator says, unless the server denies it."""
    if hints.destructive_hint is True or declared is McpToolClass.EFFECTFUL:
        return ToolClass.EFFECTFUL, False
    if declared is McpToolClass.READ_ONLY and hints.read_only_hint is not False:
        return ToolClass.IDEMPOTENT, True
    return (ToolClass.EFFECTFUL if hints.idempotent_hint is False else ToolClass.IDEMPOTENT), False


CHANGED_TOOL_DESCRIPTION: Final = (
    "This tool has changed since it was trusted, so what it says of itself is not shown. A call of it is shown to a "
    "person first, who decides whether it may be used."
)
_TEXT_KEYS: Final = frozenset({"description", "title", "examples", "default", "$comment"})
_NAME_MAP_KEYS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Where the keys are names and no words of the schema."""


def specs_for_model(offers: Sequence[McpTool], trusted: Mapping[str, str]) -> list[ToolSpec]:
    """Return the specs of tools, where `trusted` are the digests that tools had when they were trusted."""
    return [offer.spec if is_trusted(offer, trusted) else _spec_without_descriptions(offer) for offer in offers]


def is_trusted(offer: McpTool, trusted: Mapping[str, str]) -> bool:
    """Say whether a tool is what it was when it was trusted."""
    return trusted.get(offer.spec.name) == offer.digest


def _spec_without_descriptions(offer: McpTool) -> ToolSpec:
    spec = offer.spec
    change = ToolChange(digest=offer.digest, description=spec.description)
    return replace(
        spec, description=CHANGED_TOOL_DESCRIPTION, parameters=strip_descriptions(spec.parameters), changed=change
    )


def strip_descriptions(schema: Json) -> Json:
    """Return a schema without what it tells whoever reads it."""
    match schema:
        case dict():
            return {key: _strip_value(key, value) for key, value in schema.items() if key not in _TEXT_KEYS}
        case list():
            return [strip_descriptions(part) for part in schema]
        case _:
            return schema


def _strip_value(key: str, value: Json) -> Json:
    if key in _NAME_MAP_KEYS and isinstance(value, dict):
        return {name: strip_descriptions(part) for name, part in value.items()}
    return value if key in ("enum", "const", "required") else strip_descriptions(value)


MAX_TOOL_NAME_CHARS: Final = 64
"""Characters of the name of a tool."""

_INVALID_CHARS: Final = re.compile(r"[^A-Za-z0-9_-]")


def tool_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return the name that a model calls each tool by; no two have the same, and each depends on nothing else."""
    prefix = server_tool_prefix(server)
    return {tool: prefix + _shorten(tool, room=MAX_TOOL_NAME_CHARS - len(prefix)) for tool in tools}


def _shorten(tool: str, *, room: int) -> str:
    """Return the name as it is where that can be, and otherwise with a number that tells it from those alike."""
    plain = _INVALID_CHARS.sub("_", tool)
    if plain == tool and 0 < len(tool) <= room:
        return tool
    mark = "-" + sha256(tool.encode()).hexdigest()[:8]
    return plain[: room - len(mark)] + mark
