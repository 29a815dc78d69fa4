"""Under which names a server is reached that others can reach."""

import httpx2
import pytest

from holdfast.api.asgi import AsgiScope, Receive, Send
from holdfast.api.middleware import LOOPBACK_HOSTS, HostOriginMiddleware
from holdfast.bootstrap.server_options import check_host_name, is_local
from holdfast.domain.errors import Invalid
from tests.api.site import TIMEOUT_SECONDS, serve_app

PASS = ["192.168.1.5", "10.0.0.1:5050", "[fd00::1]:5050", "localhost", "bakery.local:80", "BAKERY.local"]
REFUSED = ["evil.example", "192.168.1.5.nip.io", "bakery.local.evil.example", "[fd00::1", ""]


async def test_every_address_of_the_machine_is_accepted_and_no_name_but_those_that_were_given() -> None:
    gate = HostOriginMiddleware(_answer, hosts=LOOPBACK_HOSTS | {check_host_name("Bakery.local")}, allow_ip_hosts=True)
    async with (
        serve_app(gate) as url,
        httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_SECONDS, trust_env=False) as client,
    ):
        found = [(await client.get("/", headers={"Host": host})).status_code for host in [*PASS, *REFUSED]]
    assert found == [200] * len(PASS) + [403] * len(REFUSED)


async def test_a_server_on_one_address_is_not_reached_under_another() -> None:
    async with (
        serve_app(HostOriginMiddleware(_answer)) as url,
        httpx2.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        assert (await client.get("/", headers={"Host": "192.168.1.5"})).status_code == 403


@pytest.mark.parametrize("name", ["", "http://x", "x/y", "x:80", "-x", "a..b", "é.example", "a b"])
def test_what_is_no_name_of_a_host_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="is not a valid host name"):
        check_host_name(name)


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_only_loopback_is_for_this_machine_alone(host: str, local: bool) -> None:
    assert is_local(host) is local


async def _answer(scope: AsgiScope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})
