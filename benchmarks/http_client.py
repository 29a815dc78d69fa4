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


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A response and its timing."""

    status: int
    body: bytes
    """The raw body; a stream includes its chunk framing."""
    first_event: float = 0.0
    """Seconds until the first event of a stream."""

    def json(self) -> dict[str, str]:
        """Return the body as a JSON object."""
        found: dict[str, str] = msgspec.json.decode(self.body)
        return found


class Tally:
    """Counts the pieces received by several streams."""

    def __init__(self) -> None:
        self.pieces = 0
        self._goal = 0
        self._reached: asyncio.Future[None] | None = None

    def add(self, pieces: int) -> None:
        """Add to the count."""
        self.pieces += pieces
        if self._reached is not None and self.pieces >= self._goal:
            self._reached.set_result(None)
            self._reached = None

    async def reaches(self, pieces: int) -> None:
        """Wait until the count reaches a number."""
        self._goal = pieces
        self._reached = asyncio.get_running_loop().create_future()
        await self._reached


class Connection(asyncio.Protocol):
    """A persistent connection for one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._got = bytearray()
        self._body_at = self._body_length = 0
        self._began = self._first_event = 0.0
        self._answer: asyncio.Future[Answer] | None = None
        self._tally: Tally | None = None
        self._begun: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending request, and later ones: a server closes idle connections."""
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the server closed the connection before it answered"))

    def data_received(self, data: bytes) -> None:
        """Check whether the response is complete."""
        if self._tally is not None:
            self._count(data, self._tally)
            return
        self._got += data
        if not self._first_event and _EVENT in data:
            self._first_event = time.perf_counter() - self._began
        if not self._body_at:
            self._read_head()
        if self._body_at and self._is_whole():
            self._resolve()

    def ask(self, request: bytes) -> asyncio.Future[Answer]:
        """Send a request, and return its complete response."""
        if self._transport is None:
            raise ConnectionError("the server has closed the connection")
        self._got.clear()
        self._body_at, self._first_event = 0, 0.0
        self._answer = asyncio.get_running_loop().create_future()
        self._began = time.perf_counter()
        self._transport.write(request)
        return self._answer

    def count(self, request: bytes, tally: Tally) -> asyncio.Future[None]:
        """Open a stream whose pieces are only counted; return once it has started."""
        assert self._transport is not None
        self._tally = tally
        self._begun = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._begun

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _count(self, data: bytes, tally: Tally) -> None:
        if self._begun is None:
            tally.add(data.count(_LINE_END) // 2)
        elif data.startswith(_OK):
            self._begun.set_result(None)
            self._begun = None
        else:
            self._begun.set_exception(RuntimeError(f"the stream was refused: {data.decode()}"))

    def _read_head(self) -> None:
        end = self._got.find(_END_OF_HEAD)
        if end < 0:
            return
        self._body_at = end + len(_END_OF_HEAD)
        head = bytes(self._got[:end]).lower()
        _, is_sized, rest = head.partition(b"content-length: ")
        self._body_length = int(rest.partition(_LINE_END)[0]) if is_sized else -1

    def _is_whole(self) -> bool:
        if self._body_length < 0:
            return self._got.endswith(_END_OF_STREAM)
        return len(self._got) >= self._body_at + self._body_length

    def _resolve(self) -> None:
        assert self._answer is not None
        status, body = int(self._got[9:12]), bytes(self._got[self._body_at :])
        self._answer.set_result(Answer(status=status, body=body, first_event=self._first_event))


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


async def connect(port: int, *, many: int) -> Sequence[Connection]:
    """Open connections to a server on this machine."""
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(Connection, "127.0.0.1", port))[1] for _ in range(many)]
