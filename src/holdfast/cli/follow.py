"""Following a run over SSE or WebSocket, with reconnects: every event once, in order, until the run ends."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, NamedTuple, TypeAlias

import httpx2
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedOK, InvalidStatus, WebSocketException

from holdfast.cli.client import (
    CONNECT_TIMEOUT_SECONDS,
    READ_TIMEOUT_SECONDS,
    ServerClient,
    ServerUnreachable,
    map_transport_errors,
    response_error,
    run_path,
)
from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import RunId
from holdfast.domain.run import Run


class StreamedEvent(NamedTuple):
    """An event on the wire: its number, and the bytes that the log holds."""

    seq: int
    data: bytes


EventConnection: TypeAlias = AbstractAsyncContextManager[AsyncIterator[StreamedEvent]]


@asynccontextmanager
async def connect_sse(remote: ServerClient, run_id: RunId, after: int) -> AsyncIterator[AsyncIterator[StreamedEvent]]:
    """Connect, and yield what is sent until the server ends it; a connection that breaks raises `ServerUnreachable`."""
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
    with map_transport_errors():
        async with remote.http.stream("GET", f"{run_path(run_id)}/sse", headers=headers) as answer:
            if answer.status_code != httpx2.codes.OK:
                raise response_error(answer.status_code, await answer.aread())
            yield parse_sse(answer.aiter_bytes())


@asynccontextmanager
async def connect_websocket(
    remote: ServerClient, run_id: RunId, after: int
) -> AsyncIterator[AsyncIterator[StreamedEvent]]:
    """Connect, and yield what is sent until the server ends it; a connection that breaks raises `ServerUnreachable`."""
    address = f"ws{remote.url.removeprefix('http')}{run_path(run_id)}/ws?last_event_id={after}"
    # The server shows its own signs of life, and an event may be as large as it likes.
    dial = connect(
        address,
        additional_headers=remote.headers,
        proxy=None,
        compression=None,
        max_size=None,
        ping_interval=None,
        open_timeout=CONNECT_TIMEOUT_SECONDS,
    )
    try:
        async with dial as socket:
            yield _socket_events(socket)
    except InvalidStatus as exc:
        raise response_error(exc.response.status_code, bytes(exc.response.body or b"")) from exc
    except (WebSocketException, OSError) as exc:
        raise ServerUnreachable(str(exc) or type(exc).__name__) from exc


async def parse_sse(chunks: AsyncIterator[bytes]) -> AsyncIterator[StreamedEvent]:
    """Yield the events of an SSE stream, however it was cut into chunks; one that is not complete is left out."""
    seq = 0
    async for line in _split_lines(chunks):
        field, _, value = line.partition(b": ")
        if field == b"id":
            seq = int(value)
        elif field == b"data":
            yield StreamedEvent(seq, value)


class _SocketMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the socket; a sign of life has no number."""

    seq: int | None = None
    data: msgspec.Raw = msgspec.Raw()


async def _socket_events(socket: ClientConnection) -> AsyncIterator[StreamedEvent]:
    decode = msgspec.json.Decoder(_SocketMessage).decode
    while True:
        try:
            async with asyncio.timeout(READ_TIMEOUT_SECONDS):
                message = decode(await socket.recv())
        except ConnectionClosedOK:
            return
        if message.seq is not None:
            yield StreamedEvent(message.seq, bytes(message.data))


async def _split_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield lines as they end; only a line feed ends one, whatever else text may hold."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


TRANSPORTS: Final[Mapping[str, Callable[[ServerClient, RunId, int], EventConnection]]] = {
    "sse": connect_sse,
    "ws": connect_websocket,
}

FIRST_RETRY_SECONDS: Final = 0.1
MAX_RETRY_SECONDS: Final = 2.0
"""Seconds between two attempts to reach a server that is gone: each pause is twice the one before."""
MAX_RETRY_DOUBLINGS: Final = 8


class RunFollower:
    """A run that is followed: `run` is how it was last seen, `position` the last event that was handed out."""

    def __init__(
        self, remote: ServerClient, run: Run, *, transport: str, after: int = 0, notify: Callable[[str], None]
    ) -> None:
        """`tell` hears, in words, when the server is gone and when it is back."""
        self.run = run
        self.position = after
        self._remote = remote
        self._connect = TRANSPORTS[transport]
        self._tell = notify
        self._gone = False
        self._failures = 0

    async def events(self) -> AsyncIterator[bytes]:
        """Yield each event as the log holds it; at the end of it, `run` has its end."""
        while True:
            try:
                async with self._connect(self._remote, self.run.id, self.position) as sent:
                    self._found()
                    async for event in sent:
                        yield self._next(event)
                self.run = await self._remote.run(self.run.id)
                if self.run.status.terminal:
                    return
                raise ServerUnreachable("it closed the stream")
            except ServerUnreachable as lost:
                await self._pause(lost)

    def _next(self, event: StreamedEvent) -> bytes:
        if event.seq != self.position + 1:
            raise ServerUnreachable(f"it sent event {event.seq} after event {self.position}")
        self.position = event.seq
        self._failures = 0
        return event.data

    def _found(self) -> None:
        if self._gone:
            self._gone = False
            self._tell(f"connected again, after event {self.position}")

    async def _pause(self, lost: ServerUnreachable) -> None:
        if not self._gone:
            self._gone = True
            self._tell(f"lost the server at {self._remote.url} ({lost}): the run is safe, trying again")
        longest = min(FIRST_RETRY_SECONDS * 2**self._failures, MAX_RETRY_SECONDS)
        self._failures = min(self._failures + 1, MAX_RETRY_DOUBLINGS)
        await asyncio.sleep(random.uniform(longest / 2, longest))


async def read_first(remote: ServerClient, run_id: RunId) -> Run:
    """Return a run that is to be followed; a server that was never there is not waited for."""
    try:
        return await remote.run(run_id)
    except ServerUnreachable as lost:
        hint = "start one with `holdfast serve`, or name its address with `--url`"
        raise Unavailable(f"no server answers at {remote.url} ({lost}): {hint}") from lost
