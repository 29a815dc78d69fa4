"""Clients that read streams from bare sockets, so that they can cut them anywhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from holdfast.domain.content import Json

LIMIT: Final = 30.0
"""Seconds after which something hangs."""


class Frame(msgspec.Struct, frozen=True):
    """What stands between two empty lines of an SSE stream."""

    id: int | None
    event: str | None
    data: bytes | None
    comment: str | None
    retry: int | None


class SseReader:
    """One response, read frame by frame."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._reader = reader
        self._writer = writer
        self._body = b""
        self.ended = False

    async def begin(self) -> None:
        """Read the head of the response."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        self.status = int(status.split()[1])
        self.headers = dict(line.lower().split(": ", 1) for line in lines if line)

    async def frame(self) -> Frame | None:
        """Return the next frame; nothing after the last one."""
        while b"\n\n" not in self._body:
            piece = await self._piece()
            if not piece:
                self.ended = True
                return None
            self._body += piece
        text, self._body = self._body.split(b"\n\n", 1)
        return _frame(text)

    async def events(self) -> AsyncIterator[Frame]:
        """Yield the frames that carry something."""
        while (frame := await self.frame()) is not None:
            if frame.data is not None:
                yield frame

    async def rest(self) -> list[Frame]:
        """Return all that is left that carries something."""
        async with asyncio.timeout(LIMIT):
            return [frame async for frame in self.events()]

    def cut(self) -> None:
        """Tear the connection."""
        self._writer.transport.abort()

    async def _piece(self) -> bytes:
        size = int((await self._reader.readline()).strip() or b"0", 16)
        piece = await self._reader.readexactly(size)
        await self._reader.readexactly(2)
        return piece


@asynccontextmanager
async def sse(host: str, path: str, *, after: int | None = None, header: str | None = None) -> AsyncIterator[SseReader]:
    """Open a stream, and tear it when the block ends."""
    address, port = host.split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    given = header if header is not None else None if after is None else str(after)
    resumed = "" if given is None else f"Last-Event-ID: {given}\r\n"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{resumed}\r\n".encode())
    stream = SseReader(reader, writer)
    try:
        async with asyncio.timeout(LIMIT):
            await stream.begin()
        yield stream
    finally:
        stream.cut()


@asynccontextmanager
async def ws(host: str, path: str) -> AsyncIterator[ClientConnection]:
    """Open a WebSocket, and tear it when the block ends."""
    connection = await connect(f"ws://{host}{path}", compression=None, open_timeout=LIMIT, proxy=None, max_size=None)
    try:
        yield connection
    finally:
        connection.transport.abort()
        await connection.wait_closed()


async def post(host: str, path: str, body: Json, headers: str = "") -> int:
    """Send a request, and return the status as soon as its line is there, and nothing else."""
    address, port = host.split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    content = msgspec.json.encode(body)
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{headers}"
    try:
        writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        return int((await reader.readline()).split()[1])
    finally:
        writer.transport.abort()


def event_of(text: str | bytes) -> tuple[int, bytes]:
    """Return the number and the JSON of the event in a message of a WebSocket."""
    assert isinstance(text, str)
    said = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    assert list(said) == ["type", "seq", "data"]
    return msgspec.json.decode(said["seq"]), bytes(said["data"])


def _frame(text: bytes) -> Frame:
    fields: dict[bytes, bytes] = {}
    for line in text.split(b"\n"):
        name, _, value = line.partition(b": ")
        assert name not in fields and b"\r" not in line
        fields[name] = value
    assert fields.keys() <= {b"id", b"event", b"data", b"", b"retry"}, fields
    number, retry = fields.get(b"id"), fields.get(b"retry")
    return Frame(
        id=None if number is None else int(number),
        event=_text(fields.get(b"event")),
        data=fields.get(b"data"),
        comment=_text(fields.get(b"")),
        retry=None if retry is None else int(retry),
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
