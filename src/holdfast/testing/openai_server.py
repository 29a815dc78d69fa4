"""Stub of an OpenAI-compatible provider, with scripted replies and faults.

    async with StubOpenAIServer(StubReply(status=429, retry_after="1"), StubReply(text="hello")) as server:
        ... server.url ...

It counts requests and open connections, so that a test can check that an abandoned call closed its connection.
"""

import argparse
import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final, NamedTuple, Self

import msgspec

from holdfast.domain.content import Json

STUB_MODEL: Final = "stand-in"

_Count = Annotated[int, msgspec.Meta(ge=0)]
_encode = msgspec.json.Encoder().encode


class StubFault(StrEnum):
    """Faults of a response: at once, or after its text."""

    HANG_UP = "hang_up"
    """The connection closes before any response."""
    SILENCE = "silence"
    """No response at all, until the client disconnects."""
    PAGE = "page"
    """An HTML page, as from a proxy that requires a login."""
    CUT = "cut"
    """The connection breaks in the middle of a chunk."""
    UNFINISHED = "unfinished"
    """The stream ends normally, but without a finish reason."""
    GARBAGE = "garbage"
    """A chunk is not JSON."""
    NONSENSE = "nonsense"
    """A chunk is JSON of another shape."""
    ERROR = "error"
    """A chunk is an error of the provider, of the kind of `status`."""
    STALL = "stall"
    """No further chunk, until the client disconnects."""


class StubToolCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call in a response."""

    name: str
    arguments: dict[str, Json] = {}
    id: str | None = None
    """Null: numbered by the server."""
    chunks: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Number of pieces of the arguments."""


