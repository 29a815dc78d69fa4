"""Clients that read streams from raw sockets, so that tests can cut the connection anywhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from holdfast.domain.content import Json

TIMEOUT_SECONDS: Final = 30.0
"""Seconds after which a test counts as hanging."""


class Frame(msgspec.Struct, frozen=True):
    """A frame of an SSE stream: the lines between two empty ones."""

    id: int | None
    event: str | None
    data: bytes | None
    comment: str | None
    retry: int | None


class SseReader:
    """An SSE response, read frame by frame."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._reader = reader
        self._writer = writer
        self._body = b""
        self.ended = False

    async def read_head(self) -> None:
        """Read the head of the response."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        self.status = int(status.split()[1])
        self.headers = dict(line.lower().split(": ", 1) for line in lines if line)

    async def frame(self) -> Frame | None:
        """Return the next frame, or `None` after the last one."""
        while b"\n\n" not in self._body:
            chunk = await self._chunk()
            if not chunk:
                self.ended = True
                return None
            self._body += chunk
        text, self._body = self._body.split(b"\n\n", 1)
        return _frame(text)

    async def events(self) -> AsyncIterator[Frame]:
        """Yield the frames that carry data."""
        while (frame := await self.frame()) is not None:
            if frame.data is not None:
                yield frame

    async def rest(self) -> list[Frame]:
        """Return the remaining frames that carry data."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return [frame async for frame in self.events()]

    def cut(self) -> None:
        """Abort the connection."""
        self._writer.transport.abort()

    async def _chunk(self) -> bytes:
        size = int((await self._reader.readline()).strip() or b"0", 16)
        chunk = await self._reader.readexactly(size)
        await self._reader.readexactly(2)
        return chunk


@asynccontextmanager
async def sse(host: str, path: str, *, after: int | None = None, header: str | None = None) -> AsyncIterator[SseReader]:
    """Open an SSE stream, and abort its connection when the block ends."""
    address, port = host.split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    last_event_id = header if header is not None else None if after is None else str(after)
    headers = "" if last_event_id is None else f"Last-Event-ID: {last_event_id}\r\n"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n".encode())
    stream = SseReader(reader, writer)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await stream.read_head()
        yield stream
    finally:
        stream.cut()


@asynccontextmanager
async def ws(host: str, path: str) -> AsyncIterator[ClientConnection]:
    """Open a WebSocket, and abort its connection when the block ends."""
    connection = await connect(
        f"ws://{host}{path}", compression=None, open_timeout=TIMEOUT_SECONDS, proxy=None, max_size=None
    )
    try:
        yield connection
    finally:
        connection.transport.abort()
        await connection.wait_closed()


async def post(host: str, path: str, body: Json, headers: str = "") -> int:
    """Send a POST request, and return the status as soon as the status line has arrived."""
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
    """Return the sequence number and the JSON of the event in a WebSocket message."""
    assert isinstance(text, str)
    message = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    assert list(message) == ["type", "seq", "data"]
    return msgspec.json.decode(message["seq"]), bytes(message["data"])


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
