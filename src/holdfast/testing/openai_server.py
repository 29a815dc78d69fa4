"""A stand-in for an OpenAI-compatible provider, on this machine, that answers as it is told and fails as it is told.

async with OpenAIServer(Reply(status=429, retry_after="1"), Reply(text="hello")) as server:
    ... server.url ...

It counts requests and open connections, so that a test can see that a call which was left has closed its own.
"""

import argparse
import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import msgspec

from holdfast.domain.content import Json
from holdfast.testing.openai_reply import MODEL, Fault, Reply, ReplyCall, completion, ending, events, failure

__all__ = ["Fault", "OpenAIServer", "Reply", "ReplyCall"]

_REASONS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 429: "Too Many Requests"}
_BROKEN: Final = {Fault.GARBAGE: b"{this is not JSON", Fault.NONSENSE: b'[{"choices": 7}]'}


class _Request(NamedTuple):
    method: str
    path: str
    key: str
    body: bytes


class OpenAIServer:
    """A server that gives its replies in order, and `otherwise` when there are none left."""

    def __init__(self, *replies: Reply, otherwise: Reply | None = None, port: int = 0) -> None:
        self.requests: Final[list[Json]] = []
        """The bodies of the completions that were asked for."""
        self.keys: Final[list[str]] = []
        """The keys that came with them."""
        self.open_connections = 0
        self._replies = deque(replies)
        self._otherwise = otherwise
        self._port = port
        self._changed = asyncio.Condition()
        self._talks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The address to give to a client."""
        return f"http://127.0.0.1:{self._port}/v1"

    def then(self, *replies: Reply) -> None:
        """Give these replies too, after those that are left."""
        self._replies.extend(replies)

    async def until(self, condition: Callable[[Self], bool]) -> None:
        """Wait until something is true of the server: that it was asked, or that nobody is connected."""
        async with self._changed:
            await self._changed.wait_for(lambda: condition(self))

    async def serve_forever(self) -> None:
        """Answer until cancelled."""
        if self._server is not None:
            await self._server.serve_forever()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for talk in self._talks:
            talk.cancel()
        if self._talks:
            await asyncio.wait(self._talks)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.current_task()
        assert talk is not None
        self._talks.add(talk)
        await self._count(+1)
        try:
            await self._answer_all(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # the client left, or does not speak HTTP
        finally:
            writer.transport.abort()
            self._talks.discard(talk)
            await self._count(-1)

    async def _count(self, change: int) -> None:
        self.open_connections += change
        async with self._changed:
            self._changed.notify_all()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await _read(reader)) is not None:
            match request.method, request.path:
                case "POST", "/v1/chat/completions":
                    if not await self._complete(request, reader, writer):
                        return
                case "GET", "/v1/models":
                    listed = {"id": MODEL, "object": "model", "created": 0, "owned_by": "holdfast"}
                    await _plain(writer, 200, msgspec.json.encode({"object": "list", "data": [listed]}))
                case _:
                    await _plain(writer, 404, b'{"error": {"message": "there is nothing here"}}')

    async def _complete(self, request: _Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer, and say whether the connection can be used again."""
        try:
            asked = msgspec.json.decode(request.body, type=dict[str, Any])
        except msgspec.DecodeError:
            await _plain(writer, 400, b'{"error": {"message": "the request is not a JSON object"}}')
            return True
        self.requests.append(asked)
        self.keys.append(request.key)
        await self._count(0)
        reply = self._next()
        if reply.fault is Fault.HANG_UP:
            return False
        if reply.fault is Fault.SILENCE:
            await reader.read(1)
            return False
        if reply.fault is Fault.PAGE:
            await _plain(writer, 200, b"<html><body>Please log in.</body></html>", kind="text/html")
            return True
        if reply.status != 200 and reply.fault is None:
            await _plain(writer, reply.status, msgspec.json.encode(failure(reply)), retry_after=reply.retry_after)
            return True
        if not asked.get("stream"):
            await _plain(writer, 200, completion(reply, number=len(self.requests)))
            return True
        return await _stream(reply, reader, writer, number=len(self.requests))

    def _next(self) -> Reply:
        if self._replies:
            return self._replies.popleft()
        return self._otherwise or Reply(status=400, error_message="the stand-in has no reply left")


async def _read(reader: asyncio.StreamReader) -> _Request | None:
    """Return the next request, or nothing if the client is done."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    key = headers.get("authorization", "").removeprefix("Bearer ")
    return _Request(method, path, key, await reader.readexactly(int(headers.get("content-length", "0"))))


async def _plain(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    *,
    kind: str = "application/json",
    retry_after: str | None = None,
) -> None:
    wait = f"retry-after: {retry_after}\r\n" if retry_after is not None else ""
    head = (
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}\r\ncontent-type: {kind}\r\n"
        f"{wait}content-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()


async def _stream(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, number: int) -> bool:
    """Answer piece by piece, and say whether the connection can be used again."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    for payload in events(reply, number=number):
        if reply.delay_ms:
            await asyncio.sleep(reply.delay_ms / 1000)
        writer.write(_event(payload))
        await writer.drain()
    if reply.fault is not None and not await _fail(reply, reader, writer):
        return False
    if reply.fault is not Fault.UNFINISHED:
        writer.write(b"".join(_event(payload) for payload in ending(reply)))
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def _fail(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Go wrong, and say whether the answer goes on."""
    match reply.fault:
        case Fault.CUT:
            writer.write(_event(b'{"choices": [{"delta": {"content": "half of')[:-20])
            await writer.drain()
            writer.close()
            return False
        case Fault.STALL:
            await reader.read(1)
            return False
        case Fault.ERROR:
            writer.write(_event(msgspec.json.encode(failure(reply))))
        case Fault.GARBAGE | Fault.NONSENSE:
            writer.write(_event(_BROKEN[reply.fault]))
        case _:
            pass
    return True


def _event(payload: bytes) -> bytes:
    data = b"data: " + payload + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


async def serve(server: OpenAIServer, announce: Callable[[str], None]) -> None:
    """Run `server` until cancelled, once its address is announced."""
    async with server:
        announce(server.url)
        await server.serve_forever()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a server of its own: `python -m holdfast.testing.openai_server --port 8000 --text hello --chunks 20`."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.openai_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one; the address is the first line out")
    parser.add_argument("--replies", type=Path, help="a JSON file with the replies to give first, in order")
    parser.add_argument("--text", default="hello from the stand-in", help="what every other answer says")
    parser.add_argument("--chunks", type=int, default=1, help="in how many pieces")
    parser.add_argument("--delay-ms", type=float, default=0, help="milliseconds before each piece")
    options = parser.parse_args(arguments)
    replies = [] if options.replies is None else msgspec.json.decode(options.replies.read_bytes(), type=list[Reply])
    otherwise = Reply(text=options.text, chunks=options.chunks, delay_ms=options.delay_ms)
    server = OpenAIServer(*replies, otherwise=otherwise, port=options.port)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(server, _print))


def _print(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
