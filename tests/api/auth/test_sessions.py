"""Browser sessions: the key as a cookie, which counts only for requests from pages of this server."""

from collections.abc import Mapping

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from holdfast.api.auth.sessions import SESSION_COOKIE
from holdfast.domain.content import Json
from tests.api.auth.conftest import ACME, AuthSite

EVIL = Origin("https://evil.example")


async def start_session(auth_site: AuthSite, key: str, **headers: str) -> str:
    """Start a session, and return the `Set-Cookie` header."""
    response = await auth_site.request(key, "POST", "/api/session", headers=headers)
    assert response.status_code == 200, response.text
    cookie: str = response.headers["set-cookie"]
    return cookie


async def status(auth_site: AuthSite, method: str, path: str, headers: Mapping[str, str]) -> int:
    """Return the status of a request without a key in its header."""
    content: dict[str, Json] = {"json": {}} if method == "POST" else {}
    response = await auth_site.request(None, method, path, headers=dict(headers), **content)
    auth_site.site.client.cookies.clear()
    return response.status_code


@pytest.fixture
async def cookie(auth_site: AuthSite, acme_key: str) -> str:
    """Return the `Cookie` header of a session."""
    found = await start_session(auth_site, acme_key)
    auth_site.site.client.cookies.clear()
    return found.partition(";")[0]


async def test_a_session_cookie_cannot_be_read_by_scripts_or_sent_from_other_sites(
    auth_site: AuthSite, acme_key: str
) -> None:
    plain = await start_session(auth_site, acme_key)
    assert plain.split("; ")[1:] == ["Path=/", "HttpOnly", "SameSite=Strict"]
    behind_tls = await start_session(auth_site, acme_key, Origin=f"https://{auth_site.site.host}")
    assert behind_tls.endswith("; SameSite=Strict; Secure")


async def test_a_session_needs_a_valid_key_and_has_its_access(auth_site: AuthSite, cookie: str) -> None:
    assert (await auth_site.request("hf_wrong", "POST", "/api/session")).status_code == 401
    headers = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
    me = (await auth_site.request(None, "GET", "/api/me", headers=headers)).json()
    assert (me["scope"], me["space_ids"], me["default_space"]) == ("run", [ACME], ACME)
    assert me["name"].startswith("key_")


async def test_a_page_of_this_server_can_read_and_write_with_the_cookie(auth_site: AuthSite, cookie: str) -> None:
    own = Origin(f"http://{auth_site.site.host}")
    read = {"Cookie": f"other=1; {cookie}", "Sec-Fetch-Site": "same-origin"}
    write = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin", "Origin": own}
    assert await status(auth_site, "GET", "/api/threads", read) == 200
    assert await status(auth_site, "POST", "/api/threads", write) == 201
    async with connect(f"ws://{auth_site.site.host}/ws", additional_headers={"Cookie": cookie}, origin=own, proxy=None):
        pass


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", {}),  # a program with a stolen cookie jar, or an old browser
        ("GET", {"Sec-Fetch-Site": "none"}),
        ("POST", {"Sec-Fetch-Site": "same-origin"}),  # a browser names the origin of every write
        ("POST", {}),
    ],
)
async def test_a_cookie_does_not_count_without_the_proof_of_a_same_origin_page(
    auth_site: AuthSite, cookie: str, method: str, headers: dict[str, str]
) -> None:
    assert await status(auth_site, method, "/api/threads", {"Cookie": cookie, **headers}) == 401


async def test_another_site_can_neither_read_nor_write_nor_connect(auth_site: AuthSite, cookie: str) -> None:
    headers = {"Cookie": cookie, "Origin": EVIL, "Sec-Fetch-Site": "cross-site"}
    assert await status(auth_site, "GET", "/api/threads", headers) == 403
    assert await status(auth_site, "POST", "/api/threads", headers) == 403
    with pytest.raises(InvalidStatus) as refused:
        async with connect(
            f"ws://{auth_site.site.host}/ws", additional_headers={"Cookie": cookie}, origin=EVIL, proxy=None
        ):
            pass
    assert refused.value.response.status_code == 403


async def test_a_socket_without_an_origin_is_not_opened_by_a_cookie(auth_site: AuthSite, cookie: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(f"ws://{auth_site.site.host}/ws", additional_headers={"Cookie": cookie}, proxy=None):
            pass
    assert refused.value.response.status_code == 401


async def test_ending_a_session_removes_the_cookie_and_needs_no_key(auth_site: AuthSite) -> None:
    response = await auth_site.request(None, "DELETE", "/api/session")
    assert response.status_code == 204
    assert response.headers["set-cookie"] == f"{SESSION_COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"


async def test_a_key_in_the_header_wins_over_the_cookie(auth_site: AuthSite, cookie: str, globex_key: str) -> None:
    headers = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
    response = await auth_site.request(globex_key, "GET", "/api/me", headers=headers)
    assert response.json()["default_space"] == "globex"


async def test_a_key_with_scope_read_may_follow_but_not_offer_methods(auth_site: AuthSite) -> None:
    key = auth_site.keys[f"{ACME} read"]
    headers = {"Authorization": f"Bearer {key}"}
    async with connect(f"ws://{auth_site.site.host}/ws", additional_headers=headers, proxy=None) as socket:
        await socket.send('{"type": "subscribe", "channel": "feed"}')
        assert '"subscribed"' in str(await socket.recv())
        await socket.send('{"type": "offer", "methods": []}')
        assert '"FORBIDDEN"' in str(await socket.recv())


@pytest.mark.parametrize(("space", "opens"), [(ACME, True), ("globex", False)])
async def test_a_socket_of_a_space_opens_only_with_a_key_of_it(auth_site: AuthSite, space: str, opens: bool) -> None:
    headers = {"Authorization": f"Bearer {auth_site.keys[f'{ACME} read']}"}
    url = f"ws://{auth_site.site.host}/api/spaces/{space}/ws"
    if opens:
        async with connect(url, additional_headers=headers, proxy=None) as socket:
            await socket.send('{"type": "subscribe", "channel": "feed"}')
            assert '"subscribed"' in str(await socket.recv())
    else:
        with pytest.raises(InvalidStatus) as refused:
            await connect(url, additional_headers=headers, proxy=None)
        assert refused.value.response.status_code == 404
