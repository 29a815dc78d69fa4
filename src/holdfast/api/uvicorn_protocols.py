"""Subclasses of uvicorn's HTTP and WebSocket protocols: the only module that touches uvicorn's internals.

HTTP: malformed requests get the API's error envelope, unfinished request heads are bounded, and the response head is
sent together with the start of the body. WebSocket: a client that breaks the protocol or reads nothing is disconnected
without delaying the server and without a logged error.
"""

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame

from holdfast.api.asgi import AsgiApp, AsgiMessage, AsgiScope, Receive, Send
from holdfast.api.errors import BadRequest, HeadersTooLarge, encode_error, status_of
from holdfast.domain.errors import HoldfastError

MAX_UNFINISHED_HEAD_BYTES: Final = 256 * 1024
"""Bytes of a head that has no end yet. One that ends is measured by the gate, which is stricter."""


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._in_head = False
        self._head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Read a piece, and refuse a head that goes on for too long."""
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_UNFINISHED_HEAD_BYTES:
                self._send_error(
                    HeadersTooLarge(
                        f"the headers may have at most {MAX_UNFINISHED_HEAD_BYTES} bytes",
                        limit=MAX_UNFINISHED_HEAD_BYTES,
                    )
                )

    def on_message_begin(self) -> None:
        """Begin to read a head."""
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Have read it."""
        self._in_head = False
        super().on_headers_complete()
        if self.parser.should_upgrade():
            if self._should_upgrade():
                self._parse_target()
            else:
                self.cycle.keep_alive = False  # the parser reads nothing that follows

    def _should_upgrade(self) -> bool:
        """Say whether this is a handshake; what is none, or comes while another answer is under way, is a request."""
        return self._is_idle() and super()._should_upgrade() and handshake_key(self.scope) is not None

    def _unsupported_upgrade_warning(self) -> None:
        """Leave no warning: it is answered as a request, and leaves the line of one."""

    def _parse_target(self) -> None:
        address = httptools.parse_url(self.url)
        path, query = address.path, address.query or b""
        cast(dict[str, Any], self.scope).update(path=unquote(path.decode()), raw_path=path, query_string=query)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to a socket."""
        key = handshake_key(self.scope)
        assert key is not None
        self.connections.discard(self)
        socket = WebSocketProtocol(config=self.config, server_state=self.server_state, app_state=self.app_state)
        socket.connection_made(self.transport)
        self.transport.set_protocol(socket)
        socket.begin_handshake(self.scope, key)

    def shutdown(self) -> None:
        """Close it because the server stops, as soon as no answer is under way."""
        super().shutdown()
        if self.transport.is_closing():
            close_draining(self.transport, self.loop)
        else:
            self.loop.call_later(DRAIN_CHECK_SECONDS, self.shutdown)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        HeadCoalescingTransport(cycle, self.loop)
        if cycle.scope["http_version"] != "1.1":
            app = _without_chunking(app, cycle)
        super()._start_asgi_task(cycle, _with_early_close(app, cycle, self._close_early))

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request."""
        self._send_error(BadRequest("this is not a request of HTTP/1.1"))

    def _send_error(self, error: HoldfastError) -> None:
        """Say what is wrong, unless that would stand in the midst of an answer, and close the connection."""
        if not self._is_idle() and (self.pipeline or self.cycle.response_started):
            self._close_early(self.cycle)
            return
        status, body = HTTPStatus(status_of(error)), encode_error(error)
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        close_draining(self.transport, self.loop)

    def _close_early(self, cycle: RequestResponseCycle) -> None:
        cycle.transport.close()  # with the head of the answer, if that is not out yet
        close_draining(self.transport, self.loop)

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete


