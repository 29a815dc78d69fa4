"""How the server speaks HTTP: in the words of the API also where a request is none, and with a bound on its head."""

import asyncio
from http import HTTPStatus
from typing import Any, Final, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.api.asgi import App
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

    def connection_made(self, transport: Any) -> None:
        """Begin to speak."""
        super().connection_made(cast(asyncio.Transport, HeadWithBody(transport, self.loop)))

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

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request."""
        self._refuse(BadRequest("this is not a request of HTTP/1.1"))

    def _refuse(self, error: HoldfastError) -> None:
        status, body = HTTPStatus(status_of(error)), encoded(error)
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self.transport.close()


class HeadWithBody:
    """A transport that writes the head of an answer with what follows it at once, which is nearly always something.

    The server writes them one after the other, and each write costs more than most requests do otherwise.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes) -> None:
        """Write something, and before it a head that waits."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._write_head)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Close it, once all was written."""
        self._write_head()
        self._transport.close()

    def _write_head(self) -> None:
        if self._head:
            self.write(b"")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def uvicorn_config(app: App, *, last_words: int) -> uvicorn.Config:
    """Return how the app is served; open answers have `last_words` seconds to end when it is to stop."""
    return uvicorn.Config(
        app,
        http=Http,
        ws="websockets-sansio",
        ws_per_message_deflate=False,  # it would cost each socket its own buffers, and each event its own bytes
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing here asks who a client is by its address
        timeout_graceful_shutdown=last_words,
    )
