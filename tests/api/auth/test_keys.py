"""Creating, listing and revoking API keys."""

from pathlib import Path

import pytest

from tests.api.auth.conftest import ACME, GLOBEX, AuthSite, check_status
from tests.api.conftest import write_agents
from tests.api.site import serve_with_auth
from tests.scenario.agents.agent_workspace import AgentWorkspace


async def test_keys_are_required_once_the_first_one_exists(
    tmp_path: Path,
) -> None:
    async with serve_with_auth(write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))) as site:
        await site.get("/api/threads")
        response = await site.request("GET", "/v1/models", headers={"Authorization": "Bearer none needed"})
        assert response.status_code == 200
        created = await site.post("/api/keys", {"name": "first", "scope": "admin", "every_space": True})
        refused = await site.request("GET", "/api/threads")
        assert check_status(refused, 401)["error"]["code"] == "UNAUTHENTICATED"
        assert refused.headers["www-authenticate"] == "Bearer"
        auth_site = AuthSite(site, created["secret"])
        await auth_site.get(auth_site.root, "/api/threads")
        check_status(await auth_site.request(auth_site.root, "DELETE", f"/api/keys/{created['id']}"), 200)
        assert (await auth_site.request(auth_site.root, "GET", "/api/threads")).status_code == 401
        await site.get("/api/threads", expect=401)  # keys stay required after the last one is revoked


async def test_a_server_can_require_keys_from_the_start(tmp_path: Path) -> None:
    workshop = write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    async with serve_with_auth(workshop, require_key=True) as site:
        await site.get("/api/threads", expect=401)


@pytest.mark.parametrize("path", ["/health", "/ready", "/openapi.json"])
async def test_public_routes_need_no_key(auth_site: AuthSite, path: str) -> None:
    assert (await auth_site.request(None, "GET", path)).status_code == 200


async def test_a_secret_is_shown_once_and_only_its_hash_is_stored(auth_site: AuthSite, tmp_path: Path) -> None:
    created = await auth_site.key("run", ACME, name="once")
    listed = await auth_site.get(auth_site.root, "/api/keys")
    (found,) = [key for key in listed["items"] if key["id"] == created["id"]]
    assert found == {name: value for name, value in created.items() if name != "secret"}
    secret = created["secret"].split("_", 2)[2].encode()  # which may contain `_` itself
    for file in auth_site.site.workshop.folder.parent.rglob("holdfast.db*"):
        assert secret not in file.read_bytes()


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Basic {secret}",
        "{secret}",
        "Bearer {secret}x",
        "Bearer x{secret}",
        "Bearer {half}",
        "Bearer hf_00000000000000000000000000000000_0000000000000000000000000000000000000000000",
        "Bearer hf_é_é",
        "Bearer eyJhbGciOiJub25lIn0.e30.",
    ],
)
async def test_an_invalid_key_is_refused(auth_site: AuthSite, acme_key: str, authorization: str) -> None:
    value = authorization.format(secret=acme_key, half=acme_key[:-1]).encode("latin-1")
    response = await auth_site.site.request("GET", "/api/threads", headers={b"Authorization": value})
    assert check_status(response, 401)["error"]["code"] == "UNAUTHENTICATED"


async def test_a_key_with_the_secret_of_another_is_refused(auth_site: AuthSite, acme_key: str, globex_key: str) -> None:
    mixed = acme_key[:36] + globex_key[36:]
    assert (await auth_site.request(mixed, "GET", "/api/threads")).status_code == 401


async def test_two_keys_at_once_are_refused(auth_site: AuthSite, acme_key: str, globex_key: str) -> None:
    headers = [("Authorization", f"Bearer {acme_key}"), ("Authorization", f"Bearer {globex_key}")]
    response = await auth_site.site.client.get("/api/threads", headers=headers)
    assert check_status(response, 400)["error"]["code"] == "HEADER_REPEATED"


