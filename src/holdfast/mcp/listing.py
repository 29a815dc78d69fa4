"""The tools that a server lists, as tools of ours.

A server is believed nothing that makes a tool more harmless: what the operator says of it holds, and hints of the
server can only take something of that back.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.idempotency import request_digest
from holdfast.domain.mcp_server import McpServer, McpToolClass
from holdfast.domain.tool import ToolClass, ToolSpec, check_tool_spec
from holdfast.mcp.names import tool_names
from holdfast.tools.arguments import check_parameters

MOST: Final = 512
"""Tools of one server that are taken."""
LONGEST_DESCRIPTION: Final = 4_000
LARGEST_SCHEMA: Final = 64 * 1024
"""Bytes."""
MARGIN: Final = 90.0
"""Seconds that a call has beside those of the tool: its server may have to be started first."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_log: Final = logging.getLogger("holdfast.mcp")


class Hints(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a server claims of a tool. Null: it claims nothing."""

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None


class Listed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool as a server lists it."""

    name: str
    description: str | None = None
    input_schema: dict[str, Json] = {}
    output_schema: dict[str, Json] | None = None
    annotations: Hints | None = None


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that may be used."""

    tool: str
    """What the server calls it."""
    digest: str
    """Of all that it says of itself: another digest is another tool, as far as trust goes."""
    spec: ToolSpec


def offers(name: str, server: McpServer, listed: Sequence[Json]) -> list[Offer]:
    """Return the tools of a server that may be used; one that cannot be a tool is left out, and the log says why."""
    wanted = {tool.name: tool for tool in _readable(name, listed[:MOST]) if _is_wanted(tool, server)}
    names = tool_names(name, wanted)
    return [offer for tool in wanted.values() if (offer := _offer(names[tool.name], tool, server)) is not None]


def _readable(name: str, listed: Iterable[Json]) -> Iterator[Listed]:
    for one in listed:
        try:
            yield msgspec.convert(one, Listed)
        except msgspec.ValidationError as exc:
            _log.warning("a tool of the MCP server `%s` cannot be read: %s", name, exc)


def _is_wanted(tool: Listed, server: McpServer) -> bool:
    return server.tools is None or tool.name in server.tools


def _offer(name: str, tool: Listed, server: McpServer) -> Offer | None:
    kind, read_only = _class(server.classes.get(tool.name, McpToolClass.EFFECTFUL), tool.annotations or Hints())
    spec = ToolSpec(
        name=name,
        description=_CONTROL.sub("�", tool.description or "")[:LONGEST_DESCRIPTION],
        parameters={"type": "object", **tool.input_schema},
        kind=kind,
        read_only=read_only,
        timeout=server.timeout_seconds + MARGIN,
    )
    try:
        if len(msgspec.json.encode(spec.parameters)) > LARGEST_SCHEMA:
            raise Invalid(f"the parameters of `{name}` are longer than {LARGEST_SCHEMA} bytes")
        check_parameters(check_tool_spec(spec))
        return Offer(tool=tool.name, digest=request_digest(tool), spec=spec)
    except (Invalid, UnicodeEncodeError) as exc:
        _log.warning("the MCP tool `%s` is left out: %s", name, exc)
        return None


def _class(said: McpToolClass, hints: Hints) -> tuple[ToolClass, bool]:
    """Return the class of a tool, and whether it only reads: what the operator says, unless the server denies it."""
    if hints.destructive_hint is True or said is McpToolClass.EFFECTFUL:
        return ToolClass.EFFECTFUL, False
    if said is McpToolClass.READ_ONLY and hints.read_only_hint is not False:
        return ToolClass.IDEMPOTENT, True
    return (ToolClass.EFFECTFUL if hints.idempotent_hint is False else ToolClass.IDEMPOTENT), False
