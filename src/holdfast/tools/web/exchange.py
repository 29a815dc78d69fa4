"""One request and its answer, over a connection to an address that was checked.

There are no cookies, no credentials, no proxies and nothing of the environment: only what is written here is sent. The
name of the host is still what the certificate must be for. To load this module takes a while: `Http` does it.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import httpcore2
from msgspec.structs import replace

from holdfast.domain.errors import Unavailable
from holdfast.domain.web_url import IPAddress, WebUrl
from holdfast.tools.web.decompression import ACCEPTED, Decompression
from holdfast.tools.web.http import Answer, Request

if TYPE_CHECKING:
    from holdfast.tools.web.http import Dial

CONNECT: Final = 10.0
"""Seconds for one address."""
SILENCE: Final = 20.0
"""Seconds without a byte."""
TIMEOUT: Final = {"connect": CONNECT, "read": SILENCE, "write": SILENCE}

_FAULTS: Final = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
    OSError,
)


class Exchange:
    """Makes requests of addresses."""

    def __init__(self, *, dial: "Dial | None" = None, tls: ssl.SSLContext | None = None) -> None:
        self._dial = dial or _dial
        self._tls = tls

    async def make(self, request: Request, addresses: Sequence[IPAddress]) -> Answer:
        """Return what the server at the first address that can be reached answers."""
        if request.url.scheme == "https" and self._tls is None:
            self._tls = await asyncio.to_thread(httpcore2.default_ssl_context)
        try:
            async with self._answered(request, addresses) as response:
                answer = Answer(status=response.status, headers=_headers(response.headers))
                return answer if answer.redirects else replace(answer, body=await _body(response, answer, request.most))
        except _FAULTS as exc:
            raise Unavailable(f"`{request.url.host}` cannot be read from: {_reason(exc)}") from exc

    @asynccontextmanager
    async def _answered(self, request: Request, addresses: Sequence[IPAddress]) -> AsyncIterator[httpcore2.Response]:
        there = _there(request.url)
        sent = {
            "Host": request.url.authority,
            "Accept-Encoding": ACCEPTED,
            "Connection": "close",
            **request.headers,
        }
        async with (
            httpcore2.AsyncHTTPConnection(
                origin=there.origin, ssl_context=self._tls, network_backend=_Checked(addresses, self._dial)
            ) as connection,
            connection.stream(
                request.method, there, headers=list(sent.items()), content=request.body, extensions={"timeout": TIMEOUT}
            ) as response,
        ):
            yield response


class _Checked(httpcore2.AsyncNetworkBackend):
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
    return await httpcore2.AnyIOBackend().connect_tcp(str(address), port, timeout=CONNECT)


def _there(url: WebUrl) -> httpcore2.URL:
    return httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)


async def _body(response: httpcore2.Response, answer: Answer, most: int) -> bytes:
    content = Decompression(answer.headers.get("content-encoding", ""), most=most)
    async for chunk in response.aiter_stream():
        content.add(chunk)
    return content.whole()


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers as text; of one that comes twice the first counts."""
    found: dict[str, str] = {}
    for name, value in raw:
        found.setdefault(name.decode("latin-1").lower(), value.decode("utf-8", "replace"))
    return found


def _reason(fault: Exception) -> str:
    if isinstance(fault, httpcore2.TimeoutException):
        return "it takes too long"
    return str(fault).lower()[:200] or "the connection broke"
