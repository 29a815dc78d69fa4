"""One HTTP request over a connection to a checked address, with a bounded, decompressed body.

No cookies, credentials, proxies or environment variables are used. The certificate must match the host name. The size
limit applies to the decompressed body. Importing this module is slow: `WebClient` does it on first use.
"""

import asyncio
import ssl
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import httpcore2
from msgspec.structs import replace

from holdfast.domain.errors import Invalid, TooLarge, Unavailable
from holdfast.domain.web_url import IPAddress
from holdfast.tools.web.client import WebRequest, WebResponse

if TYPE_CHECKING:
    from holdfast.tools.web.client import Dial


CONNECT_TIMEOUT_SECONDS: Final = 10.0
"""Seconds to connect to one address."""
IDLE_TIMEOUT_SECONDS: Final = 20.0
"""Seconds without any byte received or sent."""
HTTP_TIMEOUTS: Final = {"connect": CONNECT_TIMEOUT_SECONDS, "read": IDLE_TIMEOUT_SECONDS, "write": IDLE_TIMEOUT_SECONDS}

_NETWORK_ERRORS: Final = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
    OSError,
)


class HttpTransport:
    """Sends requests to checked addresses."""

    def __init__(self, *, dial: "Dial | None" = None, tls: ssl.SSLContext | None = None) -> None:
        self._dial = dial or _dial
        self._tls = tls

    async def send(self, request: WebRequest, addresses: Sequence[IPAddress]) -> WebResponse:
        """Send a request to the first address that can be reached, and return the response."""
        url = httpcore2.URL(
            scheme=request.url.scheme, host=request.url.host, port=request.url.port, target=request.url.target
        )
        headers = {
            "Host": request.url.authority,
            "Accept-Encoding": ACCEPT_ENCODING,
            "Connection": "close",
            **request.headers,
        }
        if request.url.scheme == "https" and self._tls is None:
            self._tls = await asyncio.to_thread(httpcore2.default_ssl_context)
        try:
            async with (
                httpcore2.AsyncHTTPConnection(
                    origin=url.origin, ssl_context=self._tls, network_backend=_PinnedBackend(addresses, self._dial)
                ) as connection,
                connection.stream(
                    request.method,
                    url,
                    headers=list(headers.items()),
                    content=request.body,
                    extensions={"timeout": HTTP_TIMEOUTS},
                ) as response,
            ):
                return await _read_response(response, max_bytes=request.max_bytes)
        except _NETWORK_ERRORS as exc:
            timed_out = isinstance(exc, httpcore2.TimeoutException)
            reason = "it takes too long" if timed_out else str(exc).lower()[:200] or "the connection broke"
            raise Unavailable(f"`{request.url.host}` cannot be read: {reason}") from exc


async def _read_response(response: httpcore2.Response, *, max_bytes: int) -> WebResponse:
    headers: dict[str, str] = {}
    for name, value in response.headers:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("utf-8", "replace"))
    head = WebResponse(status=response.status, headers=headers)
    if head.is_redirect:
        return head
    body = BoundedDecompressor(headers.get("content-encoding", ""), max_bytes=max_bytes)
    async for chunk in response.aiter_stream():
        body.add(chunk)
    return replace(head, body=body.finish())


class _PinnedBackend(httpcore2.AsyncNetworkBackend):
    """Connects only to the checked addresses, whatever the host name resolves to by now."""

    def __init__(self, addresses: Sequence[IPAddress], dial: "Dial") -> None:
        self._addresses = addresses
        self._dial = dial

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  the name is httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address that accepts."""
        *others, last = self._addresses
        for address in others:
            try:
                return await self._dial(address, port)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._dial(last, port)


async def _dial(address: IPAddress, port: int) -> httpcore2.AsyncNetworkStream:
    return await httpcore2.AnyIOBackend().connect_tcp(str(address), port, timeout=CONNECT_TIMEOUT_SECONDS)


ACCEPT_ENCODING: Final = "gzip, deflate"


class BoundedDecompressor:
    """Collects a body of at most `max_bytes` bytes. `deflate` is accepted with and without its zlib header."""

    def __init__(self, encoding: str, *, max_bytes: int) -> None:
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise Invalid(f"the server sent `{self._encoding[:40]}`, which was not requested", field="url")
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._size = 0
        self._decompressor: zlib._Decompress | None = None

    def add(self, chunk: bytes) -> None:
        """Add a chunk of the raw body; raise `TooLarge` if the decompressed body is too large."""
        piece = self._inflate(chunk, max_bytes=self._max_bytes - self._size + 1)
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._max_bytes:
            raise TooLarge(f"it has more than {self._max_bytes} bytes", field="url")

    def finish(self) -> bytes:
        """Return the whole body; raise `Unavailable` if its end is missing."""
        if self._decompressor is not None and not self._decompressor.eof:
            raise Unavailable("the response is incomplete")
        return b"".join(self._pieces)

    def _inflate(self, chunk: bytes, *, max_bytes: int) -> bytes:
        if self._encoding in ("", "identity"):
            return chunk[:max_bytes]
        if self._decompressor is None and chunk:
            window = 16 + zlib.MAX_WBITS  # gzip
            if self._encoding == "deflate":
                window = zlib.MAX_WBITS if chunk[0] & 0x0F == zlib.DEFLATED else -zlib.MAX_WBITS
            self._decompressor = zlib.decompressobj(window)
        if self._decompressor is None or self._decompressor.eof:
            return b""  # only padding follows the end
        try:
            return self._decompressor.decompress(chunk, max_bytes)
        except zlib.error as exc:
            raise Unavailable(f"the response cannot be decompressed: {exc}") from exc
