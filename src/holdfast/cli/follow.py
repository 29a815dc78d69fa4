"""Follow a run over SSE or WebSocket, with reconnects: every event once, in order, until the run ends."""

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
    """An event of a stream: its sequence number, and its bytes as in the log."""

    seq: int
    data: bytes


EventConnection: TypeAlias = AbstractAsyncContextManager[AsyncIterator[StreamedEvent]]


@asynccontextmanager
async def connect_sse(remote: ServerClient, run_id: RunId, after: int) -> AsyncIterator[AsyncIterator[StreamedEvent]]:
    """Connect and yield the events until the server ends the stream; raise `ServerUnreachable` if it breaks."""
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
    with map_transport_errors():
        async with remote.http.stream("GET", f"{run_path(run_id)}/sse", headers=headers) as response:
            if response.status_code != httpx2.codes.OK:
                raise response_error(response.status_code, await response.aread())
            yield parse_sse(response.aiter_bytes())


@asynccontextmanager
async def connect_websocket(
    remote: ServerClient, run_id: RunId, after: int
) -> AsyncIterator[AsyncIterator[StreamedEvent]]:
    """Connect and yield the events until the server ends the stream; raise `ServerUnreachable` if it breaks."""
    # The server sends its own heartbeats, and the size of an event is not limited.
    connection = connect(
        f"ws{remote.url.removeprefix('http')}{run_path(run_id)}/ws?last_event_id={after}",
        additional_headers=remote.headers,
        proxy=None,
        compression=None,
        max_size=None,
        ping_interval=None,
        open_timeout=CONNECT_TIMEOUT_SECONDS,
    )
    try:
        async with connection as socket:
            yield _socket_events(socket)
    except InvalidStatus as exc:
        raise response_error(exc.response.status_code, bytes(exc.response.body or b"")) from exc
    except (WebSocketException, OSError) as exc:
        raise ServerUnreachable(str(exc) or type(exc).__name__) from exc


async def parse_sse(chunks: AsyncIterator[bytes]) -> AsyncIterator[StreamedEvent]:
    """Yield the events of an SSE stream; an incomplete last one is dropped."""
    seq, partial_line = 0, b""
    async for chunk in chunks:
        # Only a line feed ends a line: `splitlines` would also split at other characters.
        *lines, partial_line = (partial_line + chunk).split(b"\n")
        for line in lines:
            field, _, value = line.partition(b": ")
            if field == b"id":
                seq = int(value)
            elif field == b"data":
                yield StreamedEvent(seq, value)


class _SocketMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the socket; a heartbeat has no number."""

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


TRANSPORTS: Final[Mapping[str, Callable[[ServerClient, RunId, int], EventConnection]]] = {
    "sse": connect_sse,
    "ws": connect_websocket,
}

FIRST_RETRY_SECONDS: Final = 0.1
MAX_RETRY_SECONDS: Final = 2.0
"""Longest delay between two attempts to reconnect; the delay doubles after each."""
MAX_RETRY_DOUBLINGS: Final = 8


class RunFollower:
    """Follows a run: `run` is its last known state, `position` the number of the last event returned."""

    def __init__(
        self, remote: ServerClient, run: Run, *, transport: str, after: int = 0, notify: Callable[[str], None]
    ) -> None:
        """Follow `run` after event `after`; `notify` gets a message when the connection is lost or restored."""
        self.run = run
        self.position = after
        self._remote = remote
        self._connect = TRANSPORTS[transport]
        self._notify = notify
        self._disconnected = False
        self._failures = 0

    async def events(self) -> AsyncIterator[bytes]:
        """Yield each event as in the log; afterwards `run` is the ended run."""
        while True:
            try:
                async with self._connect(self._remote, self.run.id, self.position) as events:
                    if self._disconnected:
                        self._disconnected = False
                        self._notify(f"reconnected, after event {self.position}")
                    async for event in events:
                        if event.seq != self.position + 1:
                            raise ServerUnreachable(f"it sent event {event.seq} after event {self.position}")
                        self.position = event.seq
                        self._failures = 0
                        yield event.data
                self.run = await self._remote.run(self.run.id)
                if self.run.status.terminal:
                    return
                raise ServerUnreachable("it closed the stream")
            except ServerUnreachable as error:
                await self._back_off(error)

    async def _back_off(self, error: ServerUnreachable) -> None:
        if not self._disconnected:
            self._disconnected = True
            self._notify(f"connection to {self._remote.url} lost ({error}): the run is safe, reconnecting")
        delay = min(FIRST_RETRY_SECONDS * 2**self._failures, MAX_RETRY_SECONDS)
        self._failures = min(self._failures + 1, MAX_RETRY_DOUBLINGS)
        await asyncio.sleep(random.uniform(delay / 2, delay))


async def read_first(remote: ServerClient, run_id: RunId) -> Run:
    """Return the run to follow; raise `Unavailable` if the server cannot be reached."""
    try:
        return await remote.run(run_id)
    except ServerUnreachable as error:
        remedy = "start one with `holdfast serve`, or pass its URL with `--url`"
        raise Unavailable(f"no server at {remote.url} ({error}): {remedy}") from error
