"""Files and grants of one key's space cannot be reached with the key of another."""

from tests.api.auth.conftest import AuthSite, check_status
from tests.api.site import eventually


async def test_a_key_reads_no_file_and_uses_no_grant_of_another_space(auth_site: AuthSite) -> None:
    for space in ("pastry", "bread"):
        await auth_site.post(auth_site.root, "/api/spaces", {"id": space})
    pastry_key, bread_key = [(await auth_site.key("admin", space))["secret"] for space in ("pastry", "bread")]
    thread = (await auth_site.post(pastry_key, "/api/threads", {"agent_type": "noter"}))["id"]
    run = await auth_site.post(pastry_key, f"/api/threads/{thread}/runs?wait=30", {"input": "write"})
    answer = {"response": {"decision": "always"}}
    interrupt = await auth_site.post(pastry_key, f"/api/runs/{run['id']}/respond", answer, expect=200)

    async def written() -> bool:
        return bool((await auth_site.get(pastry_key, f"/api/runs/{run['id']}"))["status"] == "completed")

    await eventually(written)
    (grant,) = (await auth_site.get(pastry_key, "/api/grants"))["items"]
    assert grant["created_by"] == interrupt["answered_by"]
    assert (await auth_site.get(bread_key, "/api/grants"))["items"] == []
    for path in ("/api/grants", "/api/spaces/pastry/grants"):
        check_status(await auth_site.request(bread_key, "DELETE", f"{path}/{grant['id']}"), 404)
    for agent, expected in (("looker", "completed"), ("noter", "waiting")):
        thread = (await auth_site.post(bread_key, "/api/threads", {"agent_type": agent}))["id"]
        other = await auth_site.post(bread_key, f"/api/threads/{thread}/runs?wait=30", {"input": "look"})
        assert other["status"] == expected
        assert "recipe" not in str(other["output"])
    reader, admin = [(await auth_site.key(scope, "pastry"))["secret"] for scope in ("run", "admin")]
    check_status(await auth_site.request(reader, "DELETE", f"/api/grants/{grant['id']}"), 403)
    revoked = check_status(await auth_site.request(admin, "DELETE", f"/api/grants/{grant['id']}"), 200)
    assert revoked["revoked_by"].startswith("key_")
