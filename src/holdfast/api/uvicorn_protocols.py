"""Subclasses of uvicorn's HTTP and WebSocket protocols: the only module that touches uvicorn's internals.

`tests/api/test_uvicorn_internals.py` lists what is overridden and used here; `pyproject.toml` pins the version.

HTTP: malformed requests get the API's error envelope, unfinished request heads are bounded, and the response head is
sent together with the start of the body. WebSocket: a client that breaks the protocol or reads nothing is disconnected
without delaying the server and without a logged error.
"""

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame

from holdfast.api.asgi import BROWSER_HEADERS, AsgiApp, AsgiMessage, AsgiScope, Receive, Send
from holdfast.api.errors import (
    MAX_URL_BYTES,
    BadRequest,
    HeadersTooLarge,
    RequestTimeout,
    address_too_long,
    encode_error,
    status_of,
)
from holdfast.api.waiting_connections import DRAIN_CHECK_SECONDS, RequestPhase, WaitingConnections, close_draining
from holdfast.domain.errors import HoldfastError

MAX_UNFINISHED_HEAD_BYTES: Final = 256 * 1024
"""Bytes of an incomplete request head. `HostOriginMiddleware` checks complete heads, with a lower limit."""
MAX_HEADER_LINES: Final = 500
"""Header lines of a request, with the trailers of its body: reading a line costs more than reading its bytes."""
MAX_FRAMES_PER_READ: Final = 500
"""WebSocket frames that a client may send at once: each costs microseconds, however short it is."""
_PARSED_BYTES: Final = 2048
"""Bytes of a WebSocket connection that are parsed before its frames are counted."""

_HANDSHAKE_HEAD: Final = (
    b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n\r\n"
)
_HANDSHAKE_KEY: Final = re.compile(rb"[A-Za-z0-9+/]{22}==")
"""Sixteen bytes in Base64."""
_PROTOCOL_KEY: Final = "socket"


