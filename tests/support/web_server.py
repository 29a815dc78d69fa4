"""A stub web on this machine: scripted servers, and host names that resolve to them.

    async with WebServer({"/": WebPage(body=b"hello")}) as site:
        web = StubWeb({"example.com": site})
        tool = web_fetch(web.http())

A name has a public address, and a connection to that address reaches its server. Any other address is connected to
as it is, so that a canary notices forbidden connections.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from itertools import count
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

import httpcore2
import msgspec

from holdfast.domain.errors import Unavailable
from holdfast.domain.web_settings import PrivateHost
from holdfast.domain.web_url import IPAddress
from holdfast.tools.web.client import GuardedResolver, WebClient

HTML: Final = MappingProxyType({"Content-Type": "text/html; charset=utf-8"})


class WebPage(msgspec.Struct, frozen=True, kw_only=True):
    """The response of a server at a path."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = HTML
    raw: bytes | None = None
    """Raw bytes sent instead of an HTTP response."""
    stalls: bool = False
    """Whether the response never ends."""


class ReceivedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request received by a server."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""


NOT_FOUND_PAGE: Final = WebPage(status=404, body=b"there is nothing")


class WebServer:
    """A server on loopback. It counts all connections, also those without a request."""

    def __init__(self, pages: Mapping[str, WebPage] | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self.pages = dict(pages or {})
        """Pages by path, with or without the query."""
        self.requests: Final[list[ReceivedRequest]] = []
        self.connections = 0
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[Any]] = set()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for talk in self._talks:
            talk.cancel()
        if self._talks:
            await asyncio.wait(self._talks)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        talk = asyncio.current_task()
        assert talk is not None
        self._talks.add(talk)
        try:
            await self._answer(await _read_request(reader), writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # the client disconnected, or does not speak HTTP
        except asyncio.CancelledError:
            pass  # the server closes
        finally:
            writer.transport.abort()
            self._talks.discard(talk)

    async def _answer(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        page = self.pages.get(request.target) or self.pages.get(request.target.partition("?")[0]) or NOT_FOUND_PAGE
        if page.raw is not None:
            writer.write(page.raw)
        else:
            headers = {"Content-Length": str(len(page.body)), "Connection": "close", **page.headers}
            head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"HTTP/1.1 {page.status} So\r\n{head}\r\n".encode("utf-8", "surrogateescape") + page.body)
        await writer.drain()
        if page.stalls:
            await asyncio.Event().wait()
        writer.close()
        await writer.wait_closed()


class StubWeb:
    """Host names with public addresses that connect to servers of this machine."""

    def __init__(
        self,
        sites: Mapping[str, WebServer],
        *,
        answers: Mapping[str, Sequence[str]] | None = None,
        down: Sequence[str] = (),
    ) -> None:
        """Resolve names to `sites`; a name in `answers` resolves to the next of its addresses at each lookup.

        Nobody can connect to addresses that are `down`.
        """
        numbers = count(1)
        self._addresses = {host: ip_address(f"93.184.216.{next(numbers)}") for host in sites}
        self._servers = {self._addresses[host]: site for host, site in sites.items()}
        self.answers = {host: deque(addresses) for host, addresses in (answers or {}).items()}
        """Addresses of names, several separated by spaces."""
        self._down = frozenset(map(ip_address, down))
        self.looked_up: Final[list[str]] = []
        self.dialed: Final[list[str]] = []

    def http(self, *, private: Sequence[PrivateHost] = (), tls: ssl.SSLContext | None = None) -> WebClient:
        """Return an HTTP client for this web."""
        return WebClient(GuardedResolver(self, private=private), dial=self.dial, tls=tls)

    def address(self, host: str) -> str:
        """Return the public address of a name."""
        return str(self._addresses[host])

    async def addresses(self, host: str) -> Sequence[IPAddress]:
        """Resolve a name: its address, or the next of its answers; the last one is repeated."""
        self.looked_up.append(host)
        answers = self.answers.get(host)
        if answers:
            addresses = answers.popleft() if len(answers) > 1 else answers[0]
            return [ip_address(each) for each in addresses.split()]
        if host not in self._addresses:
            raise Unavailable(f"the host `{host}` does not exist, or the name server does not respond")
        return [self._addresses[host]]

    async def dial(self, address: IPAddress, port: int) -> httpcore2.AsyncNetworkStream:
        """Connect to the server of an address, else to the address itself."""
        self.dialed.append(str(address))
        if address in self._down:
            raise httpcore2.ConnectError("nobody is there")
        site = self._servers.get(address)
        if site is not None:
            address, port = ip_address("127.0.0.1"), site.port
        return await httpcore2.AnyIOBackend().connect_tcp(str(address), port, timeout=10)


async def _read_request(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(method=method, target=target, headers=headers, body=body)