class StubReply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The response to one request."""

    text: str = ""
    chunks: Annotated[int, msgspec.Meta(ge=1)] = 1
    delay_ms: Annotated[float, msgspec.Meta(ge=0)] = 0
    """Delay before each chunk."""
    think: str = ""
    calls: list[StubToolCall] = []
    input_tokens: int | None = 10
    """Null: the response has no usage."""
    output_tokens: _Count = 5
    cached_tokens: _Count = 0
    finish: str | None = None
    """Null: `stop` or `tool_calls`, as appropriate."""
    refusal: str | None = None
    fault: StubFault | None = None
    status: int = 200
    """Any other status is an error response without text."""
    retry_after: str | None = None
    error_code: str | None = None
    error_message: str = "scripted error of the stub"


def reply_events(reply: StubReply, *, number: int) -> list[bytes]:
    """Return the payloads of a streamed response; the first one has only the role."""
    return [_chunk({"role": "assistant", "content": ""}), *(_chunk(delta) for delta in _deltas(reply, number))]


def reply_end_events(reply: StubReply) -> list[bytes]:
    """Return the payloads that end a streamed response without a fault."""
    usage = [] if reply.input_tokens is None else [_encode({**_HEAD, "choices": [], "usage": _usage(reply)})]
    return [_chunk({}, finish=_finish(reply)), *usage, b"[DONE]"]


def reply_completion(reply: StubReply, *, number: int) -> bytes:
    """Return the body of a response that is not streamed."""
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


def reply_error_body(reply: StubReply) -> dict[str, Any]:
    """Return the body of an error."""
    types = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
    default = "invalid_request_error" if reply.status < 500 else "server_error"
    kind = types.get(reply.status, default)
    return {"error": {"message": reply.error_message, "type": kind, "code": reply.error_code}}


_HEAD: Final = {
    "id": "chatcmpl-stand-in",
    "object": "chat.completion.chunk",
    "created": 1_750_000_000,
    "model": STUB_MODEL,
}


def _deltas(reply: StubReply, number: int) -> Iterator[dict[str, Any]]:
    if reply.think:
        yield {"reasoning_content": reply.think}
    for piece in _split_text(reply.text, reply.chunks):
        yield {"content": piece}
    if reply.refusal:
        yield {"refusal": reply.refusal}
    for index, call in enumerate(reply.calls):
        first, *rest = _split_text(_call(index, call, number=number)["function"]["arguments"], call.chunks)
        yield {"tool_calls": [_call(index, call, number=number, arguments=first)]}
        for piece in rest:
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _chunk(delta: dict[str, Any], *, finish: str | None = None) -> bytes:
    return _encode({**_HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _call(index: int, call: StubToolCall, *, number: int, arguments: str | None = None) -> dict[str, Any]:
    text = _encode(call.arguments).decode() if arguments is None else arguments
    id = f"call_{number:08d}_{index}" if call.id is None else call.id
    return {"index": index, "id": id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _finish(reply: StubReply) -> str:
    return reply.finish or ("tool_calls" if reply.calls else "stop")


def _usage(reply: StubReply) -> dict[str, Any]:
    input_tokens = reply.input_tokens or 0
    return {
        "prompt_tokens": input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
    }


@lru_cache(maxsize=256)
def _split_text(text: str, count: int) -> list[str]:
    count = min(count, len(text))
    return [text[index * len(text) // count : (index + 1) * len(text) // count] for index in range(count)]


__all__ = ["StubFault", "StubOpenAIServer", "StubReply", "StubToolCall"]

_REASONS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 429: "Too Many Requests"}
_INVALID_CHUNKS: Final = {StubFault.GARBAGE: b"{this is not JSON", StubFault.NONSENSE: b'[{"choices": 7}]'}


class _Request(NamedTuple):
    method: str
    path: str
    key: str
    body: bytes


class StubOpenAIServer:
    """A server that sends its replies in order, then `default_reply`."""

    def __init__(self, *replies: StubReply, default_reply: StubReply | None = None, port: int = 0) -> None:
        self.requests: Final[list[Json]] = []
        """The bodies of the received completion requests."""
        self.keys: Final[list[str]] = []
        """The API keys of those requests."""
        self.open_connections = 0
        self._replies = deque(replies)
        self._default_reply = default_reply
        self._port = port
        self._changed = asyncio.Condition()
        self._connections: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://127.0.0.1:{self._port}/v1"

    def add_replies(self, *replies: StubReply) -> None:
        """Append replies to those that are left."""
        self._replies.extend(replies)

    async def wait_until(self, condition: Callable[[Self], bool]) -> None:
        """Wait until `condition` holds, checked whenever a request arrives or a connection opens or closes."""
        async with self._changed:
            await self._changed.wait_for(lambda: condition(self))

    async def serve_forever(self) -> None:
        """Serve requests until cancelled."""
        if self._server is not None:
            await self._server.serve_forever()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._handle_connection, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        await self._count(+1)
        try:
            await self._serve_requests(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # the client disconnected, or does not speak HTTP
        finally:
            writer.transport.abort()
            self._connections.discard(task)
            await self._count(-1)

    async def _count(self, change: int) -> None:
        self.open_connections += change
        async with self._changed:
            self._changed.notify_all()

    async def _serve_requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await _read_request(reader)) is not None:
            match request.method, request.path:
                case "POST", "/v1/chat/completions":
                    if not await self._complete(request, reader, writer):
                        return
                case "GET", "/v1/models":
                    model = {"id": STUB_MODEL, "object": "model", "created": 0, "owned_by": "holdfast"}
                    await _send_response(writer, 200, msgspec.json.encode({"object": "list", "data": [model]}))
                case _:
                    await _send_response(writer, 404, b'{"error": {"message": "not found"}}')

    async def _complete(self, request: _Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Send the next reply; return whether the connection can be reused."""
        try:
            body = msgspec.json.decode(request.body, type=dict[str, Any])
        except msgspec.DecodeError:
            await _send_response(writer, 400, b'{"error": {"message": "the request is not a JSON object"}}')
            return True
        self.requests.append(body)
        self.keys.append(request.key)
        await self._count(0)
        no_reply = StubReply(status=400, error_message="the stub has no reply left")
        reply = self._replies.popleft() if self._replies else self._default_reply or no_reply
        if reply.fault is StubFault.HANG_UP:
            return False
        if reply.fault is StubFault.SILENCE:
            await reader.read(1)
            return False
        if reply.fault is StubFault.PAGE:
            await _send_response(writer, 200, b"<html><body>Please log in.</body></html>", kind="text/html")
            return True
        if reply.status != 200 and reply.fault is None:
            await _send_response(
                writer, reply.status, msgspec.json.encode(reply_error_body(reply)), retry_after=reply.retry_after
            )
            return True
        if not body.get("stream"):
            await _send_response(writer, 200, reply_completion(reply, number=len(self.requests)))
            return True
        return await _stream_reply(reply, reader, writer, number=len(self.requests))


