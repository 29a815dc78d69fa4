"""A client of the socket, in the hands of a test."""

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
from tests.api.streams.readers import ws
from tests.api.streams.stage import soon

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
        """Send whatever it is."""
        await self.connection.send(text)

    async def next(self) -> Any:
        """Return the next frame that is no sign of life."""
        return msgspec.json.decode(await soon(self._receive()))

    async def _receive(self) -> str | bytes:
        while (text := await self.connection.recv()) == PING:
            pass
        return text

    async def expect(self, kind: str) -> Any:
        """Return the next frame, which is of that kind."""
        found = await self.next()
        assert found["type"] == kind, found
        return found

    async def expect_error(self) -> Any:
        """Return what is wrong, which is told by the next frame."""
        return (await self.expect("error"))["error"]

    async def offer(self, *methods: Json) -> Any:
        """Offer methods, and return the answer."""
        await self.send("offer", methods=list(methods))
        return await self.expect("offered")

    async def send_result(self, call: Json, **result: Json) -> None:
        """Answer a call."""
        await self.send("result", call_id=call["call_id"], **result)

    async def check_open(self) -> None:
        """Check that all that was sent was read, and nothing was said about it."""
        await self.send("ping", id="still there?")
        assert await self.next() == {"type": "pong", "id": "still there?"}

    async def check_closed(self, why: SocketClose) -> None:
        """Check that the server closes the socket, and why."""
        with pytest.raises(ConnectionClosed):
            while True:
                await soon(self._receive())
        assert self.connection.close_code == why


@asynccontextmanager
async def connect(host: str) -> AsyncIterator[SocketClient]:
    """Open a socket, and tear it when the block ends."""
    async with ws(host, "/ws") as connection:
        yield SocketClient(connection)
