"""How the server speaks WebSocket: who breaks its rules, or takes nothing, holds nothing up and leaves no error."""

import asyncio
import re
from contextlib import suppress
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame

from holdfast.api.asgi import Receive, Scope, Send

LINGER: Final = 1.0
"""Seconds between two looks at whether the other end of a connection that is closed takes what is on its way to it."""

_HEAD: Final = (
    b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n\r\n"
)
_KEY: Final = re.compile(rb"[A-Za-z0-9+/]{22}==")
"""Sixteen bytes in Base64."""
_HELD: Final = "socket"


class Socket(WebSocketsSansIOProtocol):
    """A connection that asks to become a socket."""

    def begin(self, asked: Scope, key: bytes) -> None:
        """Have a handshake answered by the app.

        The library is shown only what it needs of the head: it would refuse in its own words what the gate lets pass.
        """
        self.transport.pause_reading()  # until it is answered, nothing that comes means anything
        self.data_received(_HEAD % key)
        for name in ("path", "raw_path", "query_string", "headers"):
            self.scope[name] = asked[name]
        self.scope["state"][_HELD] = self

    def start_keepalive(self) -> None:
        """Begin to listen: the handshake was accepted."""
        super().start_keepalive()
        self.transport.resume_reading()

    async def run_asgi(self) -> None:
        """Call the app; a handshake that it refused is answered too."""
        app = self.app

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            await app(scope, receive, send)
            self.handshake_complete |= self.close_sent

        self.app = call
        await super().run_asgi()

    def leave(self, code: int, reason: str, *, hurry: bool) -> None:
        """Close the socket, without waiting until its reader takes something; in a `hurry`, hardly at all."""
        if self.close_sent or self.transport.is_closing():
            return
        taking = self.writable.is_set()
        with suppress(InvalidState):  # its client closes it too
            self.conn.send_close(code, reason)
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self._hush()
        if taking:
            self.read_paused = False
            self.transport.resume_reading()  # the client says that it has understood
            self.close_timer = self.loop.call_later(self.close_timeout, drop, self.transport, self.loop)
        else:
            drop(self.transport, self.loop, patience=LINGER if hurry else self.close_timeout)

    def shutdown(self) -> None:
        """Close it because the server stops; a handshake is left to the app, which knows what to say."""
        if not self.handshake_complete:
            self.loop.call_later(LINGER, self.shutdown)
            return
        if not self.transport.is_closing():
            super().shutdown()
        self._break_off()

    def keepalive_timeout(self) -> None:
        """Close it because its client does not answer."""
        super().keepalive_timeout()
        self._break_off()

    def handle_parser_exception(self) -> None:
        """Close it because its client broke the rules."""
        super().handle_parser_exception()
        self._break_off()

    def handle_ping(self) -> None:
        """Answer; of a client that takes no answers, read nothing more until it does."""
        if self.writable.is_set() and not self.close_sent:
            super().handle_ping()
            return
        self.conn.data_to_send()
        if not self.close_sent and not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on, and listen again."""
        super().resume_writing()
        if self.handshake_complete and not self.read_paused:
            self.transport.resume_reading()

    def handle_cont(self, event: Frame) -> None:
        """Keep a piece of a message; one without content would be kept too, and count for nothing."""
        if event.data or event.fin:
            super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        """Hand over a message, unless it says that it is text and is not."""
        if self.close_sent or self.curr_msg_data_type != "text" or _is_text(b"".join(self.frames)):
            super().send_receive_event_to_app()
            return
        with suppress(InvalidState):  # its client closes it too
            self.conn.send_close(CloseCode.INVALID_DATA)
        self.handle_parser_exception()

    def _break_off(self) -> None:
        self._hush()
        drop(self.transport, self.loop)

    def _hush(self) -> None:
        """Let who has something to say, or waits for the client to take it, know that nobody listens."""
        self.disconnected = True
        self.writable.set()


def key_of(asked: Scope) -> bytes | None:
    """Return the key of a handshake, if a request is one."""
    given: dict[bytes, list[bytes]] = {}
    for name, value in asked["headers"]:
        given.setdefault(name, []).append(value.strip())
    (key, *more) = given.get(b"sec-websocket-key", [b""])
    right = (
        asked["method"] == "GET"
        and asked["http_version"] == "1.1"
        and given.get(b"sec-websocket-version") == [b"13"]
        and given.get(b"content-length", [b"0"]) == [b"0"]
        and b"transfer-encoding" not in given
    )
    return key if right and not more and _KEY.fullmatch(key) else None


def limit_messages(scope: Scope, *, most: int) -> None:
    """Take no message of more than so many bytes over a socket, if it is one of this server."""
    held = _held(scope)
    if held is not None:
        held.conn.max_message_size = most


async def close_socket(scope: Scope, send: Send, *, code: int, reason: str, hurry: bool = False) -> None:
    """Close a socket at once, if it is one of this server: also one whose reader takes nothing."""
    held = _held(scope)
    if held is not None:
        held.leave(code, reason, hurry=hurry)
    else:
        await send({"type": "websocket.close", "code": code, "reason": reason})


def drop(transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, *, patience: float = LINGER) -> None:
    """Close a connection, and wait only as long as its other end takes something of what is on its way to it."""
    transport.close()
    loop.call_later(patience, _look, transport, loop, transport.get_write_buffer_size(), patience)


def _look(transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, before: int, patience: float) -> None:
    left = transport.get_write_buffer_size()
    if 0 < left < before:
        loop.call_later(patience, _look, transport, loop, left, patience)
    elif left:
        transport.abort()


def _held(scope: Scope) -> Socket | None:
    held: Any = scope.get("state", {}).get(_HELD)
    return held if isinstance(held, Socket) else None


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