async def test_an_admin_creates_keys_for_its_own_spaces_only(auth_site: AuthSite, globex_key: str) -> None:
    created = await auth_site.key("admin", created_with=globex_key)
    assert created["space_ids"] == [GLOBEX]
    assert created["created_by"].startswith("key_")
    for body, status, code in [
        ({"name": "x", "space_ids": [ACME]}, 404, "NOT_FOUND"),
        ({"name": "x", "space_ids": [GLOBEX, ACME]}, 404, "NOT_FOUND"),
        ({"name": "x", "space_ids": ["missing"]}, 404, "NOT_FOUND"),
        ({"name": "x", "every_space": True}, 403, "FORBIDDEN"),
        ({"name": "x", "every_space": True, "space_ids": [GLOBEX]}, 403, "FORBIDDEN"),
        ({"name": ""}, 400, "INVALID"),
        ({"name": "x", "rate_limit": "often"}, 400, "INVALID"),
        ({"name": "x", "expires_at": "2020-01-01T00:00:00.000Z"}, 400, "INVALID"),
        ({"name": "x", "expires_at": "soon"}, 400, "INVALID"),
        ({"name": "x", "scope": "root"}, 400, "INVALID"),
        ({"name": "x", "secret": "mine"}, 400, "INVALID"),
    ]:
        response = await auth_site.request(globex_key, "POST", "/api/keys", json=body)
        assert check_status(response, status)["error"]["code"] == code, body


async def test_an_admin_sees_and_revokes_only_keys_of_its_own_spaces(auth_site: AuthSite, globex_key: str) -> None:
    own, both = await auth_site.key("read", GLOBEX), await auth_site.key("read", GLOBEX, ACME)
    foreign = await auth_site.key("read", ACME)
    seen = {key["id"] for key in (await auth_site.get(globex_key, "/api/keys"))["items"]}
    assert own["id"] in seen
    assert not seen & {both["id"], foreign["id"]}
    for hidden in (both["id"], foreign["id"], "key_missing"):
        response = await auth_site.request(globex_key, "DELETE", f"/api/keys/{hidden}")
        assert check_status(response, 404)["error"]["message"] == f"there is no key `{hidden}`"
    revoked = check_status(await auth_site.request(globex_key, "DELETE", f"/api/keys/{own['id']}"), 200)
    assert revoked["revoked_at"] is not None
    assert check_status(await auth_site.request(globex_key, "DELETE", f"/api/keys/{own['id']}"), 200) == revoked
    await auth_site.get(both["secret"], "/api/threads")


async def test_a_key_of_a_deleted_space_is_revoked_and_hidden_from_other_admins(
    auth_site: AuthSite, globex_key: str
) -> None:
    await auth_site.post(auth_site.root, "/api/spaces", {"id": "closed"})
    key = await auth_site.key("read", "closed")
    check_status(await auth_site.request(auth_site.root, "DELETE", "/api/spaces/closed"), 204)
    check_status(await auth_site.request(key["secret"], "GET", "/api/threads"), 401)
    check_status(await auth_site.request(globex_key, "DELETE", f"/api/keys/{key['id']}"), 404)
    assert key["id"] not in {each["id"] for each in (await auth_site.get(globex_key, "/api/keys"))["items"]}
    (listed,) = [
        each for each in (await auth_site.get(auth_site.root, "/api/keys"))["items"] if each["id"] == key["id"]
    ]
    assert listed["revoked_at"] is not None


async def test_a_key_of_several_spaces_is_valid_in_each(auth_site: AuthSite) -> None:
    both = (await auth_site.key("read", GLOBEX, ACME))["secret"]
    for space in (ACME, GLOBEX):
        await auth_site.get(both, f"/api/spaces/{space}/threads")
    spaces = await auth_site.get(both, "/api/spaces?limit=1")
    assert [space["id"] for space in spaces["items"]] == [ACME]
    rest = await auth_site.get(both, f"/api/spaces?limit=1&cursor={spaces['next_cursor']}")
    assert ([space["id"] for space in rest["items"]], rest["next_cursor"]) == ([GLOBEX], None)
    assert (await auth_site.request(both, "GET", "/api/spaces?cursor=elsewhere")).status_code == 400
    assert (await auth_site.request(both, "GET", "/api/threads/nowhere")).status_code == 404