async def _read_request(reader: asyncio.StreamReader) -> _Request | None:
    """Return the next request, or none if the client has disconnected."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    key = headers.get("authorization", "").removeprefix("Bearer ")
    return _Request(method, path, key, await reader.readexactly(int(headers.get("content-length", "0"))))


async def _send_response(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    *,
    kind: str = "application/json",
    retry_after: str | None = None,
) -> None:
    retry_header = f"retry-after: {retry_after}\r\n" if retry_after is not None else ""
    head = (
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}\r\ncontent-type: {kind}\r\n"
        f"{retry_header}content-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()


async def _stream_reply(
    reply: StubReply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, number: int
) -> bool:
    """Stream a reply; return whether the connection can be reused."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    for payload in reply_events(reply, number=number):
        if reply.delay_ms:
            await asyncio.sleep(reply.delay_ms / 1000)
        writer.write(_sse_chunk(payload))
        await writer.drain()
    if reply.fault is not None and not await _inject_fault(reply, reader, writer):
        return False
    if reply.fault is not StubFault.UNFINISHED:
        writer.write(b"".join(_sse_chunk(payload) for payload in reply_end_events(reply)))
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def _inject_fault(reply: StubReply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Inject the fault of a reply; return whether the stream continues."""
    match reply.fault:
        case StubFault.CUT:
            writer.write(_sse_chunk(b'{"choices": [{"delta": {"content": "half of')[:-20])
            await writer.drain()
            writer.close()
            return False
        case StubFault.STALL:
            await reader.read(1)
            return False
        case StubFault.ERROR:
            writer.write(_sse_chunk(msgspec.json.encode(reply_error_body(reply))))
        case StubFault.GARBAGE | StubFault.NONSENSE:
            writer.write(_sse_chunk(_INVALID_CHUNKS[reply.fault]))
        case _:
            pass
    return True


def _sse_chunk(payload: bytes) -> bytes:
    data = b"data: " + payload + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a stand-alone server: `python -m holdfast.testing.openai_server --port 8000 --text hello --chunks 20`."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.openai_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 selects a free one; the first line of output is the URL")
    parser.add_argument("--replies", type=Path, help="a JSON file with the first replies, in order")
    parser.add_argument("--text", default="hello from the stub", help="the text of every further reply")
    parser.add_argument("--chunks", type=int, default=1, help="the number of pieces of the text")
    parser.add_argument("--delay-ms", type=float, default=0, help="milliseconds before each piece")
    options = parser.parse_args(arguments)
    replies = [] if options.replies is None else msgspec.json.decode(options.replies.read_bytes(), type=list[StubReply])
    default_reply = StubReply(text=options.text, chunks=options.chunks, delay_ms=options.delay_ms)
    server = StubOpenAIServer(*replies, default_reply=default_reply, port=options.port)

    async def serve() -> None:
        async with server:
            sys.stdout.write(f"{server.url}\n")
            sys.stdout.flush()
            await server.serve_forever()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())


if __name__ == "__main__":
    main()
