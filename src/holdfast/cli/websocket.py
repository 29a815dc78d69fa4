"""The log of a run over a WebSocket: `holdfast run follow --transport ws`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedOK, InvalidStatus, WebSocketException

from holdfast.client.api import RunEvent
from holdfast.client.client import Client
from holdfast.client.wire import (
    CONNECT_TIMEOUT_SECONDS,
    READ_TIMEOUT_SECONDS,
    connection_reason,
    map_transport_errors,
    response_error,
)
from holdfast.domain.errors import ServerUnreachable


@asynccontextmanager
async def connect_websocket(client: Client, path: str, after: int) -> AsyncIterator[AsyncIterator[RunEvent]]:
    """Connect and yield the events until the server ends the stream; raise `ServerUnreachable` if it breaks."""
    # The server sends its own heartbeats, and the size of an event is not limited.
    connection = connect(
        f"ws{client.url.removeprefix('http')}{path}?last_event_id={after}",
        additional_headers=client.headers,
        proxy=None,
        compression=None,
        max_size=None,
        ping_interval=None,
        open_timeout=CONNECT_TIMEOUT_SECONDS,
    )
    with map_transport_errors():
        try:
            async with connection as socket:
                yield _events(socket)
        except InvalidStatus as exc:
            raise response_error(exc.response.status_code, bytes(exc.response.body or b"")) from exc
        except WebSocketException as exc:
            reason = connection_reason(exc)
            closed = "it closed the connection"
            raise ServerUnreachable(closed if reason == "the connection failed" else reason) from exc


class _SocketMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the socket; a heartbeat has no number."""

    seq: int | None = None
    data: msgspec.Raw = msgspec.Raw()


async def _events(socket: ClientConnection) -> AsyncIterator[RunEvent]:
    decode = msgspec.json.Decoder(_SocketMessage).decode
    while True:
        try:
            async with asyncio.timeout(READ_TIMEOUT_SECONDS):
                message = decode(await socket.recv())
        except ConnectionClosedOK:
            return
        if message.seq is not None:
            yield RunEvent(seq=message.seq, data=bytes(message.data))
