"""What a server asks a person in the middle of a call, as a question of a run, and the answer as the server takes it.

In the protocol of 2026 a call ends with its questions, and is made again with the answers: nothing is lost in between.
Before that, a server asks while the call is open, and waits; one that dies takes that with it.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import McpServerFailed
from holdfast.domain.idempotency import request_digest
from holdfast.domain.tool import ToolInterrupt

LONGEST_MESSAGE: Final = 10_000
LARGEST_STATE: Final = 256 * 1024
"""Bytes of what a server wants back with an answer, and of what it asks."""
ALONE: Final = "asked"
"""The name of a request that came without one."""

_ACTIONS: Final = ["accept", "decline", "cancel"]
_NOBODY: Final[dict[str, Json]] = {"action": "cancel"}


class Request(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that a server asks: for values that fit a schema, or to open an address."""

    message: str = ""
    requested_schema: dict[str, Json] | None = None
    url: str | None = None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """All that a server asks at once, by name, and how it goes on."""

    requests: dict[str, Request]
    way: Literal["call_again", "answer"]
    """Make the call again with the answers, or give them to the call that is open."""
    state: str | None = None
    """What the server wants back when it is called again."""


def question_of(server: str, asked: Asked) -> ToolInterrupt:
    """Return what a person is asked."""
    state = msgspec.to_builtins(asked)
    if len(msgspec.json.encode(state)) > LARGEST_STATE:
        raise McpServerFailed(f"the MCP server `{server}` asks for more than can be kept: {LARGEST_STATE} bytes")
    said = "\n".join(_told(request) for request in asked.requests.values())
    schemas = {name: _schema(request) for name, request in asked.requests.items()}
    alone = next(iter(schemas.values())) if len(schemas) == 1 else None
    together: dict[str, Json] = {"type": "object", "required": list(schemas), "properties": schemas}
    return ToolInterrupt(
        message=f"The MCP server `{server}` asks: {said}"[:LONGEST_MESSAGE],
        response_schema=alone or together,
        state=state,
    )


def asked_of(question: ToolInterrupt) -> Asked:
    """Return what a server had asked."""
    return msgspec.convert(question.state, Asked)


def responses(asked: Asked, response: Json) -> dict[str, dict[str, Json]]:
    """Return the answer to each request; where nobody answered, that it was called off."""
    given = response if isinstance(response, dict) else {}
    if len(asked.requests) == 1:
        return {name: _response(given) for name in asked.requests}
    return {name: _response(given.get(name)) for name in asked.requests}


def likeness(request: Request) -> str:
    """Return what tells requests apart: the same asked again can be answered the same."""
    return request_digest(request)


def _response(given: Json) -> dict[str, Json]:
    if not isinstance(given, Mapping) or given.get("action") not in _ACTIONS:
        return _NOBODY
    accepted = given["action"] == "accept" and isinstance(given.get("content"), dict)
    return {"action": given["action"], "content": given["content"]} if accepted else {"action": given["action"]}


def _told(request: Request) -> str:
    return request.message if request.url is None else f"{request.message} (open {request.url}, then accept)"


def _schema(request: Request) -> dict[str, Json]:
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
