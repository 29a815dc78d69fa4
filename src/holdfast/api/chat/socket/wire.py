"""The wire to one client: what is said over it, in one order, and why it was cut."""

import asyncio
from collections.abc import Callable
from enum import IntEnum

from holdfast.api.asgi import Scope, Send
from holdfast.api.gate import past_the_gate
from holdfast.api.socket import close_socket


class SocketClose(IntEnum):
    """Why the server closes the socket.

    `BROKEN`, `MALFORMED`, `UNANSWERED` and `RESTARTING` are said below this app, `REVOKED` at its door.
    """

    CLOSING = 1001
    """The server stops: reconnect."""
    BROKEN = 1002
    """The client broke the rules of the protocol itself."""
    UNSUPPORTED = 1003
    """The client sent a frame of bytes."""
    MALFORMED = 1007
    """The client sent text that is not UTF-8."""
    TOO_DEEP = 1008
    """The client sent JSON that is nested too deeply."""
    TOO_LARGE = 1009
    """The client sent a frame that is too large."""
    UNANSWERED = 1011
    """The client did not answer to a ping of the protocol itself: reconnect."""
    RESTARTING = 1012
    """The server stopped before it could say more: reconnect."""
    TOO_SLOW = 4008
    """The client took nothing for too long: reconnect."""
    REVOKED = 4401
    """The key that the client came with was revoked, or has expired."""


class Wire:
    """One socket, as those see it who have something to say."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = past_the_gate(scope, send)
        self._turn = asyncio.Lock()
        self._cut: SocketClose | None = None
        self.over = asyncio.Event()
        """Nobody listens any more, or nobody may."""

    async def say(self, text: str) -> None:
        """Send a frame."""
        await self.say_in_turn(lambda: text)

    async def say_in_turn(self, write: Callable[[], str]) -> None:
        """Send what `write` returns once all that came before is sent: it may tell how far everything is."""
        async with self._turn:
            await self._send({"type": "websocket.send", "text": write()})

    def cut(self, why: SocketClose) -> None:
        """Say nothing more, and close the socket."""
        self._cut = self._cut or why
        self.over.set()

    async def close(self) -> None:
        """Tell the client why the socket was cut, if it was."""
        if self._cut is not None:
            reason = self._cut.name.lower().replace("_", " ")
            hurry = self._cut is SocketClose.TOO_SLOW
            await close_socket(self._scope, self._send, code=self._cut, reason=reason, hurry=hurry)
