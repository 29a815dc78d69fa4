"""How the server speaks HTTP: in the words of the API also where a request is none, and with a bound on its head."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from holdfast.api.asgi import App, Message, Receive, Scope, Send
from holdfast.api.errors import BadRequest, HeadersTooLarge, encoded, status_of
from holdfast.api.socket import LINGER, Socket, drop, key_of
from holdfast.domain.errors import HoldfastError

MAX_HEAD: Final = 256 * 1024
"""Bytes of a head that has no end yet. One that ends is measured by the gate, which is stricter."""


class Http(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._in_head = False
        self._head = 0

    def data_received(self, data: bytes) -> None:
        """Read a piece, and refuse a head that goes on for too long."""
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > MAX_HEAD:
                self._refuse(HeadersTooLarge(f"the headers may have at most {MAX_HEAD} bytes", limit=MAX_HEAD))

    def on_message_begin(self) -> None:
        """Begin to read a head."""
        self._in_head, self._head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Have read it."""
        self._in_head = False
        super().on_headers_complete()
        if self.parser.should_upgrade():
            if self._should_upgrade():
                self._read_address()
            else:
                self.cycle.keep_alive = False  # the parser reads nothing that follows

    def _should_upgrade(self) -> bool:
        """Say whether this is a handshake; what is none, or comes while another answer is under way, is a request."""
        return self._answered() and super()._should_upgrade() and key_of(self.scope) is not None

    def _unsupported_upgrade_warning(self) -> None:
        """Leave no warning: it is answered as a request, and leaves the line of one."""

    def _read_address(self) -> None:
        address = httptools.parse_url(self.url)
        path, query = address.path, address.query or b""
        cast(dict[str, Any], self.scope).update(path=unquote(path.decode()), raw_path=path, query_string=query)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to a socket."""
        key = key_of(self.scope)
        assert key is not None
        self.connections.discard(self)
        socket = Socket(config=self.config, server_state=self.server_state, app_state=self.app_state)
        socket.connection_made(self.transport)
        self.transport.set_protocol(socket)
        socket.begin(self.scope, key)

    def shutdown(self) -> None:
        """Close it because the server stops, as soon as no answer is under way."""
        super().shutdown()
        if self.transport.is_closing():
            drop(self.transport, self.loop)
        else:
            self.loop.call_later(LINGER, self.shutdown)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        HeadWithBody(cycle, self.loop)
        if cycle.scope["http_version"] != "1.1":
            app = _unchunked(app, cycle)
        super()._start_asgi_task(cycle, _may_break_off(app, cycle, self._break_off))

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request."""
        self._refuse(BadRequest("this is not a request of HTTP/1.1"))

    def _refuse(self, error: HoldfastError) -> None:
        """Say what is wrong, unless that would stand in the midst of an answer, and close the connection."""
        if not self._answered() and (self.pipeline or self.cycle.response_started):
            self._break_off(self.cycle)
            return
        status, body = HTTPStatus(status_of(error)), encoded(error)
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        drop(self.transport, self.loop)

    def _break_off(self, answer: RequestResponseCycle) -> None:
        answer.transport.close()  # with the head of the answer, if that is not out yet
        drop(self.transport, self.loop)

    def _answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete


class HeadWithBody:
    """What an answer is written to at first: the head goes out with what follows at once, which is nearly always there.

    The server writes them one after the other, and a write costs more than most requests do otherwise. Once the head is
    out this steps aside: a stream to a thousand readers pays for each call in between.
    """

    def __init__(self, answer: RequestResponseCycle, loop: asyncio.AbstractEventLoop) -> None:
        """Put it in the place of the transport that `answer` has."""
        self._answer = answer
        self._transport = answer.transport
        self._loop = loop
        self._head = b""
        answer.transport = cast(asyncio.Transport, self)

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
        self._answer.transport = self._transport


def uvicorn_config(app: App, *, last_words: int) -> uvicorn.Config:
    """Return how the app is served; open answers have `last_words` seconds to end when it is to stop."""
    return uvicorn.Config(
        app,
        http=Http,
        ws=Socket,
        ws_per_message_deflate=False,  # it would cost each socket its own buffers, and each event its own bytes
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing here asks who a client is by its address
        timeout_graceful_shutdown=last_words,
    )


def _may_break_off(app: Any, answer: RequestResponseCycle, break_off: Callable[[RequestResponseCycle], None]) -> Any:
    """Let a stream break off whose reader is too slow: the server would take that for a fault, and log an error."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)
        if answer.response_started and not answer.response_complete:
            answer.disconnected = True
            break_off(answer)

    return call


def _unchunked(app: Any, answer: RequestResponseCycle) -> Any:
    """Send no chunks to a client of HTTP/1.0: an answer of unknown length ends with its connection."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        unknown = False

        async def send_plain(message: Message) -> None:
            nonlocal unknown
            if message["type"] == "http.response.start":
                unknown = all(name.lower() != b"content-length" for name, _ in message["headers"])
                answer.chunked_encoding = False if unknown else None
            elif unknown:
                answer.expected_content_length = len(message.get("body", b""))
            await send(message)

        await app(scope, receive, send_plain)

    return call
