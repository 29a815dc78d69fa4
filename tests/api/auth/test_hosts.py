"""Host names that a server on a network accepts."""

import httpx2
import pytest

from holdfast.api.asgi import AsgiScope, Receive, Send
from holdfast.api.middleware import LOOPBACK_HOSTS, HostOriginMiddleware
from holdfast.bootstrap.server_options import check_host_name, is_local
from holdfast.domain.errors import Invalid
from tests.api.site import TIMEOUT_SECONDS, serve_app

ACCEPTED = ["192.168.1.5", "10.0.0.1:5050", "[fd00::1]:5050", "localhost", "bakery.local:80", "BAKERY.local"]
REFUSED = ["evil.example", "192.168.1.5.nip.io", "bakery.local.evil.example", "[fd00::1", ""]


async def test_ip_addresses_and_configured_names_are_accepted_as_host() -> None:
    middleware = HostOriginMiddleware(
        _app, hosts=LOOPBACK_HOSTS | {check_host_name("Bakery.local")}, allow_ip_hosts=True
    )
    async with (
        serve_app(middleware) as url,
        httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_SECONDS, trust_env=False) as client,
    ):
        statuses = [(await client.get("/", headers={"Host": host})).status_code for host in [*ACCEPTED, *REFUSED]]
    assert statuses == [200] * len(ACCEPTED) + [403] * len(REFUSED)


async def test_an_ip_host_is_refused_by_default() -> None:
    async with (
        serve_app(HostOriginMiddleware(_app)) as url,
        httpx2.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        assert (await client.get("/", headers={"Host": "192.168.1.5"})).status_code == 403


@pytest.mark.parametrize("name", ["", "http://x", "x/y", "x:80", "-x", "a..b", "é.example", "a b"])
def test_an_invalid_host_name_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="is not a valid host name"):
        check_host_name(name)


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_only_loopback_addresses_are_local(host: str, local: bool) -> None:
    assert is_local(host) is local


async def _app(scope: AsgiScope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})
