"""MCP tool results and elicitation requests, converted to replies and interrupts of a run.

Since the 2026 protocol a call ends with its elicitation and is made again with the answers, so nothing is lost in
between. Older servers ask while the call is open and wait; if the server dies, the call is lost.
"""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import McpServerFailed
from holdfast.domain.idempotency import request_digest
from holdfast.domain.tool import ToolInterrupt, ToolReply

MAX_TEXT_CHARS: Final = 4 * 1024 * 1024
"""Characters of one answer that are read."""
MAX_FILES: Final = 16
"""Files of one answer that are kept."""

SaveFile: TypeAlias = Callable[[bytes, str], Awaitable[str]]
"""Keeps bytes of a media type, and returns the id of the file."""


class McpResource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a server has put into its answer."""

    uri: str = ""
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class McpContentBlock(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an answer; of the fields, those are there that its type has."""

    type: str
    text: str = ""
    data: str = ""
    mime_type: str | None = None
    uri: str = ""
    name: str = ""
    resource: McpResource = McpResource()


class McpResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An answer."""

    content: list[McpContentBlock] = []
    structured_content: Json = None
    is_error: bool = False


async def reply_from_result(result: McpResult, save: SaveFile) -> ToolReply:
    """Return what a model reads of an answer."""
    files = _ResultFiles(save)
    text = "\n".join([await _block_text(block, files) for block in result.content])
    return ToolReply(content=_content(_truncate(text), result.structured_content), failed=result.is_error)


class _ResultFiles:
    def __init__(self, keep: SaveFile) -> None:
        self._save_file = keep
        self._saved = 0

    async def save(self, data: str, media_type: str | None) -> str:
        """Keep bytes as a file, and return what stands for them."""
        kind = media_type or "application/octet-stream"
        if self._saved == MAX_FILES:
            return f"[{kind}: left out, there are more than {MAX_FILES} files in this answer]"
        try:
            content = b64decode(data, validate=True)
        except (NotBase64, ValueError):
            return f"[{kind}: left out, it cannot be read]"
        self._saved += 1
        return f"[{kind}, {len(content)} bytes: file `{await self._save_file(content, kind)}`]"


async def _block_text(block: McpContentBlock, files: _ResultFiles) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return await files.save(block.data, block.mime_type)
        case "resource" if block.resource.blob is not None:
            return f"{block.resource.uri} {await files.save(block.resource.blob, block.resource.mime_type)}"
        case "resource":
            return f"[{block.resource.uri}]\n{block.resource.text or ''}"
        case "resource_link":
            return f"[{block.name or 'resource'}: {block.uri}]"
        case other:
            return f"[left out: a part of the kind `{other[:40]}`]"


def _content(text: str, structured: Json) -> Json:
    """Return what is structured alone where the text says the same, as servers do for those who read text only."""
    if structured is None:
        return text
    # Where a tool returns no object, servers wrap what it returns in one.
    alone = structured["result"] if isinstance(structured, dict) and set(structured) == {"result"} else structured
    said = (structured, alone)
    return (
        alone if not text.strip() or text == alone or _parse_json(text) in said else {"text": text, "structured": alone}
    )


def _parse_json(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _truncate(text: str) -> str:
    rest = len(text) - MAX_TEXT_CHARS
    return text if rest <= 0 else f"{text[:MAX_TEXT_CHARS]}\n[{rest} characters were too many to keep]"


MAX_MESSAGE_CHARS: Final = 10_000
MAX_STATE_BYTES: Final = 256 * 1024
"""Bytes of what a server wants back with an answer, and of what it asks."""
UNNAMED_REQUEST: Final = "asked"
"""The name of a request that came without one."""

_ACTIONS: Final = ["accept", "decline", "cancel"]
_CANCEL_RESPONSE: Final[dict[str, Json]] = {"action": "cancel"}


class ElicitationRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that a server asks: for values that fit a schema, or to open an address."""

    message: str = ""
    requested_schema: dict[str, Json] | None = None
    url: str | None = None


class Elicitation(msgspec.Struct, frozen=True, kw_only=True):
    """All that a server asks at once, by name, and how it goes on."""

    requests: dict[str, ElicitationRequest]
    way: Literal["call_again", "answer"]
    """Make the call again with the answers, or give them to the call that is open."""
    state: str | None = None
    """What the server wants back when it is called again."""


def elicitation_interrupt(server: str, elicitation: Elicitation) -> ToolInterrupt:
    """Return what a person is asked."""
    state = msgspec.to_builtins(elicitation)
    if len(msgspec.json.encode(state)) > MAX_STATE_BYTES:
        raise McpServerFailed(f"the MCP server `{server}` asks for more than can be kept: {MAX_STATE_BYTES} bytes")
    said = "\n".join(_request_text(request) for request in elicitation.requests.values())
    schemas = {name: _schema(request) for name, request in elicitation.requests.items()}
    alone = next(iter(schemas.values())) if len(schemas) == 1 else None
    together: dict[str, Json] = {"type": "object", "required": list(schemas), "properties": schemas}
    return ToolInterrupt(
        message=f"The MCP server `{server}` asks: {said}"[:MAX_MESSAGE_CHARS],
        response_schema=alone or together,
        state=state,
    )


def elicitation_from_interrupt(question: ToolInterrupt) -> Elicitation:
    """Return what a server had asked."""
    return msgspec.convert(question.state, Elicitation)


def elicitation_responses(elicitation: Elicitation, response: Json) -> dict[str, dict[str, Json]]:
    """Return the answer to each request; where nobody answered, that it was called off."""
    given = response if isinstance(response, dict) else {}
    if len(elicitation.requests) == 1:
        return {name: _normalize_response(given) for name in elicitation.requests}
    return {name: _normalize_response(given.get(name)) for name in elicitation.requests}


def request_fingerprint(request: ElicitationRequest) -> str:
    """Return what tells requests apart: the same asked again can be answered the same."""
    return request_digest(request)


def _normalize_response(given: Json) -> dict[str, Json]:
    if not isinstance(given, Mapping) or given.get("action") not in _ACTIONS:
        return _CANCEL_RESPONSE
    accepted = given["action"] == "accept" and isinstance(given.get("content"), dict)
    return {"action": given["action"], "content": given["content"]} if accepted else {"action": given["action"]}


def _request_text(request: ElicitationRequest) -> str:
    return request.message if request.url is None else f"{request.message} (open {request.url}, then accept)"


def _schema(request: ElicitationRequest) -> dict[str, Json]:
    action: dict[str, Json] = {"enum": _ACTIONS, "description": "cancel: neither yes nor no"}
    if request.requested_schema is None:
        return {"type": "object", "required": ["action"], "properties": {"action": action}}
    return {
        "type": "object",
        "required": ["action"],
        "properties": {"action": action, "content": request.requested_schema},
        "if": {"properties": {"action": {"const": "accept"}}},
        "then": {"required": ["content"]},
    }
