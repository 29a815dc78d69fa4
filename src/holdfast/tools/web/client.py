"""The web client: resolves a host once, checks its addresses (no SSRF), and connects only to a checked address."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec

from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.web_settings import PrivateHost
from holdfast.domain.web_url import IPAddress, WebUrl, check_web_port, is_public

if TYPE_CHECKING:
    import ssl

    import httpcore2

    from holdfast.tools.web.transport import HttpTransport

    Dial: TypeAlias = Callable[[IPAddress, int], Awaitable[httpcore2.AsyncNetworkStream]]
    """Opens a connection to an address and port."""


MAX_ADDRESSES_TRIED: Final = 4
"""Addresses of a host that are tried before it counts as down."""


class Resolver(Protocol):
    """Resolves host names."""

    async def addresses(self, host: str) -> Sequence[IPAddress]:
        """Return the addresses of a host, at least one; raise `Unavailable` if there is none."""


class SystemResolver:
    """`Resolver` of the operating system."""

    async def addresses(self, host: str) -> Sequence[IPAddress]:
        """Resolve a host with `getaddrinfo`."""
        try:
            results = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as exc:
            raise Unavailable(f"the host `{host}` does not exist, or the name server does not respond") from exc
        # A link-local address has a zone after a `%`.
        return list(dict.fromkeys(ip_address(str(address[0]).partition("%")[0]) for *_, address in results))


class GuardedResolver:
    """Resolves hosts to addresses that may be reached: public ones, and private hosts that the operator allows."""

    def __init__(self, resolver: Resolver, *, private: Collection[PrivateHost] = ()) -> None:
        self._resolver = resolver
        self._private = private

    async def resolve(self, url: WebUrl) -> Sequence[IPAddress]:
        """Return the addresses to connect to, or raise `Invalid` if the host may not be reached."""
        private_port = PrivateHost(host=url.host, port=url.port) in self._private
        if not private_port:
            check_web_port(url)
        addresses = await self._resolver.addresses(url.host) if url.address is None else [url.address]
        # One private address is enough to refuse the host: a name server that mixes them is hostile.
        if not private_port and PrivateHost(host=url.host) not in self._private and not all(map(is_public, addresses)):
            raise Invalid(f"`{url.host}` is not on the public internet: it is not fetched", field="url")
        return addresses[:MAX_ADDRESSES_TRIED]


class WebRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP request."""

    url: WebUrl
    headers: Mapping[str, str]
    max_bytes: int
    """Bytes of the decompressed response body."""
    method: str = "GET"
    body: bytes | None = None


class WebResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP response. The names of the headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def is_redirect(self) -> bool:
        """Whether it has another location."""
        return self.status in (301, 302, 303, 307, 308) and "location" in self.headers


class WebClient:
    """Sends requests, each on its own connection. The HTTP library is imported on first use."""

    def __init__(
        self, addresses: GuardedResolver, *, dial: "Dial | None" = None, tls: "ssl.SSLContext | None" = None
    ) -> None:
        self._addresses = addresses
        self._dial = dial
        self._tls = tls
        self._transport: HttpTransport | None = None

    async def request(self, request: WebRequest) -> WebResponse:
        """Return the response of the server; a redirect is not followed, and has no body.

        A host that may not be reached raises `Invalid`, one that cannot be, `Unavailable`; a response with too many
        bytes raises `TooLarge`.
        """
        addresses = await self._addresses.resolve(request.url)
        if self._transport is None:
            self._transport = await asyncio.to_thread(self._load_transport)
        return await self._transport.send(request, addresses)

    def _load_transport(self) -> "HttpTransport":
        from holdfast.tools.web.transport import HttpTransport

        return HttpTransport(dial=self._dial, tls=self._tls)