class HeadCoalescingTransport:
    """What an answer is written to at first: the head goes out with what follows at once, which is nearly always there.

    The server writes them one after the other, and a write costs more than most requests do otherwise. Once the head is
    out this steps aside: a stream to a thousand readers pays for each call in between.
    """

    def __init__(self, cycle: RequestResponseCycle, loop: asyncio.AbstractEventLoop) -> None:
        """Put it in the place of the transport that `answer` has."""
        self._cycle = cycle
        self._transport = cycle.transport
        self._loop = loop
        self._head = b""
        cycle.transport = cast(asyncio.Transport, self)

    def write(self, data: bytes) -> None:
        """Keep the head until something follows, or the loop has had its turn."""
        if not self._head:
            self._head = data
            self._loop.call_soon(self._write_head)
        else:
            self._write(data)

    def close(self) -> None:
        """Close it, once all was written."""
        self._write_head()
        self._transport.close()

    def is_closing(self) -> bool:
        """Tell whether nothing more can be written."""
        return self._transport.is_closing()

    def _write_head(self) -> None:
        if self._head:
            self._write(b"")

    def _write(self, data: bytes) -> None:
        self._transport.write(self._head + data)
        self._head = b""
        self._cycle.transport = self._transport


def uvicorn_config(app: AsgiApp, *, shutdown_grace_seconds: int) -> uvicorn.Config:
    """Return how the app is served; open answers have `last_words` seconds to end when it is to stop."""
    return uvicorn.Config(
        app,
        http=HttpProtocol,
        ws=WebSocketProtocol,
        ws_per_message_deflate=False,  # it would cost each socket its own buffers, and each event its own bytes
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing here asks who a client is by its address
        timeout_graceful_shutdown=shutdown_grace_seconds,
    )


def _with_early_close(
    app: Any, cycle: RequestResponseCycle, close_early: Callable[[RequestResponseCycle], None]
) -> Any:
    """Let a stream break off whose reader is too slow: the server would take that for a fault, and log an error."""

    async def call(scope: AsgiScope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)
        if cycle.response_started and not cycle.response_complete:
            cycle.disconnected = True
            close_early(cycle)

    return call


def _without_chunking(app: Any, cycle: RequestResponseCycle) -> Any:
    """Send no chunks to a client of HTTP/1.0: an answer of unknown length ends with its connection."""

    async def call(scope: AsgiScope, receive: Receive, send: Send) -> None:
        unknown = False

        async def send_plain(message: AsgiMessage) -> None:
            nonlocal unknown
            if message["type"] == "http.response.start":
                unknown = all(name.lower() != b"content-length" for name, _ in message["headers"])
                cycle.chunked_encoding = False if unknown else None
            elif unknown:
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await app(scope, receive, send_plain)

    return call


DRAIN_CHECK_SECONDS: Final = 1.0
"""Seconds between two looks at whether the other end of a connection that is closed takes what is on its way to it."""