class HttpProtocol(HttpToolsProtocol):
    """An HTTP/1.1 connection."""

    def __init__(self, *args: Any, waiting: WaitingConnections, **options: Any) -> None:
        super().__init__(*args, **options)
        self._waiting = waiting
        self._phase: RequestPhase | None = RequestPhase.IDLE
        self._in_head = False
        self._head_bytes = 0
        self._in_request = False
        self._header_lines = 0
        self._held: tuple[RequestResponseCycle, Any] | None = None
        """A request that the app gets once more of its body has arrived."""

    @property
    def address(self) -> str:
        """The address of the client."""
        return self.client[0] if self.client else ""

    @property
    def is_read_paused(self) -> bool:
        """Whether the app has not yet taken what was read."""
        return self.flow.read_paused

    def close_waiting(self, reason: str) -> None:
        """Close the connection; a client that has sent part of a request gets an error."""
        if self._phase is RequestPhase.IDLE:
            close_draining(self.transport, self.loop)
        else:
            self._send_error(RequestTimeout(reason))

    def start_held(self) -> None:
        """Pass a held request to the app."""
        held, self._held = self._held, None
        if held is not None and not self.transport.is_closing():
            self._run_app(*held)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait_for(RequestPhase.IDLE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._waiting.remove(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it has arrived already."""
        super().on_response_complete()
        if not self.transport.is_closing() and self._is_idle():
            self._wait_for(RequestPhase.IDLE)

    def on_message_complete(self) -> None:
        """Stop waiting: the request is complete."""
        self._in_request = False
        self._phase = None
        self._waiting.remove(self)
        super().on_message_complete()
        self.start_held()

    def _wait_for(self, phase: RequestPhase) -> None:
        self._phase = phase
        self._waiting.wait(self, phase)

    def data_received(self, data: bytes) -> None:
        """Parse a chunk; refuse a request head that is too long, and trailers or a chunk's head likewise."""
        if self._phase is RequestPhase.BODY:
            self._waiting.wait(self, RequestPhase.BODY)
        super().data_received(data)
        if self._in_request and not self.transport.is_closing():
            self._head_bytes += len(data)
            limit = MAX_UNFINISHED_HEAD_BYTES
            if self._head_bytes > limit:
                self._send_error(HeadersTooLarge(f"the headers may have at most {limit} bytes", limit=limit))

    def on_message_begin(self) -> None:
        """Start to count the bytes and lines of a request head."""
        self._in_request = self._in_head = True
        self._head_bytes = self._header_lines = 0
        if self._is_idle():
            self._wait_for(RequestPhase.HEAD)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header line, and ignore a trailer: uvicorn would add it to the headers of the request."""
        self._header_lines += 1
        if self._header_lines > MAX_HEADER_LINES:
            raise httptools.HttpParserError("too many header lines")
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Add a part of the body, which is not counted as part of a head."""
        self._head_bytes = 0
        super().on_body(body)
        if self._held is not None and self.flow.read_paused:
            self.start_held()

    def on_headers_complete(self) -> None:
        """Start the request; for a handshake, set the path and query of the scope, which uvicorn does not."""
        self._in_head = False
        if self._phase is RequestPhase.HEAD:
            self._wait_for(RequestPhase.BODY)
        super().on_headers_complete()
        if self.parser.should_upgrade():
            if self._should_upgrade():
                url = httptools.parse_url(self.url)
                cast(dict[str, Any], self.scope).update(
                    path=unquote(url.path.decode()), raw_path=url.path, query_string=url.query or b""
                )
            else:
                self.cycle.keep_alive = False  # the parser ignores all further data

    def _should_upgrade(self) -> bool:
        """Return whether a request is a valid handshake on an idle connection; others are plain requests."""
        return self._is_idle() and super()._should_upgrade() and handshake_key(self.scope) is not None

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: the request is handled, and appears in the access log."""

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to a `WebSocketProtocol`."""
        key = handshake_key(self.scope)
        assert key is not None
        self.connections.discard(self)
        self._waiting.remove(self)
        socket = WebSocketProtocol(config=self.config, server_state=self.server_state, app_state=self.app_state)
        socket.connection_made(self.transport)
        self.transport.set_protocol(socket)
        socket.begin_handshake(self.scope, key)

    def shutdown(self) -> None:
        """Close the connection for a shutdown, as soon as no response is in progress."""
        super().shutdown()
        if self.transport.is_closing():
            close_draining(self.transport, self.loop)
        else:
            self.loop.call_later(DRAIN_CHECK_SECONDS, self.shutdown)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self._phase is RequestPhase.BODY and self._waiting.is_crowded(self.address):
            self._held = (cycle, app)
        else:
            self._run_app(cycle, app)

    def _run_app(self, cycle: RequestResponseCycle, app: Any) -> None:
        HeadCoalescingTransport(cycle, self.loop)
        if cycle.scope["http_version"] != "1.1":
            app = _without_chunking(app, cycle)
        super()._start_asgi_task(cycle, _with_early_close(app, cycle, self._close_early))

    def send_400_response(self, msg: str) -> None:
        """Respond to data that is not an HTTP request, or has too many headers or a URL that cannot be parsed."""
        limit = MAX_HEADER_LINES
        if self._header_lines > limit:
            self._send_error(HeadersTooLarge(f"a request may have at most {limit} header lines", limit=limit))
        elif self._in_request and len(self.url) > MAX_URL_BYTES:
            self._send_error(address_too_long())
        else:
            self._send_error(BadRequest("the request is not valid HTTP/1.1"))

    def _send_error(self, error: HoldfastError) -> None:
        """Send an error, unless a response is in progress, and close the connection."""
        if not self._is_idle() and (self.pipeline or self.cycle.response_started):
            self._close_early(self.cycle)
            return
        status, body = HTTPStatus(status_of(error)), encode_error(error)
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n"
        for_browsers = b"".join(b"%b: %b\r\n" % header for header in BROWSER_HEADERS)
        self.transport.write(head.encode() + for_browsers + b"\r\n" + body)
        close_draining(self.transport, self.loop)

    def _close_early(self, cycle: RequestResponseCycle) -> None:
        cycle.transport.close()  # flushes a response head that is still held back
        close_draining(self.transport, self.loop)

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete


class HeadCoalescingTransport:
    """A transport that holds back the response head until the body follows, and sends both with one write.

    The server writes them separately, and a write costs more than the rest of most requests. Once the head is sent, the
    original transport takes over: a stream to a thousand subscribers pays for each layer in between.
    """

    def __init__(self, cycle: RequestResponseCycle, loop: asyncio.AbstractEventLoop) -> None:
        """Replace the transport of `cycle`."""
        self._cycle = cycle
        self._transport = cycle.transport
        self._loop = loop
        self._head = b""
        cycle.transport = cast(asyncio.Transport, self)

    def write(self, data: bytes) -> None:
        """Hold back the head until the next write, or the next iteration of the event loop."""
        if not self._head:
            self._head = data
            self._loop.call_soon(self._write_head)
        else:
            self._write(data)

    def close(self) -> None:
        """Write the head if it is held back, and close the transport."""
        self._write_head()
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the transport is closing."""
        return self._transport.is_closing()

    def _write_head(self) -> None:
        if self._head:
            self._write(b"")

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():  # uvloop raises an error for a connection that the client has closed
            self._transport.write(self._head + data)
        self._head = b""
        self._cycle.transport = self._transport


def uvicorn_config(app: AsgiApp, *, shutdown_grace_seconds: int, max_files: int = 1024) -> uvicorn.Config:
    """Return the uvicorn configuration; responses in progress get `shutdown_grace_seconds` on shutdown."""
    return uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], partial(HttpProtocol, waiting=WaitingConnections(max_files=max_files))),
        ws=WebSocketProtocol,
        ws_per_message_deflate=False,  # compression needs buffers per socket and bytes per event
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing here uses the address of a client
        timeout_graceful_shutdown=shutdown_grace_seconds,
    )


def _with_early_close(
    app: Any, cycle: RequestResponseCycle, close_early: Callable[[RequestResponseCycle], None]
) -> Any:
    """Close a response that the app ended early, such as a stalled stream: uvicorn would log an error."""

    async def call(scope: AsgiScope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)
        if cycle.response_started and not cycle.response_complete:
            cycle.disconnected = True
            close_early(cycle)

    return call


def _without_chunking(app: Any, cycle: RequestResponseCycle) -> Any:
    """Send a response of unknown length without chunks: for HTTP/1.0 it ends with the connection."""

    async def call(scope: AsgiScope, receive: Receive, send: Send) -> None:
        unknown_length = False

        async def send_plain(message: AsgiMessage) -> None:
            nonlocal unknown_length
            if message["type"] == "http.response.start":
                unknown_length = all(name.lower() != b"content-length" for name, _ in message["headers"])
                cycle.chunked_encoding = False if unknown_length else None
            elif unknown_length:
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await app(scope, receive, send_plain)

    return call


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket connection."""

    def begin_handshake(self, request_scope: AsgiScope, key: bytes) -> None:
        """Pass a handshake to the app.

        The library sees a minimal request head: it would refuse some requests that `HostOriginMiddleware` accepts.
        """
        self.transport.pause_reading()  # data before the handshake response has no meaning
        self.data_received(_HANDSHAKE_HEAD % key)
        for name in ("path", "raw_path", "query_string", "headers"):
            self.scope[name] = request_scope[name]
        self.scope["state"][_PROTOCOL_KEY] = self

    def data_received(self, data: bytes) -> None:
        """Parse a chunk; close the socket of a client that sends too many frames at once."""
        self._frame_count = 0
        for start in range(0, len(data), _PARSED_BYTES):
            super().data_received(data[start : start + _PARSED_BYTES])
            if self._frame_count > MAX_FRAMES_PER_READ and not self.transport.is_closing():
                with suppress(InvalidState):  # the client is closing it too
                    self.conn.send_close(CloseCode.POLICY_VIOLATION, "too many frames at once")
                self.handle_parser_exception()
            if self.transport.is_closing():
                return

    def handle_events(self) -> None:
        """Count and handle the frames of a chunk."""
        self._frame_count += len(self.conn.events)
        super().handle_events()

    def start_keepalive(self) -> None:
        """Resume reading: the handshake was accepted."""
        super().start_keepalive()
        self.transport.resume_reading()

    async def run_asgi(self) -> None:
        """Call the app; a handshake that it refused counts as complete."""
        app = self.app

        async def call(scope: AsgiScope, receive: Receive, send: Send) -> None:
            await app(scope, receive, send)
            self.handshake_complete |= self.close_sent

        self.app = call
        await super().run_asgi()

    def close_from_server(self, code: int, reason: str, *, fast: bool) -> None:
        """Close the socket without waiting for the client to read; `fast` shortens the drain timeout."""
        if self.close_sent or self.transport.is_closing():
            return
        writable = self.writable.is_set()
        with suppress(InvalidState):  # the client is closing it too
            self.conn.send_close(code, reason)
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self._mark_disconnected()
        if writable:
            self.read_paused = False
            self.transport.resume_reading()  # for the close frame of the client
            self.close_timer = self.loop.call_later(self.close_timeout, close_draining, self.transport, self.loop)
        else:
            close_draining(self.transport, self.loop, check_seconds=DRAIN_CHECK_SECONDS if fast else self.close_timeout)

    def shutdown(self) -> None:
        """Close the socket for a shutdown; the app responds to a handshake in progress."""
        if not self.handshake_complete:
            self.loop.call_later(DRAIN_CHECK_SECONDS, self.shutdown)
            return
        if not self.transport.is_closing():
            super().shutdown()
        self._disconnect()

    def keepalive_timeout(self) -> None:
        """Close the socket because the client did not respond to a ping."""
        super().keepalive_timeout()
        self._disconnect()

    def handle_parser_exception(self) -> None:
        """Close the socket because the client violated the protocol."""
        super().handle_parser_exception()
        self._disconnect()

    def handle_ping(self) -> None:
        """Send a pong; if the client does not read, stop reading from it until it does."""
        if self.writable.is_set() and not self.close_sent:
            super().handle_ping()
            return
        self.conn.data_to_send()
        if not self.close_sent and not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume writing and reading."""
        super().resume_writing()
        if self.handshake_complete and not self.read_paused:
            self.transport.resume_reading()

    def handle_cont(self, event: Frame) -> None:
        """Buffer a continuation frame; empty ones are dropped, because they would escape the size limit."""
        if event.data or event.fin:
            super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        """Pass a message to the app; close the socket if a text message is not UTF-8."""
        if not self.close_sent and self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                with suppress(InvalidState):  # the client is closing it too
                    self.conn.send_close(CloseCode.INVALID_DATA)
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    def _disconnect(self) -> None:
        self._mark_disconnected()
        close_draining(self.transport, self.loop)

    def _mark_disconnected(self) -> None:
        """Make pending and later sends of the app fail with a disconnect."""
        self.disconnected = True
        self.writable.set()


def handshake_key(scope: AsgiScope) -> bytes | None:
    """Return the `Sec-WebSocket-Key` if a request is a valid handshake."""
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name, []).append(value.strip())
    (key, *repeated) = headers.get(b"sec-websocket-key", [b""])
    valid = (
        scope["method"] == "GET"
        and scope["http_version"] == "1.1"
        and headers.get(b"sec-websocket-version") == [b"13"]
        and headers.get(b"content-length", [b"0"]) == [b"0"]
        and b"transfer-encoding" not in headers
    )
    return key if valid and not repeated and _HANDSHAKE_KEY.fullmatch(key) else None


def limit_message_size(scope: AsgiScope, *, max_bytes: int) -> None:
    """Limit the size of incoming messages, if the socket is a `WebSocketProtocol`."""
    protocol = _protocol_of(scope)
    if protocol is not None:
        protocol.conn.max_message_size = max_bytes


async def close_socket(scope: AsgiScope, send: Send, *, code: int, reason: str, fast: bool = False) -> None:
    """Close a socket; a `WebSocketProtocol` at once, even if the client reads nothing."""
    protocol = _protocol_of(scope)
    if protocol is not None:
        protocol.close_from_server(code, reason, fast=fast)
    else:
        await send({"type": "websocket.close", "code": code, "reason": reason})


def _protocol_of(scope: AsgiScope) -> WebSocketProtocol | None:
    protocol: Any = scope.get("state", {}).get(_PROTOCOL_KEY)
    return protocol if isinstance(protocol, WebSocketProtocol) else None
