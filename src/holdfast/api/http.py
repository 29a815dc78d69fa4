"""How the server speaks HTTP: in the words of the API also where a request is none, and with a bound on its head."""

from http import HTTPStatus
from typing import Any, Final

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
        timeout_graceful_shutdown=last_words,
    )