_HANDSHAKE_HEAD: Final = (
    b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n\r\n"
)
_HANDSHAKE_KEY: Final = re.compile(rb"[A-Za-z0-9+/]{22}==")
"""Sixteen bytes in Base64."""
_PROTOCOL_KEY: Final = "socket"


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A connection that asks to become a socket."""

    def begin_handshake(self, request_scope: AsgiScope, key: bytes) -> None:
        """Have a handshake answered by the app.

        The library is shown only what it needs of the head: it would refuse in its own words what the gate lets pass.
        """
        self.transport.pause_reading()  # until it is answered, nothing that comes means anything
        self.data_received(_HANDSHAKE_HEAD % key)
        for name in ("path", "raw_path", "query_string", "headers"):
            self.scope[name] = request_scope[name]
        self.scope["state"][_PROTOCOL_KEY] = self

    def start_keepalive(self) -> None:
        """Begin to listen: the handshake was accepted."""
        super().start_keepalive()
        self.transport.resume_reading()

    async def run_asgi(self) -> None:
        """Call the app; a handshake that it refused is answered too."""
        app = self.app

        async def call(scope: AsgiScope, receive: Receive, send: Send) -> None:
            await app(scope, receive, send)
            self.handshake_complete |= self.close_sent

        self.app = call
        await super().run_asgi()

    def close_from_server(self, code: int, reason: str, *, fast: bool) -> None:
        """Close the socket, without waiting until its reader takes something; in a `hurry`, hardly at all."""
        if self.close_sent or self.transport.is_closing():
            return
        taking = self.writable.is_set()
        with suppress(InvalidState):  # its client closes it too
            self.conn.send_close(code, reason)
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self._mark_disconnected()
        if taking:
            self.read_paused = False
            self.transport.resume_reading()  # the client says that it has understood
            self.close_timer = self.loop.call_later(self.close_timeout, close_draining, self.transport, self.loop)
        else:
            close_draining(self.transport, self.loop, check_seconds=DRAIN_CHECK_SECONDS if fast else self.close_timeout)

    def shutdown(self) -> None:
        """Close it because the server stops; a handshake is left to the app, which knows what to say."""
        if not self.handshake_complete:
            self.loop.call_later(DRAIN_CHECK_SECONDS, self.shutdown)
            return
        if not self.transport.is_closing():
            super().shutdown()
        self._disconnect()

    def keepalive_timeout(self) -> None:
        """Close it because its client does not answer."""
        super().keepalive_timeout()
        self._disconnect()

    def handle_parser_exception(self) -> None:
        """Close it because its client broke the rules."""
        super().handle_parser_exception()
        self._disconnect()

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
        if self.close_sent or self.curr_msg_data_type != "text" or _is_utf8(b"".join(self.frames)):
            super().send_receive_event_to_app()
            return
        with suppress(InvalidState):  # its client closes it too
            self.conn.send_close(CloseCode.INVALID_DATA)
        self.handle_parser_exception()

    def _disconnect(self) -> None:
        self._mark_disconnected()
        close_draining(self.transport, self.loop)

    def _mark_disconnected(self) -> None:
        """Let who has something to say, or waits for the client to take it, know that nobody listens."""
        self.disconnected = True
        self.writable.set()


def handshake_key(scope: AsgiScope) -> bytes | None:
    """Return the key of a handshake, if a request is one."""
    given: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        given.setdefault(name, []).append(value.strip())
    (key, *more) = given.get(b"sec-websocket-key", [b""])
    right = (
        scope["method"] == "GET"
        and scope["http_version"] == "1.1"
        and given.get(b"sec-websocket-version") == [b"13"]
        and given.get(b"content-length", [b"0"]) == [b"0"]
        and b"transfer-encoding" not in given
    )
    return key if right and not more and _HANDSHAKE_KEY.fullmatch(key) else None


def limit_message_size(scope: AsgiScope, *, max_bytes: int) -> None:
    """Take no message of more than so many bytes over a socket, if it is one of this server."""
    held = _protocol_of(scope)
    if held is not None:
        held.conn.max_message_size = max_bytes


async def close_socket(scope: AsgiScope, send: Send, *, code: int, reason: str, fast: bool = False) -> None:
    """Close a socket at once, if it is one of this server: also one whose reader takes nothing."""
    held = _protocol_of(scope)
    if held is not None:
        held.close_from_server(code, reason, fast=fast)
    else:
        await send({"type": "websocket.close", "code": code, "reason": reason})


def close_draining(
    transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, *, check_seconds: float = DRAIN_CHECK_SECONDS
) -> None:
    """Close a connection, and wait only as long as its other end takes something of what is on its way to it."""
    transport.close()
    loop.call_later(check_seconds, _abort_if_stalled, transport, loop, transport.get_write_buffer_size(), check_seconds)


def _abort_if_stalled(
    transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, previous_size: int, check_seconds: float
) -> None:
    left = transport.get_write_buffer_size()
    if 0 < left < previous_size:
        loop.call_later(check_seconds, _abort_if_stalled, transport, loop, left, check_seconds)
    elif left:
        transport.abort()


def _protocol_of(scope: AsgiScope) -> WebSocketProtocol | None:
    held: Any = scope.get("state", {}).get(_PROTOCOL_KEY)
    return held if isinstance(held, WebSocketProtocol) else None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
