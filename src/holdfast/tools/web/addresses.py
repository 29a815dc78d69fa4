"""Where a request may go: a host is looked up once, and what was checked is what is connected to."""

import asyncio
import socket
from collections.abc import Collection, Sequence
from ipaddress import ip_address
from typing import Final, Protocol

from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.web_settings import PrivateHost
from holdfast.domain.web_url import IPAddress, WebUrl, check_web_port, is_public

MOST_TRIED: Final = 4
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


class Addresses:
    """Looks hosts up, and returns only what may be reached: public addresses, and hosts that the operator named."""

    def __init__(self, resolver: Resolver, *, private: Collection[PrivateHost] = ()) -> None:
        self._resolver = resolver
        self._private = private

    async def of(self, url: WebUrl) -> Sequence[IPAddress]:
        """Return the addresses to connect to, or raise `Invalid` if the host must not be reached."""
        if PrivateHost(host=url.host, port=url.port) in self._private:
            return (await self._look_up(url))[:MOST_TRIED]
        check_web_port(url)
        found = await self._look_up(url)
        if PrivateHost(host=url.host) not in self._private:
            _check_public(url, found)
        return found[:MOST_TRIED]

    async def _look_up(self, url: WebUrl) -> Sequence[IPAddress]:
        return await self._resolver.addresses(url.host) if url.address is None else [url.address]


def _check_public(url: WebUrl, addresses: Sequence[IPAddress]) -> None:
    # One that is not public is enough: whoever answers so wants something else than to be read.
    if not all(map(is_public, addresses)):
        raise Invalid(f"`{url.host}` is not on the public internet, and is not fetched from", field="url")
