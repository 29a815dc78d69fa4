"""Requests to the web: a host is looked up and checked, and the request is made of the address that was checked."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from holdfast.domain.web_url import IPAddress, WebUrl
from holdfast.tools.web.addresses import Addresses

if TYPE_CHECKING:
    import ssl

    import httpcore2

    from holdfast.tools.web.exchange import Exchange

    Dial: TypeAlias = Callable[[IPAddress, int], Awaitable[httpcore2.AsyncNetworkStream]]
    """Connects to an address."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a server."""

    url: WebUrl
    headers: Mapping[str, str]
    most: int
    """Bytes that the answer may have, once it is unpacked."""
    method: str = "GET"
    body: bytes | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a server answered. The names of the headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def redirects(self) -> bool:
        """Whether it is somewhere else."""
        return self.status in (301, 302, 303, 307, 308) and "location" in self.headers


class Http:
    """Makes requests, each on a connection of its own. What that takes is loaded with the first of them."""

    def __init__(
        self, addresses: Addresses, *, dial: "Dial | None" = None, tls: "ssl.SSLContext | None" = None
    ) -> None:
        self._addresses = addresses
        self._load = partial(_load, dial, tls)
        self._exchange: Exchange | None = None

    async def request(self, request: Request) -> Answer:
        """Return what the server answers; a redirect is not followed, and has no body.

        A host that must not be reached raises `Invalid`, one that cannot be, `Unavailable`; an answer with too many
        bytes raises `TooLarge`.
        """
        addresses = await self._addresses.of(request.url)
        if self._exchange is None:
            self._exchange = await asyncio.to_thread(self._load)
        return await self._exchange.make(request, addresses)


def _load(dial: "Dial | None", tls: "ssl.SSLContext | None") -> "Exchange":
    from holdfast.tools.web.exchange import Exchange

    return Exchange(dial=dial, tls=tls)
