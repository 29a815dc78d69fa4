"""One HTTP request over a connection to a checked address, with a bounded, decompressed body.

No cookies, credentials, proxies or environment: only what is written here is sent. The certificate must still match
the host name. The size limit holds for the decompressed body. Importing this module is slow: `WebClient` does it on
first use.
"""

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import httpcore2
from msgspec.structs import replace

from holdfast.domain.errors import Invalid, TooLarge, Unavailable
from holdfast.domain.web_url import IPAddress, WebUrl
from holdfast.tools.web.client import WebRequest, WebResponse

if TYPE_CHECKING:
    from holdfast.tools.web.client import Dial


CONNECT_TIMEOUT_SECONDS: Final = 10.0
"""Seconds for one address."""
IDLE_TIMEOUT_SECONDS: Final = 20.0
"""Seconds without a byte."""
HTTP_TIMEOUTS: Final = {"connect": CONNECT_TIMEOUT_SECONDS, "read": IDLE_TIMEOUT_SECONDS, "write": IDLE_TIMEOUT_SECONDS}

_NETWORK_ERRORS: Final = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
    OSError,
)


class HttpTransport:
    """Makes requests of addresses."""

    def __init__(self, *, dial: "Dial | None" = None, tls: ssl.SSLContext | None = None) -> None:
        self._dial = dial or _dial
        self._tls = tls

    async def send(self, request: WebRequest, addresses: Sequence[IPAddress]) -> WebResponse:
        """Return what the server at the first address that can be reached answers."""
        if request.url.scheme == "https" and self._tls is None:
            self._tls = await asyncio.to_thread(httpcore2.default_ssl_context)
        try:
            async with self._open_response(request, addresses) as response:
                answer = WebResponse(status=response.status, headers=_decode_headers(response.headers))
                return (
                    answer
                    if answer.is_redirect
                    else replace(answer, body=await _read_body(response, answer, request.max_bytes))
                )
        except _NETWORK_ERRORS as exc:
            raise Unavailable(f"`{request.url.host}` cannot be read from: {_error_reason(exc)}") from exc

    @asynccontextmanager
    async def _open_response(
        self, request: WebRequest, addresses: Sequence[IPAddress]
    ) -> AsyncIterator[httpcore2.Response]:
        there = _target_url(request.url)
        sent = {
            "Host": request.url.authority,
            "Accept-Encoding": ACCEPT_ENCODING,
            "Connection": "close",
            **request.headers,
        }
        async with (
            httpcore2.AsyncHTTPConnection(
                origin=there.origin, ssl_context=self._tls, network_backend=_PinnedBackend(addresses, self._dial)
            ) as connection,
            connection.stream(
                request.method,
                there,
                headers=list(sent.items()),
                content=request.body,
                extensions={"timeout": HTTP_TIMEOUTS},
            ) as response,
        ):
            yield response


class _PinnedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to addresses that were checked, whatever the name of the host may stand for by now."""

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
        """Connect to the first address that answers."""
        *others, last = self._addresses
        for address in others:
            try:
                return await self._dial(address, port)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._dial(last, port)


async def _dial(address: IPAddress, port: int) -> httpcore2.AsyncNetworkStream:
    return await httpcore2.AnyIOBackend().connect_tcp(str(address), port, timeout=CONNECT_TIMEOUT_SECONDS)


def _target_url(url: WebUrl) -> httpcore2.URL:
    return httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)


async def _read_body(response: httpcore2.Response, answer: WebResponse, max_bytes: int) -> bytes:
    content = BoundedDecompressor(answer.headers.get("content-encoding", ""), max_bytes=max_bytes)
    async for chunk in response.aiter_stream():
        content.add(chunk)
    return content.finish()


def _decode_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers as text; of one that comes twice the first counts."""
    found: dict[str, str] = {}
    for name, value in raw:
        found.setdefault(name.decode("latin-1").lower(), value.decode("utf-8", "replace"))
    return found


def _error_reason(fault: Exception) -> str:
    if isinstance(fault, httpcore2.TimeoutException):
        return "it takes too long"
    return str(fault).lower()[:200] or "the connection broke"


ACCEPT_ENCODING: Final = "gzip, deflate"

_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS


class BoundedDecompressor:
    """Gathers a body of at most `most` bytes."""

    def __init__(self, encoding: str, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._size = 0
        self._inflater = _Inflater(encoding.strip().lower())

    def add(self, chunk: bytes) -> None:
        """Take in what came; raise `TooLarge` if it is too much."""
        for piece in self._inflater.inflate(chunk, max_bytes=self._max_bytes - self._size + 1):
            self._pieces.append(piece)
            self._size += len(piece)
            if self._size > self._max_bytes:
                raise TooLarge(f"it has more than {self._max_bytes} bytes", field="url")

    def finish(self) -> bytes:
        """Return all of it; raise `Unavailable` if the end is missing."""
        if not self._inflater.complete:
            raise Unavailable("what the server sent ends in the middle")
        return b"".join(self._pieces)


class _Inflater:
    """Undoes one encoding. `deflate` is sent with and without the header that it should have."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise Invalid(f"the server sends `{encoding[:40]}`, which it was not asked for", field="url")
        self._encoding = encoding
        self._decompressor: zlib._Decompress | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing is missing at the end."""
        return self._decompressor is None or self._decompressor.eof

    def inflate(self, chunk: bytes, *, max_bytes: int) -> Iterator[bytes]:
        """Yield what a piece stands for, no more than `most` bytes of it."""
        if self._encoding in ("", "identity"):
            yield chunk[:max_bytes]
            return
        if self._decompressor is None and chunk:
            self._decompressor = zlib.decompressobj(self._window(chunk))
        if self._decompressor is None or self._decompressor.eof:
            return  # after the end there is only padding
        try:
            yield self._decompressor.decompress(chunk, max_bytes)
        except zlib.error as exc:
            raise Unavailable(f"what the server sent cannot be unpacked: {exc}") from exc

    def _window(self, chunk: bytes) -> int:
        if self._encoding != "deflate":
            return _GZIP_WINDOW
        return zlib.MAX_WBITS if chunk[0] & 0x0F == zlib.DEFLATED else -zlib.MAX_WBITS
