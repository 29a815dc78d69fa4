"""A run's event log over WebSocket: one message per event, resumable at the same positions as SSE."""

import asyncio
from collections.abc import Awaitable
from enum import IntEnum
from typing import Final

from litestar.connection import ASGIConnection

from holdfast.api.asgi import AsgiApp, AsgiScope, Receive, Send
from holdfast.api.errors import encode_error, status_of
from holdfast.api.middleware import unwrapped_send
from holdfast.api.parameters import check_request
from holdfast.api.streams.sse import PING, PONG, websocket_messages
from holdfast.api.uvicorn_protocols import close_socket, limit_message_size
from holdfast.control.streams.broadcast import StreamEnd, Subscriber
from holdfast.domain.errors import HoldfastError

_PINGS: Final = frozenset({"ping", PING})

MAX_CLIENT_MESSAGE_BYTES: Final = 1024
"""Bytes of a client message: a ping needs no more."""
MESSAGES_PER_YIELD: Final = 16
"""Messages that are sent before other tasks get to run."""


class WebSocketCloseCode(IntEnum):
    """Reasons for which the server closes a socket.

    The protocol layer sends `BROKEN`, `MALFORMED`, `TOO_LARGE`, `UNANSWERED` and `RESTARTING`, the auth middleware
    `REVOKED`.
    """

    ENDED = 1000
    """The run has ended, and all of its log was sent."""
    CLOSING = 1001
    """The server is shutting down: reconnect after the last `seq`."""
    BROKEN = 1002
    """The client violated the WebSocket protocol."""
    UNSUPPORTED = 1003
    """The client sent a message that is not a ping."""
    MALFORMED = 1007
    """The client sent text that is not UTF-8."""
    TOO_LARGE = 1009
    """The client sent a message that is too large."""
    UNANSWERED = 1011
    """The client did not respond to a protocol-level ping: reconnect after the last `seq`."""
    RESTARTING = 1012
    """The server stopped: reconnect after the last `seq`."""
    GONE = 4004
    """The run was deleted."""
    TOO_SLOW = 4008
    """The client read nothing for too long: reconnect after the last `seq`."""
    REVOKED = 4401
    """The key of the client was revoked, or has expired."""


_CLOSE_BY_END: Final = {
    StreamEnd.ENDED: (WebSocketCloseCode.ENDED, "the run has ended"),
    StreamEnd.GONE: (WebSocketCloseCode.GONE, "the run was deleted"),
    StreamEnd.CLOSING: (WebSocketCloseCode.CLOSING, "the server is shutting down: reconnect"),
    StreamEnd.BEHIND: (WebSocketCloseCode.TOO_SLOW, "too slow: reconnect"),
}


class RunSocket:
    """A WebSocket that streams the log of a run."""

    def __init__(self, subscriber: Subscriber, scope: AsgiScope, receive: Receive, send: Send) -> None:
        self._subscriber = subscriber
        self._scope = scope
        self._receive = receive
        self._accept = send
        self._send = unwrapped_send(scope, send)
        self._close: tuple[WebSocketCloseCode, str] | None = None

    async def serve(self) -> None:
        """Accept the socket, and stream until the run ends or the client disconnects."""
        with self._subscriber as subscriber:
            limit_message_size(self._scope, max_bytes=MAX_CLIENT_MESSAGE_BYTES)
            await self._accept({"type": "websocket.accept"})
            try:
                async with asyncio.TaskGroup() as tasks:
                    sending = tasks.create_task(self._write_all())
                    subscriber.on_stalled = lambda: self._stop(
                        sending, WebSocketCloseCode.TOO_SLOW, "too slow: reconnect"
                    )
                    listening = tasks.create_task(self._listen(sending))
                    sending.add_done_callback(lambda _: listening.cancel())
            except* OSError:
                pass  # the client has disconnected, which the sender noticed first
        if self._close is not None:
            code, reason = self._close
            fast = code is WebSocketCloseCode.TOO_SLOW
            await close_socket(self._scope, self._send, code=code, reason=reason, fast=fast)

    async def _write_all(self) -> None:
        while not isinstance(item := await self._subscriber.next(), StreamEnd):
            for number, message in enumerate([PING] if item is None else item.rendered(websocket_messages), start=1):
                await self._send_text(message)
                if number % MESSAGES_PER_YIELD == 0:
                    await asyncio.sleep(0)  # a send that does not block never yields
        self._close = _CLOSE_BY_END[item]

    async def _listen(self, sending: asyncio.Task[None]) -> None:
        """Respond to pings; cancel the sender when the client disconnects. The run continues."""
        while (message := await self._receive())["type"] != "websocket.disconnect":
            if message["type"] == "websocket.receive":
                if (message.get("text") or "").replace(" ", "") not in _PINGS:
                    self._stop(sending, WebSocketCloseCode.UNSUPPORTED, "this stream accepts only pings")
                    return
                await self._send_text(PONG)
        sending.cancel()

    def _stop(self, sending: asyncio.Task[None], code: WebSocketCloseCode, reason: str) -> None:
        self._close = (code, reason)
        sending.cancel()

    def _send_text(self, text: str) -> Awaitable[None]:
        return self._send({"type": "websocket.send", "text": text})


def check_handshake(app: AsgiApp) -> AsgiApp:
    """Check the path and query of a handshake; the framework would refuse it without a reason."""

    async def call(scope: AsgiScope, receive: Receive, send: Send) -> None:
        try:
            check_request(ASGIConnection(scope), scope["route_handler"])
        except HoldfastError as error:
            await deny_handshake(error, scope, send)
        else:
            await app(scope, receive, send)

    return call


async def deny_handshake(error: HoldfastError, scope: AsgiScope, send: Send) -> None:
    """Refuse a handshake with an error response."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": error.code})
        return
    headers = [(b"content-type", b"application/json")]
    await send({"type": "websocket.http.response.start", "status": status_of(error), "headers": headers})
    await send({"type": "websocket.http.response.body", "body": encode_error(error)})
