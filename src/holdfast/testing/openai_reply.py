"""What a stand-in for an OpenAI-compatible provider answers, and how that looks on the wire."""

from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec

from holdfast.domain.content import Json

MODEL: Final = "stand-in"

_Count = Annotated[int, msgspec.Meta(ge=0)]
_encode = msgspec.json.Encoder().encode


class Fault(StrEnum):
    """How an answer goes wrong: at once, or after its text."""

    HANG_UP = "hang_up"
    """The connection closes before any answer."""
    SILENCE = "silence"
    """Nothing comes at all, until the client hangs up."""
    PAGE = "page"
    """A page of HTML comes in place of an answer, as from a proxy that wants a login."""
    CUT = "cut"
    """The connection breaks in the middle of a chunk."""
    UNFINISHED = "unfinished"
    """The stream ends in good order, but without saying that it is done."""
    GARBAGE = "garbage"
    """A chunk is not JSON."""
    NONSENSE = "nonsense"
    """A chunk is JSON, of some other shape."""
    ERROR = "error"
    """A chunk is an error of the provider, `status` of which says its kind."""
    STALL = "stall"
    """Nothing more comes until the client hangs up."""


class ReplyCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that the answer calls."""

    name: str
    arguments: dict[str, Json] = {}
    id: str | None = None
    """Null: one that counts through the answers of the server."""
    chunks: Annotated[int, msgspec.Meta(ge=1)] = 1
    """In how many pieces the arguments come."""


class Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to one request."""

    text: str = ""
    chunks: Annotated[int, msgspec.Meta(ge=1)] = 1
    delay_ms: Annotated[float, msgspec.Meta(ge=0)] = 0
    """Before each chunk."""
    think: str = ""
    calls: list[ReplyCall] = []
    input_tokens: int | None = 10
    """Null: the answer says nothing of usage."""
    output_tokens: _Count = 5
    cached_tokens: _Count = 0
    finish: str | None = None
    """Null: what fits, `stop` or `tool_calls`."""
    refusal: str | None = None
    fault: Fault | None = None
    status: int = 200
    """Anything else is an error without a text."""
    retry_after: str | None = None
    error_code: str | None = None
    error_message: str = "the stand-in was told to fail"


def events(reply: Reply, *, number: int) -> list[bytes]:
    """Return the payloads of a streamed answer, the first of which only says who speaks."""
    told = [_chunk(delta) for delta in _deltas(reply, number)]
    return [_chunk({"role": "assistant", "content": ""}), *told]


def ending(reply: Reply) -> list[bytes]:
    """Return the payloads that end a streamed answer that did not go wrong."""
    usage = [] if reply.input_tokens is None else [_encode({**_HEAD, "choices": [], "usage": _usage(reply)})]
    return [_chunk({}, finish=_finish(reply)), *usage, b"[DONE]"]


def completion(reply: Reply, *, number: int) -> bytes:
    """Return an answer that is not streamed."""
    message = {
        "role": "assistant",
        "content": reply.text or None,
        "refusal": reply.refusal,
        "reasoning_content": reply.think or None,
        "tool_calls": [_call(index, call, number=number) for index, call in enumerate(reply.calls)] or None,
    }
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    usage = None if reply.input_tokens is None else _usage(reply)
    return _encode({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage})


def failure(reply: Reply) -> dict[str, Any]:
    """Return the body of an error."""
    return {"error": {"message": reply.error_message, "type": _kind(reply.status), "code": reply.error_code}}


_HEAD: Final = {"id": "chatcmpl-stand-in", "object": "chat.completion.chunk", "created": 1_750_000_000, "model": MODEL}


def _deltas(reply: Reply, number: int) -> Iterator[dict[str, Any]]:
    if reply.think:
        yield {"reasoning_content": reply.think}
    for piece in _pieces(reply.text, reply.chunks):
        yield {"content": piece}
    if reply.refusal:
        yield {"refusal": reply.refusal}
    for index, call in enumerate(reply.calls):
        first, *rest = _pieces(_call(index, call, number=number)["function"]["arguments"], call.chunks)
        yield {"tool_calls": [_call(index, call, number=number, arguments=first)]}
        for piece in rest:
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _chunk(delta: dict[str, Any], *, finish: str | None = None) -> bytes:
    return _encode({**_HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _call(index: int, call: ReplyCall, *, number: int, arguments: str | None = None) -> dict[str, Any]:
    text = _encode(call.arguments).decode() if arguments is None else arguments
    id = f"call_{number:08d}_{index}" if call.id is None else call.id
    return {"index": index, "id": id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _finish(reply: Reply) -> str:
    return reply.finish or ("tool_calls" if reply.calls else "stop")


def _usage(reply: Reply) -> dict[str, Any]:
    asked = reply.input_tokens or 0
    return {
        "prompt_tokens": asked,
        "completion_tokens": reply.output_tokens,
        "total_tokens": asked + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
    }


def _kind(status: int) -> str:
    kinds = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
    return kinds.get(status, "invalid_request_error" if status < 500 else "server_error")


@lru_cache(maxsize=256)
def _pieces(text: str, count: int) -> list[str]:
    count = min(count, len(text))
    return [text[index * len(text) // count : (index + 1) * len(text) // count] for index in range(count)]
