"""The web client: resolves a host once, checks its addresses (no SSRF), and connects only to a checked address."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
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
    """Connects to an address."""


MAX_ADDRESSES_TRIED: Final = 4
"""Addresses of a host that are connected to before it counts as down."""


class Resolver(Protocol):
    """Knows the addresses of hosts."""

    async def addresses(self, host: str) -> Sequence[IPAddress]:
        """Return the addresses of a name, at least one; raise `Unavailable` if there is none."""


class SystemResolver:
    """`Resolver` of the machine."""

    async def addresses(self, host: str) -> Sequence[IPAddress]:
        """Ask the system."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as exc:
            raise Unavailable(f"there is no host `{host}`, or nobody who knows it answers") from exc
        # An address within a network of this machine has a zone behind a `%`.
        return list(dict.fromkeys(ip_address(str(where[0]).partition("%")[0]) for *_, where in found))


class GuardedResolver:
    """Looks hosts up, and returns only what may be reached: public addresses, and hosts that the operator named."""

    def __init__(self, resolver: Resolver, *, private: Collection[PrivateHost] = ()) -> None:
        self._resolver = resolver
        self._private = private

    async def resolve(self, url: WebUrl) -> Sequence[IPAddress]:
        """Return the addresses to connect to, or raise `Invalid` if the host must not be reached."""
        if PrivateHost(host=url.host, port=url.port) in self._private:
            return (await self._look_up(url))[:MAX_ADDRESSES_TRIED]
        check_web_port(url)
        found = await self._look_up(url)
        if PrivateHost(host=url.host) not in self._private:
            _check_public(url, found)
        return found[:MAX_ADDRESSES_TRIED]

    async def _look_up(self, url: WebUrl) -> Sequence[IPAddress]:
        return await self._resolver.addresses(url.host) if url.address is None else [url.address]


def _check_public(url: WebUrl, addresses: Sequence[IPAddress]) -> None:
    # One that is not public is enough: whoever answers so wants something else than to be read.
    if not all(map(is_public, addresses)):
        raise Invalid(f"`{url.host}` is not on the public internet, and is not fetched from", field="url")


class WebRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a server."""

    url: WebUrl
    headers: Mapping[str, str]
    max_bytes: int
    """Bytes that the answer may have, once it is unpacked."""
    method: str = "GET"
    body: bytes | None = None


class WebResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What a server answered. The names of the headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def is_redirect(self) -> bool:
        """Whether it is somewhere else."""
        return self.status in (301, 302, 303, 307, 308) and "location" in self.headers


class WebClient:
    """Makes requests, each on a connection of its own. What that takes is loaded with the first of them."""

    def __init__(
        self, addresses: GuardedResolver, *, dial: "Dial | None" = None, tls: "ssl.SSLContext | None" = None
    ) -> None:
        self._addresses = addresses
        self._load = partial(_load_transport, dial, tls)
        self._transport: HttpTransport | None = None

    async def request(self, request: WebRequest) -> WebResponse:
        """Return what the server answers; a redirect is not followed, and has no body.

        A host that must not be reached raises `Invalid`, one that cannot be, `Unavailable`; an answer with too many
        bytes raises `TooLarge`.
        """
        addresses = await self._addresses.resolve(request.url)
        if self._transport is None:
            self._transport = await asyncio.to_thread(self._load)
        return await self._transport.send(request, addresses)


def _load_transport(dial: "Dial | None", tls: "ssl.SSLContext | None") -> "HttpTransport":
    from holdfast.tools.web.transport import HttpTransport

    return HttpTransport(dial=dial, tls=tls)
