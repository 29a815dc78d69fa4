"""MCP tool results and elicitations, converted to tool replies and interrupts of a run.

Since the 2026 protocol a call ends with its elicitation and is repeated with the responses, so a restart loses
nothing. Older servers wait for the response while the call is open; if such a server dies, the call is lost.
"""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, Literal, TypeAlias

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import McpServerFailed
from holdfast.domain.idempotency import request_digest
from holdfast.domain.tool import ToolInterrupt, ToolReply

MAX_TEXT_CHARS: Final = 4 * 1024 * 1024
"""Characters kept of one result."""
MAX_DECODED_VALUES: Final = 200_000
"""Values of a text up to which it is compared with the structured content: to decode millions stops the event loop."""
MAX_FILES: Final = 16
"""Files saved of one result."""

SaveFile: TypeAlias = Callable[[bytes, str], Awaitable[str]]
"""Saves bytes of a media type, and returns the id of the file."""


class McpResource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An embedded resource of a result."""

    uri: str = ""
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class McpContentBlock(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A content block of a result; its type decides which fields are set."""

    type: str
    text: str = ""
    data: str = ""
    mime_type: str | None = None
    uri: str = ""
    name: str = ""
    resource: McpResource = McpResource()


class McpResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a tool call."""

    content: list[McpContentBlock] = []
    structured_content: Json = None
    is_error: bool = False


async def reply_from_result(result: McpResult, save: SaveFile) -> ToolReply:
    """Return the tool reply for a result, with its binary content saved as files."""
    files = _ResultFiles(save)
    text = "\n".join([await _block_text(block, files) for block in result.content])
    excess = len(text) - MAX_TEXT_CHARS
    if excess > 0:
        text = f"{text[:MAX_TEXT_CHARS]}\n[truncated: {excess} characters]"
    return ToolReply(content=_content(text, result.structured_content), failed=result.is_error)


class _ResultFiles:
    def __init__(self, save_file: SaveFile) -> None:
        self._save_file = save_file
        self._saved = 0

    async def save(self, data: str, media_type: str | None) -> str:
        """Save bytes as a file, and return the text that stands for it."""
        kind = media_type or "application/octet-stream"
        if self._saved == MAX_FILES:
            return f"[{kind}: left out, there are more than {MAX_FILES} files in this result]"
        try:
            content = b64decode(data, validate=True)
        except (NotBase64, ValueError):
            return f"[{kind}: left out, it is not valid base64]"
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
            return f"[left out: a block of type `{other[:40]}`]"


def _content(text: str, structured: Json) -> Json:
    """Return only the structured content if the text repeats it, as servers do for clients that read only text."""
    if structured is None:
        return text
    # Servers wrap a return value that is not an object in `{"result": …}`.
    value = structured["result"] if isinstance(structured, dict) and set(structured) == {"result"} else structured
    parsed: Json = text
    if sum(map(text.count, "[{,")) <= MAX_DECODED_VALUES:
        with suppress(msgspec.DecodeError, RecursionError):
            parsed = msgspec.json.decode(text)
    repeated = not text.strip() or text == value or parsed in (structured, value)
    return value if repeated else {"text": text, "structured": value}


MAX_MESSAGE_CHARS: Final = 10_000
MAX_STATE_BYTES: Final = 256 * 1024
"""Size limit of an elicitation with its state, as JSON."""
UNNAMED_REQUEST: Final = "asked"
"""The name of a request without one. Stored in interrupts."""

_ACTIONS: Final = ["accept", "decline", "cancel"]
_CANCEL_RESPONSE: Final[dict[str, Json]] = {"action": "cancel"}


class ElicitationRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One request of a server: for values of a schema, or to open a URL."""

    message: str = ""
    requested_schema: dict[str, Json] | None = None
    url: str | None = None


class Elicitation(msgspec.Struct, frozen=True, kw_only=True):
    """All requests of a server at once, by name. Stored in the state of an interrupt."""

    requests: dict[str, ElicitationRequest]
    way: Literal["call_again", "answer"]
    """How to continue: repeat the call with the responses, or pass them to the open call."""
    state: str | None = None
    """The server's own state, sent back when the call is repeated."""


def elicitation_interrupt(server: str, elicitation: Elicitation) -> ToolInterrupt:
    """Return the interrupt that asks a person for the requested input."""
    state = msgspec.to_builtins(elicitation)
    if len(msgspec.json.encode(state)) > MAX_STATE_BYTES:
        raise McpServerFailed(f"the elicitation of the MCP server `{server}` is larger than {MAX_STATE_BYTES} bytes")
    text = "\n".join(
        request.message if request.url is None else f"{request.message} (open {request.url}, then accept)"
        for request in elicitation.requests.values()
    )
    schemas = {name: _schema(request) for name, request in elicitation.requests.items()}
    combined: dict[str, Json] = {"type": "object", "required": list(schemas), "properties": schemas}
    return ToolInterrupt(
        message=f"The MCP server `{server}` asks: {text}"[:MAX_MESSAGE_CHARS],
        response_schema=next(iter(schemas.values())) if len(schemas) == 1 else combined,
        state=state,
    )


def elicitation_from_interrupt(interrupt: ToolInterrupt) -> Elicitation:
    """Return the elicitation of an interrupt."""
    return msgspec.convert(interrupt.state, Elicitation)


def elicitation_responses(elicitation: Elicitation, response: Json) -> dict[str, dict[str, Json]]:
    """Return the response to each request; a request without a valid response is cancelled."""
    given = response if isinstance(response, dict) else {}
    if len(elicitation.requests) == 1:
        return {name: _normalize_response(given) for name in elicitation.requests}
    return {name: _normalize_response(given.get(name)) for name in elicitation.requests}


def request_fingerprint(request: ElicitationRequest) -> str:
    """Return a digest of a request: a repeated request has the same, and gets the same response."""
    return request_digest(request)


def _normalize_response(response: Json) -> dict[str, Json]:
    if not isinstance(response, Mapping) or response.get("action") not in _ACTIONS:
        return _CANCEL_RESPONSE
    action = response["action"]
    accepted = action == "accept" and isinstance(response.get("content"), dict)
    return {"action": action, "content": response["content"]} if accepted else {"action": action}


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
