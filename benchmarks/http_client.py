"""A minimal client: requests are prepared bytes, and a response is searched only for its end.

What is streamed has no carriage return in it, so two line ends frame each piece that the server sent, and nothing but
the last one ends as it does.
"""

import asyncio
import time
from collections.abc import Sequence

import msgspec

_END_OF_HEAD = b"\r\n\r\n"
_LINE_END = b"\r\n"
_END_OF_STREAM = b"\r\n0\r\n\r\n"
_EVENT = b"data: "
_OK = b"HTTP/1.1 200"


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A response and its timing."""

    status: int
    body: bytes
    """The raw body; a stream includes its chunk framing."""
    first_event: float = 0.0
    """Seconds until the first event of a stream."""

    def json(self) -> dict[str, str]:
        """Return the body as a JSON object."""
        decoded: dict[str, str] = msgspec.json.decode(self.body)
        return decoded


class Tally:
    """Counts the pieces received by several streams."""

    def __init__(self) -> None:
        self.pieces = 0
        self._target_pieces = 0
        self._target_reached: asyncio.Future[None] | None = None

    def add(self, pieces: int) -> None:
        """Add to the count."""
        self.pieces += pieces
        if self._target_reached is not None and self.pieces >= self._target_pieces:
            self._target_reached.set_result(None)
            self._target_reached = None

    async def wait_for_pieces(self, pieces: int) -> None:
        """Wait until the count reaches a number."""
        self._target_pieces = pieces
        self._target_reached = asyncio.get_running_loop().create_future()
        await self._target_reached


class Connection(asyncio.Protocol):
    """A persistent connection for one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._body_at = self._body_length = 0
        self._began = self._first_event = 0.0
        self._response: asyncio.Future[Response] | None = None
        self._tally: Tally | None = None
        self._stream_started: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending request, and later ones: a server closes idle connections."""
        self._transport = None
        if self._response is not None and not self._response.done():
            self._response.set_exception(ConnectionError("the server closed the connection before it answered"))

    def data_received(self, data: bytes) -> None:
        """Check whether the response is complete."""
        if self._tally is not None:
            self._count(data, self._tally)
            return
        self._received += data
        if not self._first_event and _EVENT in data:
            self._first_event = time.perf_counter() - self._began
        if not self._body_at:
            self._read_head()
        if self._body_at and self._is_whole():
            self._resolve()

    def send(self, request: bytes) -> asyncio.Future[Response]:
        """Send a request, and return its complete response."""
        if self._transport is None:
            raise ConnectionError("the server has closed the connection")
        self._received.clear()
        self._body_at, self._first_event = 0, 0.0
        self._response = asyncio.get_running_loop().create_future()
        self._began = time.perf_counter()
        self._transport.write(request)
        return self._response

    def count(self, request: bytes, tally: Tally) -> asyncio.Future[None]:
        """Open a stream whose pieces are only counted; return once it has started."""
        assert self._transport is not None
        self._tally = tally
        self._stream_started = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._stream_started

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _count(self, data: bytes, tally: Tally) -> None:
        if self._stream_started is None:
            tally.add(data.count(_LINE_END) // 2)
        elif data.startswith(_OK):
            self._stream_started.set_result(None)
            self._stream_started = None
        else:
            self._stream_started.set_exception(RuntimeError(f"the stream was refused: {data.decode()}"))

    def _read_head(self) -> None:
        end = self._received.find(_END_OF_HEAD)
        if end < 0:
            return
        self._body_at = end + len(_END_OF_HEAD)
        head = bytes(self._received[:end]).lower()
        _, is_sized, rest = head.partition(b"content-length: ")
        self._body_length = int(rest.partition(_LINE_END)[0]) if is_sized else -1

    def _is_whole(self) -> bool:
        if self._body_length < 0:
            return self._received.endswith(_END_OF_STREAM)
        return len(self._received) >= self._body_at + self._body_length

    def _resolve(self) -> None:
        assert self._response is not None
        status, body = int(self._received[9:12]), bytes(self._received[self._body_at :])
        self._response.set_result(Response(status=status, body=body, first_event=self._first_event))


def request(
    method: str, path: str, *, body: object = None, accept: str = "application/json", key: str | None = None
) -> bytes:
    """Return the bytes of a request."""
    content = b"" if body is None else msgspec.json.encode(body)
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Accept: {accept}"]
    if key is not None:
        lines.append(f"Authorization: Bearer {key}")
    if content:
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


async def connect(port: int, *, count: int) -> Sequence[Connection]:
    """Open connections to a server on this machine."""
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(Connection, "127.0.0.1", port))[1] for _ in range(count)]
