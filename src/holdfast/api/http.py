"""How the server speaks HTTP: in the words of the API also where a request is none, and with a bound on its head."""

import asyncio
from http import HTTPStatus
from typing import Any, Final, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode

from holdfast.api.asgi import App, Receive, Scope, Send
from holdfast.api.errors import BadRequest, HeadersTooLarge, encoded, status_of
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

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        HeadWithBody(cycle, self.loop)
        super()._start_asgi_task(cycle, _may_break_off(app, cycle))

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request."""
        self._refuse(BadRequest("this is not a request of HTTP/1.1"))

    def _refuse(self, error: HoldfastError) -> None:
        status, body = HTTPStatus(status_of(error)), encoded(error)
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self.transport.close()


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


class Socket(WebSocketsSansIOProtocol):
    """A connection that asks to become a socket. What a client does wrong is no fault of ours, and leaves no error."""

    async def run_asgi(self) -> None:
        """Call the app; a handshake that it refused is answered too."""
        app = self.app

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            await app(scope, receive, send)
            self.handshake_complete |= self.close_sent

        self.app = call
        await super().run_asgi()

    def send_receive_event_to_app(self) -> None:
        """Hand over a message, unless it says that it is text and is not."""
        if self.curr_msg_data_type == "text" and not _is_text(b"".join(self.frames)):
            self.conn.send_close(CloseCode.INVALID_DATA)
            self.handle_parser_exception()
        else:
            super().send_receive_event_to_app()


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


def _may_break_off(app: Any, answer: RequestResponseCycle) -> Any:
    """Let a stream break off whose reader is too slow: the server would take that for a fault, and log an error."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)
        if answer.response_started and not answer.response_complete:
            answer.disconnected = True
            answer.transport.close()

    return call


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
