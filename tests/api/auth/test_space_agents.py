"""Agents of one space do not exist in another, whatever a key of it asks for."""

from typing import Final

from holdfast.domain.content import Json
from tests.api.auth.conftest import ACME, GLOBEX, AuthSite, check_status
from tests.scenario.agents.agent_workspace import call, calling, say

MARK: Final = "acme-secret"


def definition(*turns: Json, **settings: Json) -> dict[str, Json]:
    return {
        "settings": {"model": "scripted:script.json", "task": {"enabled": True}, "description": MARK, **settings},
        "instructions": MARK,
        "scripts": {"script.json": {"turns": list(turns) or [say(MARK)]}},
    }


async def test_an_agent_of_one_space_does_not_exist_in_another(auth_site: AuthSite) -> None:
    acme, globex = auth_site.keys[f"{ACME} admin"], auth_site.keys[f"{GLOBEX} admin"]
    made = await auth_site.post(acme, "/api/agents", {"name": "hidden", **definition()})
    assert made["space_id"] == ACME
    version = made["version"]
    one = f"/api/spaces/{ACME}/agents/hidden"
    spawn = calling(call("agent_spawn", agent="hidden", input="go"))
    other = definition(spawn, say("{$last_tool}"), tools=["agent_spawn"], description="d")
    await auth_site.post(globex, "/api/agents", {"name": "spawner", **other, "instructions": "x"})
    missing: list[tuple[str, str, Json]] = [
        ("GET", "/api/agents/hidden", None),
        ("PUT", "/api/agents/hidden", definition()),
        ("PATCH", "/api/agents/hidden", {"soul": "x"}),
        ("DELETE", "/api/agents/hidden", None),
        ("GET", "/api/agents/hidden/versions", None),
        ("GET", f"/api/agents/hidden/versions/{version}", None),
        ("GET", f"/api/agents/hidden/versions/{version}/diff?to={version}", None),
        ("POST", f"/api/agents/hidden/versions/{version}/activate", None),
        ("POST", f"/api/agents/spawner/versions/{version}/activate", None),
        ("GET", f"/api/agents/spawner/versions/{version}", None),
        ("GET", one, None),
        ("DELETE", one, None),
        ("POST", f"/api/spaces/{ACME}/agents", {"name": "mine", **definition()}),
        ("POST", "/api/threads", {"agent_type": "hidden"}),
        ("POST", "/api/runs", {"agent_type": "hidden", "input": "x"}),
        ("POST", "/agents/hidden/task", {"input": "x"}),
        ("POST", "/agents/hidden/chat", {"message": "x"}),
        ("GET", "/agents/hidden", None),
        ("GET", "/v1/models/hidden", None),
        ("POST", "/v1/chat/completions", {"model": "hidden", "messages": [{"role": "user", "content": "x"}]}),
        ("GET", "/api/skills/catalog?agent=hidden", None),
        ("POST", "/api/schedules", {"cron": "0 0 1 1 *", "action": {"type": "run", "agent": "hidden", "input": "x"}}),
    ]
    for method, path, body in missing:
        response = await auth_site.request(globex, method, path, **({} if body is None else {"json": body}))
        assert response.status_code == 404, (method, path, response.text)
        assert MARK not in response.text
    for path in ("/api/agents", "/agents", "/v1/models", f"/api/search?q={MARK}", "/api/tools"):
        text = str(await auth_site.get(globex, path))
        assert "hidden" not in text and MARK not in text, path
    run = await auth_site.post(globex, "/api/runs?wait=30", {"agent_type": "spawner", "input": "x"})
    assert "no agent `hidden`" in run["output"] and MARK not in str(run)
    assert (await auth_site.get(acme, "/api/agents/hidden"))["version"] == version
    same = await auth_site.post(globex, "/api/agents", {"name": "hidden", **definition(say("ours"))})
    ours = await auth_site.post(globex, "/api/runs?wait=30", {"agent_type": "hidden", "input": "x"})
    assert ours["output"] == "ours"
    check_status(await auth_site.request(globex, "DELETE", "/api/agents/hidden"), 204)
    mine = await auth_site.post(acme, "/api/runs?wait=30", {"agent_type": "hidden", "input": "x"})
    assert (mine["output"], mine["agent_version"]) == (MARK, version)
    assert same["version"] != version


async def test_a_change_of_agents_needs_an_admin_of_the_space(auth_site: AuthSite) -> None:
    runner, admin = auth_site.keys[f"{ACME} run"], auth_site.keys[f"{ACME} admin"]
    made = await auth_site.post(admin, "/api/agents", {"name": "kept", **definition()})
    refused: list[tuple[str, str, Json]] = [
        ("POST", "/api/agents", {"name": "mine", **definition()}),
        ("PUT", "/api/agents/kept", definition()),
        ("PATCH", "/api/agents/kept", {"soul": "x"}),
        ("DELETE", "/api/agents/kept", None),
        ("POST", f"/api/agents/kept/versions/{made['version']}/activate", None),
    ]
    for method, path, body in refused:
        response = await auth_site.request(runner, method, path, **({} if body is None else {"json": body}))
        assert response.status_code == 403, (method, path, response.text)
    page = await auth_site.get(admin, "/api/agents/kept/versions")
    (key,) = {each["published_by"] for each in page["items"]}
    assert page["changed_by"] == key and key.startswith("key_")
    for method, body in (("PUT", definition()), ("PATCH", {"soul": "x"}), ("DELETE", None)):
        response = await auth_site.request(admin, method, "/api/agents/bot", **({} if body is None else {"json": body}))
        assert response.status_code == 403, (method, response.text)
    bot = (await auth_site.get(admin, "/api/agents/bot/versions"))["active"]
    check_status(await auth_site.request(admin, "POST", f"/api/agents/bot/versions/{bot}/activate"), 403)
    check_status(await auth_site.request(auth_site.root, "POST", f"/api/agents/bot/versions/{bot}/activate"), 200)
