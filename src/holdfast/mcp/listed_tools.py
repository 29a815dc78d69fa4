"""Tools that an MCP server lists, converted to `ToolSpec`s with names that every model provider accepts.

A server cannot make its tools look safer: the operator's declaration decides, and the server's hints can only
restrict it. A tool that has changed since it was trusted is listed without its description until a person approves
it, because a model reads tool descriptions as instructions of the operator.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
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
"""Tools used of one server."""
MAX_DESCRIPTION_CHARS: Final = 4_000
STARTUP_MARGIN_SECONDS: Final = 90.0
"""Seconds added to the timeout of a call, because its server may have to be started first."""

_CONTROL_CHARS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_log: Final = logging.getLogger("holdfast.mcp")


class ToolHints(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Hints of a server about a tool; null where it gives none."""

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
    """A usable tool of a server."""

    remote_name: str
    """Its name on the server."""
    digest: str
    """Digest of its full listing. A tool with another digest needs new trust."""
    spec: ToolSpec


def usable_tools(name: str, server: McpServer, listed: Sequence[Json]) -> list[McpTool]:
    """Return the usable tools of a server; an invalid one is left out and logged."""
    selected: dict[str, ListedTool] = {}
    for entry in listed[:MAX_TOOLS]:
        try:
            tool = msgspec.convert(entry, ListedTool)
        except msgspec.ValidationError as exc:
            _log.warning("a tool of the MCP server `%s` is not valid: %s", name, exc)
            continue
        if server.tools is None or tool.name in server.tools:
            selected[tool.name] = tool
    names = tool_names(name, selected)
    converted = [_to_mcp_tool(names[tool.name], tool, server) for tool in selected.values()]
    return [tool for tool in converted if tool is not None]


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
        check_parameters(check_tool_spec(spec))
        return McpTool(remote_name=tool.name, digest=request_digest(tool), spec=spec)
    except (Invalid, UnicodeEncodeError) as exc:
        _log.warning("the MCP tool `%s` is left out: %s", name, exc)
        return None


def _tool_class(declared: McpToolClass, hints: ToolHints) -> tuple[ToolClass, bool]:
    """Return the class of a tool and whether it is read-only: as declared, unless the server's hints are stricter."""
    if hints.destructive_hint is True or declared is McpToolClass.EFFECTFUL:
        return ToolClass.EFFECTFUL, False
    if declared is McpToolClass.READ_ONLY and hints.read_only_hint is not False:
        return ToolClass.IDEMPOTENT, True
    return (ToolClass.EFFECTFUL if hints.idempotent_hint is False else ToolClass.IDEMPOTENT), False


CHANGED_TOOL_DESCRIPTION: Final = (
    "This tool has changed since it was trusted, so its description is not shown. A person must approve a call of it "
    "before it runs."
)
_TEXT_KEYS: Final = frozenset({"description", "title", "examples", "default", "$comment"})
_NAME_MAP_KEYS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Schema keywords whose keys are names, not keywords."""


def specs_for_model(tools: Sequence[McpTool], trusted: Mapping[str, str]) -> list[ToolSpec]:
    """Return the specs of tools; `trusted` maps tool names to the digests they had when they were trusted."""
    return [tool.spec if is_trusted(tool, trusted) else _spec_without_descriptions(tool) for tool in tools]


def is_trusted(tool: McpTool, trusted: Mapping[str, str]) -> bool:
    """Return whether a tool is unchanged since it was trusted."""
    return trusted.get(tool.spec.name) == tool.digest


def _spec_without_descriptions(tool: McpTool) -> ToolSpec:
    spec = tool.spec
    change = ToolChange(digest=tool.digest, description=spec.description)
    return replace(
        spec, description=CHANGED_TOOL_DESCRIPTION, parameters=strip_descriptions(spec.parameters), changed=change
    )


def strip_descriptions(schema: Json) -> Json:
    """Return a schema without descriptions and other free text."""
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

_INVALID_CHARS: Final = re.compile(r"[^A-Za-z0-9_-]")


def tool_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return the name of each tool for the model: unique, and independent of the other tools."""
    prefix = server_tool_prefix(server)
    return {tool: prefix + _shorten(tool, max_chars=MAX_TOOL_NAME_CHARS - len(prefix)) for tool in tools}


def _shorten(tool: str, *, max_chars: int) -> str:
    """Return a valid name unchanged, and any other one with a digest that makes it unique."""
    valid = _INVALID_CHARS.sub("_", tool)
    if valid == tool and 0 < len(tool) <= max_chars:
        return tool
    suffix = "-" + sha256(tool.encode()).hexdigest()[:8]
    return valid[: max_chars - len(suffix)] + suffix
