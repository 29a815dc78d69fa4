"""A client of the socket that a test controls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from holdfast.api.chat.socket_frames import SocketClose
from holdfast.api.streams.sse import PING
from holdfast.domain.content import Json
from tests.api.streams.manual_run import with_timeout
from tests.api.streams.readers import ws

LOOK: Final[Json] = {"name": "look", "description": "Look at something.", "class": "idempotent"}
PUSH: Final[Json] = {
    "name": "push",
    "description": "Push a button.",
    "parameters": {"type": "object", "properties": {"button": {"type": "integer"}}, "required": ["button"]},
}


class SocketClient:
    """One socket."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def send(self, kind: str, **fields: Json) -> None:
        """Send a frame."""
        await self.send_raw(msgspec.json.encode({"type": kind, **fields}).decode())

    async def send_raw(self, text: str | bytes) -> None:
        """Send text or bytes unchanged."""
        await self.connection.send(text)

    async def next(self) -> Any:
        """Return the next frame that is not a ping."""
        return msgspec.json.decode(await with_timeout(self._receive()))

    async def _receive(self) -> str | bytes:
        while (text := await self.connection.recv()) == PING:
            pass
        return text

    async def expect(self, kind: str) -> Any:
        """Return the next frame, which must be of that type."""
        frame = await self.next()
        assert frame["type"] == kind, frame
        return frame

    async def expect_error(self) -> Any:
        """Return the error of the next frame, which must be an `error`."""
        return (await self.expect("error"))["error"]

    async def offer(self, *methods: Json) -> Any:
        """Offer methods, and return the response."""
        await self.send("offer", methods=list(methods))
        return await self.expect("offered")

    async def send_result(self, method_call: Json, **result: Json) -> None:
        """Send the result of a call."""
        await self.send("result", call_id=method_call["call_id"], **result)

    async def check_open(self) -> None:
        """Check that the server has read all frames and sent no other."""
        await self.send("ping", id="still there?")
        assert await self.next() == {"type": "pong", "id": "still there?"}

    async def check_closed(self, code: SocketClose) -> None:
        """Check that the server closes the socket with a code."""
        with pytest.raises(ConnectionClosed):
            while True:
                await with_timeout(self._receive())
        assert self.connection.close_code == code


@asynccontextmanager
async def connect(host: str, path: str = "/ws") -> AsyncIterator[SocketClient]:
    """Open a socket, and disconnect when the block ends."""
    async with ws(host, path) as connection:
        yield SocketClient(connection)
