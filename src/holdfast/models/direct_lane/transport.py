"""HTTP of the direct lane: one aiohttp session for all providers, opened at the first call.

A POST with a key is sent once: it is never repeated on another connection, and no redirect is followed. Proxies and CA
certificates come from the environment, as for the providers' own clients; cookies are not kept.
"""

import asyncio
import ssl
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

if TYPE_CHECKING:
    import aiohttp

CONNECT_TIMEOUT_SECONDS: Final = 5.0
KEEPALIVE_SECONDS: Final = 15.0
DRAIN_TIMEOUT_SECONDS: Final = 0.1
"""How long to wait for the end of a body after its last event, so that the connection can be used again."""
MAX_HEADER_BYTES: Final = 64 * 1024
MAX_ERROR_BODY_BYTES: Final = 1024 * 1024
"""What is read of an error response."""


def is_installed() -> bool:
    """Return whether the HTTP client of the lane is there."""
    return find_spec("aiohttp") is not None


def environment_proxy(url: str) -> str | None:
    """Return the proxy that the environment sets for a URL."""
    parts, proxies = urlsplit(url), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.hostname or "") or proxy_bypass(parts.netloc):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


class LaneTransport:
    """The connections of the lane. It belongs to one event loop."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | None = None

    def prepare(self, url: str) -> None:
        """Import the client, and read the CA certificates if the URL needs them: both block for a moment."""
        import aiohttp  # noqa: F401

        if url.startswith("https:") and self._tls is None:
            self._tls = httpx2.create_ssl_context()

    async def post(
        self, url: str, *, headers: dict[str, str], body: bytes, proxy: str | None, idle_seconds: float
    ) -> "aiohttp.ClientResponse":
        """Send a request and return its response, whose body has not been read yet.

        It fails if nothing arrives for `idle_seconds`, now or while the body is read.
        """
        import aiohttp
        from yarl import URL

        session = self._session or self._open()
        limits = aiohttp.ClientTimeout(
            total=None,
            connect=idle_seconds,  # name lookup and a proxy's CONNECT too, to which the others do not apply
            sock_connect=min(idle_seconds, CONNECT_TIMEOUT_SECONDS),
            sock_read=idle_seconds,
        )
        return await session.post(
            URL(url, encoded=True),
            headers=headers,
            data=body,
            proxy=proxy,
            timeout=limits,
            allow_redirects=False,
            ssl=True if self._tls is None else self._tls,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> "aiohttp.ClientSession":
        import aiohttp

        connector = aiohttp.TCPConnector(
            limit=0,  # the number of runs limits it
            keepalive_timeout=KEEPALIVE_SECONDS,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )
        return self._session


async def read_error_body(response: "aiohttp.ClientResponse") -> bytes:
    """Return the body of an error response, as far as it arrives."""
    body = b""
    with suppress(*transport_errors()):
        while len(body) < MAX_ERROR_BODY_BYTES and (packet := await response.content.readany()):
            body += packet
    return body[:MAX_ERROR_BODY_BYTES]


async def drain(response: "aiohttp.ClientResponse") -> None:
    """Read to the end of a body whose last event has arrived; a server that goes on is left."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_TIMEOUT_SECONDS):
            while not response.content.at_eof():
                await response.content.readany()


def transport_errors() -> tuple[type[Exception], ...]:
    """Return the errors of a connection; those of aiohttp are not all `OSError`."""
    import aiohttp

    return (aiohttp.ClientError, OSError, TimeoutError, asyncio.IncompleteReadError)


def is_timeout(error: Any) -> bool:
    """Return whether a connection failed because it was silent for too long."""
    return isinstance(error, TimeoutError)
