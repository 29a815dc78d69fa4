"""The log of a run over one connection, by SSE or by WebSocket: the same events after the same number."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, NamedTuple, TypeAlias

import httpx2
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedOK, InvalidStatus, WebSocketException

from holdfast.cli.remote import CONNECT, SILENCE, Lost, Remote, connection_checked, path_of, refusal
from holdfast.domain.ids import RunId


class Sent(NamedTuple):
    """An event on the wire: its number, and the bytes that the log holds."""

    seq: int
    data: bytes


Stream: TypeAlias = AbstractAsyncContextManager[AsyncIterator[Sent]]


@asynccontextmanager
async def over_sse(remote: Remote, run_id: RunId, after: int) -> AsyncIterator[AsyncIterator[Sent]]:
    """Connect, and yield what is sent until the server ends it; a connection that breaks raises `Lost`."""
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
    with connection_checked():
        async with remote.http.stream("GET", f"{path_of(run_id)}/sse", headers=headers) as answer:
            if answer.status_code != httpx2.codes.OK:
                raise refusal(answer.status_code, await answer.aread())
            yield parsed(answer.aiter_bytes())


@asynccontextmanager
async def over_websocket(remote: Remote, run_id: RunId, after: int) -> AsyncIterator[AsyncIterator[Sent]]:
    """Connect, and yield what is sent until the server ends it; a connection that breaks raises `Lost`."""
    address = f"ws{remote.url.removeprefix('http')}{path_of(run_id)}/ws?last_event_id={after}"
    # The server shows its own signs of life, and an event may be as large as it likes.
    dial = connect(
        address,
        additional_headers=remote.headers,
        proxy=None,
        compression=None,
        max_size=None,
        ping_interval=None,
        open_timeout=CONNECT,
    )
    try:
        async with dial as socket:
            yield _received(socket)
    except InvalidStatus as exc:
        raise refusal(exc.response.status_code, bytes(exc.response.body or b"")) from exc
    except (WebSocketException, OSError) as exc:
        raise Lost(str(exc) or type(exc).__name__) from exc


async def parsed(chunks: AsyncIterator[bytes]) -> AsyncIterator[Sent]:
    """Yield the events of an SSE stream, however it was cut into chunks; one that is not complete is left out."""
    seq = 0
    async for line in _lines(chunks):
        field, _, value = line.partition(b": ")
        if field == b"id":
            seq = int(value)
        elif field == b"data":
            yield Sent(seq, value)


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the socket; a sign of life has no number."""

    seq: int | None = None
    data: msgspec.Raw = msgspec.Raw()


async def _received(socket: ClientConnection) -> AsyncIterator[Sent]:
    decode = msgspec.json.Decoder(_Message).decode
    while True:
        try:
            async with asyncio.timeout(SILENCE):
                message = decode(await socket.recv())
        except ConnectionClosedOK:
            return
        if message.seq is not None:
            yield Sent(message.seq, bytes(message.data))


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield lines as they end; only a line feed ends one, whatever else text may hold."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


TRANSPORTS: Final[Mapping[str, Callable[[Remote, RunId, int], Stream]]] = {
    "sse": over_sse,
    "ws": over_websocket,
}
