"""Keys: made, listed and revoked by those who have as much themselves."""

from pathlib import Path

import pytest

from tests.api.auth.conftest import OURS, THEIRS, House, checked
from tests.api.conftest import fill
from tests.api.site import guarded
from tests.scenario.agents.agent_workspace import AgentWorkspace


async def test_without_any_key_everybody_on_this_machine_may_come_in_and_with_the_first_nobody_without(
    tmp_path: Path,
) -> None:
    async with guarded(fill(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))) as site:
        await site.get("/api/threads")
        answer = await site.ask("GET", "/v1/models", headers={"Authorization": "Bearer none needed"})
        assert answer.status_code == 200
        made = await site.post("/api/keys", {"name": "first", "scope": "admin", "every_space": True})
        refused = await site.ask("GET", "/api/threads")
        assert checked(refused, 401)["error"]["code"] == "UNAUTHENTICATED"
        assert refused.headers["www-authenticate"] == "Bearer"
        house = House(site, made["secret"])
        await house.get(house.root, "/api/threads")
        checked(await house.ask(house.root, "DELETE", f"/api/keys/{made['id']}"), 200)
        assert (await house.ask(house.root, "GET", "/api/threads")).status_code == 401
        await site.get("/api/threads", expect=401)  # the last key does not open the door when it goes


async def test_where_others_can_come_everybody_needs_a_key_from_the_start(tmp_path: Path) -> None:
    workshop = fill(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    async with guarded(workshop, require_key=True) as site:
        await site.get("/api/threads", expect=401)


@pytest.mark.parametrize("path", ["/health", "/ready", "/openapi.json"])
async def test_what_shows_nothing_of_any_space_needs_no_key(house: House, path: str) -> None:
    assert (await house.ask(None, "GET", path)).status_code == 200


async def test_a_secret_is_shown_once_and_only_its_hash_is_kept(house: House, tmp_path: Path) -> None:
    made = await house.key("run", OURS, name="once")
    listed = await house.get(house.root, "/api/keys")
    (found,) = [key for key in listed["items"] if key["id"] == made["id"]]
    assert found == {name: value for name, value in made.items() if name != "secret"}
    secret = made["secret"].rpartition("_")[2].encode()
    for file in house.site.workshop.folder.parent.rglob("holdfast.db*"):
        assert secret not in file.read_bytes()


@pytest.mark.parametrize(
    "sent",
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
async def test_what_is_no_key_opens_nothing(house: House, ours: str, sent: str) -> None:
    value = sent.format(secret=ours, half=ours[:-1]).encode("latin-1")
    answer = await house.site.ask("GET", "/api/threads", headers={b"Authorization": value})
    assert checked(answer, 401)["error"]["code"] == "UNAUTHENTICATED"


async def test_one_key_does_not_open_with_the_secret_of_another(house: House, ours: str, theirs: str) -> None:
    mixed = ours[:36] + theirs[36:]
    assert (await house.ask(mixed, "GET", "/api/threads")).status_code == 401


async def test_two_keys_at_once_are_refused(house: House, ours: str, theirs: str) -> None:
    headers = [("Authorization", f"Bearer {ours}"), ("Authorization", f"Bearer {theirs}")]
    answer = await house.site.client.get("/api/threads", headers=headers)
    assert checked(answer, 400)["error"]["code"] == "HEADER_REPEATED"


async def test_an_admin_makes_keys_for_its_own_spaces_and_no_others(house: House, theirs: str) -> None:
    made = await house.key("admin", by=theirs)
    assert made["space_ids"] == [THEIRS]
    assert made["created_by"].startswith("key_")
    for body, status, code in [
        ({"name": "x", "space_ids": [OURS]}, 404, "NOT_FOUND"),
        ({"name": "x", "space_ids": [THEIRS, OURS]}, 404, "NOT_FOUND"),
        ({"name": "x", "space_ids": ["missing"]}, 404, "NOT_FOUND"),
        ({"name": "x", "every_space": True}, 403, "FORBIDDEN"),
        ({"name": "x", "every_space": True, "space_ids": [THEIRS]}, 403, "FORBIDDEN"),
        ({"name": ""}, 400, "INVALID"),
        ({"name": "x", "rate_limit": "often"}, 400, "INVALID"),
        ({"name": "x", "expires_at": "2020-01-01T00:00:00.000Z"}, 400, "INVALID"),
        ({"name": "x", "expires_at": "soon"}, 400, "INVALID"),
        ({"name": "x", "scope": "root"}, 400, "INVALID"),
        ({"name": "x", "secret": "mine"}, 400, "INVALID"),
    ]:
        answer = await house.ask(theirs, "POST", "/api/keys", json=body)
        assert checked(answer, status)["error"]["code"] == code, body


async def test_an_admin_sees_and_revokes_only_keys_that_open_nothing_else(house: House, theirs: str) -> None:
    own, both = await house.key("read", THEIRS), await house.key("read", THEIRS, OURS)
    foreign = await house.key("read", OURS)
    seen = {key["id"] for key in (await house.get(theirs, "/api/keys"))["items"]}
    assert own["id"] in seen
    assert not seen & {both["id"], foreign["id"]}
    for hidden in (both["id"], foreign["id"], "key_missing"):
        answer = await house.ask(theirs, "DELETE", f"/api/keys/{hidden}")
        assert checked(answer, 404)["error"]["message"] == f"there is no key `{hidden}`"
    revoked = checked(await house.ask(theirs, "DELETE", f"/api/keys/{own['id']}"), 200)
    assert revoked["revoked_at"] is not None
    assert checked(await house.ask(theirs, "DELETE", f"/api/keys/{own['id']}"), 200) == revoked
    await house.get(both["secret"], "/api/threads")


async def test_a_key_of_many_spaces_opens_each_of_them(house: House) -> None:
    both = (await house.key("read", THEIRS, OURS))["secret"]
    for space in (OURS, THEIRS):
        await house.get(both, f"/api/spaces/{space}/threads")
    spaces = await house.get(both, "/api/spaces?limit=1")
    assert [space["id"] for space in spaces["items"]] == [OURS]
    rest = await house.get(both, f"/api/spaces?limit=1&cursor={spaces['next_cursor']}")
    assert ([space["id"] for space in rest["items"]], rest["next_cursor"]) == ([THEIRS], None)
    assert (await house.ask(both, "GET", "/api/spaces?cursor=elsewhere")).status_code == 400
    assert (await house.ask(both, "GET", "/api/threads/nowhere")).status_code == 404
