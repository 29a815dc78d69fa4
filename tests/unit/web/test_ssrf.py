"""No URL of a model or a page leads to a connection to this machine or its network."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Unavailable
from holdfast.domain.web_url import IPAddress, is_public
from holdfast.tools.builtin.web import web_fetch
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.tool import ToolResult
from holdfast.tools.web.fetch import MarkdownConverter
from tests.support.calls import a_call
from tests.support.web_server import StubWeb, WebPage, WebServer
from tests.unit.web.hostile_addresses import hostile_urls, rebinding

MIN_ATTACKS: Final = 500
MAX_PARALLEL_FETCHES: Final = 20


class CredulousWeb(StubWeb):
    """A web whose resolver accepts every notation of an address that the system accepts."""

    async def addresses(self, host: str) -> Sequence[IPAddress]:
        if "localhost" in host:
            return [ip_address("127.0.0.1"), ip_address("::1")]
        try:  # `127.1` and the like, without a name server
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except OSError:
            return await super().addresses(host)
        return [ip_address(str(where[0]).partition("%")[0]) for *_, where in found]


@pytest.fixture(scope="module")
async def canary() -> AsyncIterator[WebServer]:
    """Yield a server on loopback that must not be reached."""
    async with WebServer({"/": WebPage(body=b"the secret")}) as server:
        yield server


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[WebServer]:
    async with WebServer() as server:
        yield server


async def fetched(web: StubWeb, pages: MarkdownConverter, urls: Sequence[str]) -> list[ToolResult]:
    """Return the result for each URL."""
    tool, semaphore = with_standard_middleware(web_fetch(web.http(), pages)), asyncio.Semaphore(MAX_PARALLEL_FETCHES)

    async def fetch(url: str) -> ToolResult:
        async with semaphore:
            return await tool.run(a_call(), {"url": url})

    return await asyncio.gather(*map(fetch, urls))


def all_content(outcomes: Sequence[ToolResult]) -> str:
    """Return the content of all results."""
    return "\n".join(str(outcome.content) for outcome in outcomes)


async def test_no_encoded_redirected_or_rebound_address_reaches_loopback(
    canary: WebServer, site: WebServer, pages: MarkdownConverter
) -> None:
    direct = hostile_urls(canary.port)
    redirect_targets = [url for url in direct if not set("\r\n\x00") & set(url)]
    statuses = (301, 302, 303, 307, 308)
    site.pages = {
        f"/{number}": WebPage(status=statuses[number % 5], headers={"Location": url})
        for number, url in enumerate(redirect_targets)
    }
    site.pages["/again"] = WebPage(status=302, headers={"Location": "/again"})
    public = StubWeb({"example.com": site}).address("example.com")
    names = {name: [each.replace("%", public) for each in answers] for name, answers in rebinding()}
    web = CredulousWeb({"example.com": site}, answers=names)
    redirected = [f"http://example.com/{number}" for number in range(len(redirect_targets))]
    rebound = [f"http://{name}:{canary.port}/again" for name in names]

    outcomes = await fetched(web, pages, [*direct, *redirected, *rebound])

    assert len(outcomes) >= MIN_ATTACKS
    assert canary.connections == 0
    assert "the secret" not in all_content(outcomes)
    assert all(is_public(ip_address(address)) for address in web.dialed)
    assert all(outcome.failed for outcome in outcomes)
    assert len(site.requests) >= len(redirected)  # the redirects were followed up to the check


async def test_many_of_these_urls_reach_loopback_without_checks(canary: WebServer) -> None:
    web, reached = CredulousWeb({}), 0
    for url in hostile_urls(canary.port):
        host = url.partition("://")[2].rpartition(":")[0].strip("[]")
        with suppress(Unavailable, UnicodeError, ValueError):
            reached += any(address.is_loopback for address in await web.addresses(host))
    assert reached >= 100


PRIVATE: Final = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.255",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::10.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:a00:1::",
    "2002:808:808::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::a9fe:a9fe",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "2606:4700::5efe:10.0.0.1",
    "2606:4700::200:5efe:192.168.0.1",
]
PUBLIC: Final = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00:1450:4001::200e",
    "2001:4860:4860::8888",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(ip_address(address))


@given(st.ip_addresses())
def test_no_reserved_address_is_public(address: IPAddress) -> None:
    carried = address.version == 6 and (getattr(address, "ipv4_mapped", None) or "64:ff9b::" in str(address))
    if is_public(address) and not carried:
        assert address.is_global
        assert not (address.is_private or address.is_multicast or address.is_reserved or address.is_link_local)
