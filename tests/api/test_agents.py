"""Agents of a space over HTTP: made, run, changed, rolled back and deleted; what files may not say is refused."""

import asyncio
import shutil
from pathlib import Path
from typing import Any, Final

from holdfast.domain.content import Json
from tests.api.site import Site, eventually, serve
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say

SETTINGS: Final[dict[str, Json]] = {"model": "scripted:script.json", "task": {"enabled": True}}


def definition(*turns: Json, **settings: Json) -> dict[str, Json]:
    """Return the definition of an agent whose model follows a script."""
    return {
        "settings": {**SETTINGS, **settings},
        "instructions": "Do as you are told.",
        "scripts": {"script.json": {"turns": list(turns) or [say("one")]}},
    }


async def create(site: Site, name: str, *turns: Json, **settings: Json) -> Json:
    """Create an agent of the default space."""
    return await site.post("/api/agents", {"name": name, **definition(*turns, **settings)})


async def play(site: Site, agent: str) -> Json:
    """Run an agent to its end, or until it waits."""
    return await site.play(await site.thread(agent_type=agent))


async def test_an_agent_is_created_run_edited_rolled_back_and_deleted(backend_site: Site) -> None:
    site = backend_site
    made = await create(site, "clerk", description="files things")
    assert (made["name"], made["space_id"], made["skills"]) == ("clerk", "default", "auto")
    assert (made["description"], made["instructions"]) == ("files things", "Do as you are told.")
    read = await site.request("GET", "/api/agents/clerk")
    assert (read.json(), read.headers["ETag"]) == (made, f'"{made["version"]}"')
    names = [each["name"] for each in (await site.get("/api/agents"))["items"]]
    assert names == sorted(names) and {"bot", "clerk"} <= set(names)
    first = await play(site, "clerk")
    assert (first["output"], first["agent_version"]) == ("one", made["version"])
    edited = await site.patch("/api/agents/clerk", {"scripts": {"script.json": {"turns": [say("two")]}}})
    assert edited["description"] == "files things" and edited["version"] != made["version"]
    second = await play(site, "clerk")
    assert (second["output"], second["agent_version"]) == ("two", edited["version"])
    task = await site.post("/agents/clerk/task", {"input": "go"}, expect=202)
    assert task["taskId"]
    chat = await site.post("/agents/clerk/chat", {"message": "go"}, expect=200)
    assert chat["output"] == "two"
    page = await site.get("/api/agents/clerk/versions")
    assert [each["digest"] for each in page["items"]] == [edited["version"], made["version"]]
    diff = await site.get(f"/api/agents/clerk/versions/{made['version']}/diff", to=edited["version"])
    assert [each["path"] for each in diff["files"]] == ["agents/clerk/script.json"]
    await site.post(f"/api/agents/clerk/versions/{made['version'][:12]}/activate", expect=200)
    assert (await play(site, "clerk"))["output"] == "one"
    replaced = await site.request("PUT", "/api/agents/clerk", json=definition(say("two"), description="files things"))
    assert replaced.json()["version"] == edited["version"]  # published before, and active again
    assert (await play(site, "clerk"))["output"] == "two"
    await site.delete("/api/agents/clerk")
    for path in ("", "/versions", f"/versions/{made['version']}"):
        await site.get(f"/api/agents/clerk{path}", expect=404)
    await site.delete("/api/agents/clerk", expect=404)
    await site.post("/api/threads", {"agent_type": "clerk"}, expect=404)
    await site.post(f"/api/agents/clerk/versions/{made['version']}/activate", expect=404)
    assert (await site.get(f"/api/runs/{second['id']}"))["agent_version"] == edited["version"]
    assert (await create(site, "clerk", say("three")))["name"] == "clerk"
    assert len((await site.get("/api/agents/clerk/versions"))["items"]) == 3


async def test_a_run_keeps_its_version_when_its_agent_is_edited_and_deleted(site: Site) -> None:
    turns = [calling(call("ask_user", question="which?")), say("as before")]
    made = await create(site, "asking", *turns, tools=["ask_user"])
    edited, deleted = [await play(site, "asking") for _ in range(2)]
    await site.patch("/api/agents/asking", {"scripts": {"script.json": {"turns": [say("x"), say("x")]}}})

    async def answer(run: Json) -> Json:
        await site.post(f"/api/runs/{run['id']}/respond", {"response": "this"}, expect=200)
        return await site.get(f"/api/runs/{run['id']}", wait=30)

    run = await answer(edited)
    assert (run["output"], run["agent_version"]) == ("as before", made["version"])
    await site.delete("/api/agents/asking")
    run = await answer(deleted)
    assert (run["output"], run["agent_version"]) == ("as before", made["version"])


async def test_a_changed_agent_is_not_overwritten(site: Site) -> None:
    made = await create(site, "guarded")
    stale = {"If-Match": f'"{made["version"]}"'}
    current = await site.patch("/api/agents/guarded", {"soul": "calm"})
    for method, body in (("PUT", definition()), ("PATCH", {"soul": "wild"}), ("DELETE", None)):
        refused = await site.request(method, "/api/agents/guarded", json=body, headers=stale)
        assert (refused.status_code, refused.json()["error"]["code"]) == (412, "VERSION_CHANGED")
        wrong = await site.request(method, "/api/agents/guarded", json=body, headers={"If-Match": "3"})
        assert wrong.status_code == 400
    assert await site.get("/api/agents/guarded") == current
    tag = {"If-Match": f'"{current["version"]}"'}
    races = [site.request("PATCH", "/api/agents/guarded", json={"soul": f"{n}"}, headers=tag) for n in range(4)]
    assert sorted(each.status_code for each in await asyncio.gather(*races)) == [200, 412, 412, 412]
    patches = [{"settings": {"description": "d"}}, {"soul": "s"}, {"instructions": "Be brief."}]
    merged = await asyncio.gather(*(site.patch("/api/agents/guarded", each) for each in patches))
    assert len(merged) == 3
    found = await site.get("/api/agents/guarded")
    assert (found["description"], found["soul"], found["instructions"]) == ("d", "s", "Be brief.")
    assert (await site.patch("/api/agents/guarded", {"soul": None}))["soul"] is None
    gone = await site.request("DELETE", "/api/agents/guarded", headers={"If-Match": "*"})
    assert gone.status_code == 204


async def test_an_agent_of_the_workspace_is_read_only_and_its_name_is_taken(site: Site) -> None:
    before = await site.get("/api/agents/bot")
    assert before["space_id"] is None
    await create(site, "taken")
    refused = [
        ("POST", "/api/agents", {"name": "bot", **definition()}),
        ("POST", "/api/agents", {"name": "taken", **definition()}),
        ("PUT", "/api/agents/bot", definition()),
        ("PATCH", "/api/agents/bot", {"soul": "wild"}),
        ("DELETE", "/api/agents/bot", None),
    ]
    for method, path, body in refused:
        response = await site.request(method, path, json=body)
        assert response.status_code == 409, (method, path, response.text)
        assert response.json()["error"]["message"]
    assert await site.get("/api/agents/bot") == before


def _settings(**more: Json) -> Json:
    return {**definition(**more), "name": "bad"}


BAD: Final[list[tuple[Any, str | None]]] = [
    (_settings(model="gpt"), "settings.model"),
    (_settings(model=["openai:gpt-5", 3]), "settings.model[1]"),
    (_settings(modle="openai:gpt-5"), "settings.modle"),
    (_settings(limits={"max_iteration": 3}), "settings.limits.max_iteration"),
    (_settings(permissions={"deny": ["bsh"]}), "settings.permissions.deny[0]"),
    (_settings(skills=["nothing"]), "settings.skills[0]"),
    (_settings(output={"type": "nonsense"}), "settings"),
    (_settings(mcp_servers={"x": {"command": "sh"}}), "settings.mcp_servers.x"),
    (_settings(mcp_servers={"x": {"url": "http://169.254.169.254/"}}), "settings.mcp_servers.x"),
    (_settings(mcp_servers={"x": {"url": "https://a.com", "headers": {"a": "${HOME}"}}}), "settings.mcp_servers.x"),
    (_settings(working_folder="/etc"), "settings.working_folder"),
    (_settings(working_folder="../other"), "settings.working_folder"),
    (_settings(working_folder="site"), "settings.working_folder"),
    (_settings(working_folder="agents/bot"), "settings.working_folder"),
    (_settings(model="scripted:../bot/script.json"), "settings.model"),
    (_settings(model="scripted:/etc/passwd"), "settings.model"),
    (_settings(model=["scripted:script.json", "scripted:other.json"]), "settings.model"),
    (_settings(memory={"distil": {"model": "scripted:/etc/passwd"}}), "settings.model"),
    (_settings(daemon={"heartbeats": [{"name": "x", "schedule": "* * * * *"}]}), "settings.daemon"),
    (_settings(description="a\x00b"), "settings.description"),
    ({**definition(), "name": "bad", "instructions": " \n"}, "instructions"),
    ({**definition(), "name": "bad", "instructions": "a\x00b"}, "instructions"),
    ({**definition(), "name": "bad", "instructions": "x" * 300_000}, "instructions"),
    ({**definition(), "name": "bad", "soul": "x" * 300_000}, "soul"),
    ({**definition(), "name": "bad", "scripts": {"agent.json": {}}}, "scripts"),
    ({**definition(), "name": "bad", "scripts": {"../x.json": {}}}, "scripts"),
    ({**definition(), "name": "bad", "scripts": {"a/b.json": {}}}, "scripts"),
    ({**definition(), "name": "../bot"}, "name"),
    ({**definition(), "name": "Bot"}, "name"),
    ({**definition(), "name": "a\n"}, "name"),
    ({**definition(), "name": ""}, "name"),
    ({**definition(), "name": "bad", "folder": "x"}, None),
    ({"name": "bad", "instructions": "x"}, None),
    ({"name": "bad", "settings": [], "instructions": "x"}, None),
    ([], None),
]


async def test_a_bad_definition_is_refused_with_its_field_and_changes_nothing(site: Site) -> None:
    await create(site, "good")
    before = await site.get("/api/agents")
    for body, field in BAD:
        response = await site.request("POST", "/api/agents", json=body)
        error = response.json()["error"]
        assert response.status_code in (400, 413), (field, response.text)
        assert field is None or error["details"]["field"] == field, error
        if not isinstance(body, dict) or body.get("name") != "bad":
            continue
        put = {key: value for key, value in body.items() if key != "name"}
        assert (await site.request("PUT", "/api/agents/good", json=put)).status_code in (400, 413)
    for patch in ({"settings": {"model": None}}, {"instructions": ""}, {"scripts": {"script.json": None}}, {"x": 1}):
        assert (await site.request("PATCH", "/api/agents/good", json=patch)).status_code == 400
    assert await site.get("/api/agents") == before


async def test_agents_of_a_space_can_do_what_others_can(site: Site) -> None:
    await create(site, "helper", say("helped"), description="helps with knots")
    spawn = calling(call("agent_spawn", agent="helper", input="go"))
    await create(site, "leader", spawn, say("{$last_tool}"), tools=["agent_spawn", "skill_list"])
    assert "helped" in (await play(site, "leader"))["output"]
    assert "helper" in {each["id"] for each in (await site.get("/v1/models"))["data"]}
    found = await site.get("/api/search", q="knots")
    assert ("agent", "helper") in {(each["kind"], each["id"]) for each in found["items"]}
    tools = {each["name"]: each["agents"] for each in (await site.get("/api/tools"))["items"]}
    assert "leader" in tools["agent_spawn"]
    assert (await site.get("/api/skills/catalog", agent="leader"))["items"]
    body = {"cron": "0 0 1 1 *", "action": {"type": "run", "agent": "helper", "input": "go"}}
    assert (await site.post("/api/schedules", body))["action"]["agent"] == "helper"
    request: Json = {"model": "helper", "messages": [{"role": "user", "content": "x"}]}
    reply = await site.post("/v1/chat/completions", request, expect=200)
    assert reply["choices"][0]["message"]["content"] == "helped"


async def test_agents_of_a_space_outlast_a_restart(tmp_path: Path) -> None:
    workshop = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workshop.agent(say("done"))
    asking = [calling(call("ask_user", question="which?")), say("as before")]
    async with serve(workshop) as site:
        made = await create(site, "clerk", *asking, tools=["ask_user"])
        run = await play(site, "clerk")
        await create(site, "gone")
        await site.delete("/api/agents/gone")
    shutil.rmtree(workshop.folder / ".holdfast" / "bundles")  # copies: the store has them all
    async with serve(workshop) as site:
        assert await site.get("/api/agents/clerk") == made
        await site.get("/api/agents/gone", expect=404)
        await site.post(f"/api/runs/{run['id']}/respond", {"response": "this"}, expect=200)
        assert (await site.get(f"/api/runs/{run['id']}", wait=30))["output"] == "as before"


async def test_a_name_that_the_workspace_takes_later_is_that_of_the_workspace(tmp_path: Path) -> None:
    workshop = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workshop.agent(say("done"))
    async with serve(workshop) as site:
        asking = [calling(call("ask_user", question="which?")), say("of the space")]
        await create(site, "clerk", *asking, tools=["ask_user"])
        run = await play(site, "clerk")
        workshop.agent(say("of the workspace"), name="clerk")
        site.floor.holdfast.agents.refresh()
        assert (await site.get("/api/agents/clerk"))["space_id"] is None
        assert (await play(site, "clerk"))["output"] == "of the workspace"
        await site.post(f"/api/runs/{run['id']}/respond", {"response": "this"}, expect=200)
        assert (await site.get(f"/api/runs/{run['id']}", wait=30))["output"] == "of the space"


async def test_tools_of_the_workspace_are_part_of_the_version(tmp_path: Path) -> None:
    workshop = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workshop.agent(say("done"))
    workshop.write("tools/echo/tool.json", {"description": "d", "command": ["cat"], "parameters": {"type": "object"}})
    async with serve(workshop) as site:
        await create(site, "clerk", tools=["echo"])
        (version,) = (await site.get("/api/agents/clerk/versions"))["items"]
    assert "tools/echo/tool.json" in [file["path"] for file in version["files"]]


async def test_the_routes_of_the_contract_do_the_same(site: Site) -> None:
    made = await site.post("/agents", {"name": "contracted", **definition()}, expect=200)
    read = await site.request("GET", "/agents/contracted")
    assert (read.json(), read.headers["ETag"]) == (made, f'"{made["agent"]["version"]}"')
    assert made["agent"] == await site.get("/api/agents/contracted")
    changed = await site.patch("/agents/contracted", {"soul": "calm"})
    for method, body in (("PUT", definition()), ("PATCH", {"soul": "x"}), ("DELETE", None)):
        headers = {"If-Match": read.headers["ETag"]}
        refused = await site.request(method, "/agents/contracted", json=body, headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (412, "VERSION_CHANGED")
        missing = await site.request(method, "/agents/nobody", json=body)
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "AGENT_NOT_FOUND")
    bad = await site.request("POST", "/agents", json={"name": "other", **definition(model="gpt")})
    assert (bad.status_code, bad.json()["error"]["code"]) == (400, "VALIDATION_ERROR")
    assert bad.json()["error"]["details"]["field"] == "settings.model"
    assert (await site.get("/agents/contracted")) == changed
    replaced = await site.request("PUT", "/agents/contracted", json=definition())
    assert replaced.json()["agent"]["version"] == made["agent"]["version"]
    gone = await site.delete("/agents/contracted", expect=200)
    assert gone == {"deleted": True, "name": "contracted"}
    await site.get("/agents/contracted", expect=404)


async def test_an_agent_whose_folder_is_listed_no_longer_is_broken(tmp_path: Path) -> None:
    workshop, project = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"), str(tmp_path / "site")
    workshop.agent(say("done"))
    workshop.write("settings.json", {"project_folders": {project: {"spaces": ["default"]}}})
    async with serve(workshop) as site:
        await create(site, "builder", working_folder=project)
        assert (await site.get("/api/agents"))["broken"] == []
        workshop.write("settings.json", {})

        async def broken() -> bool:
            return [each["name"] for each in (await site.get("/api/agents"))["broken"]] == ["builder"]

        await eventually(broken)
        assert [each["name"] for each in (await site.get("/api/agents"))["items"]] == ["bot"]
        await site.get("/api/agents/builder", expect=400)
        fixed = await site.patch("/api/agents/builder", {"settings": {"working_folder": "files"}})
        assert fixed["name"] == "builder"


async def test_agents_of_the_workspace_are_written_where_the_settings_allow_it(tmp_path: Path) -> None:
    workshop = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workshop.agent(say("done"), description="one")
    workshop.write("agents/bot/SOUL.md", "calm")
    workshop.write("agents/bot/notes.txt", "mine")
    folder = workshop.folder / "agents" / "bot"

    def files() -> dict[str, bytes]:
        return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}

    async with serve(workshop) as site:
        before, first = files(), await site.get("/api/agents/bot")
        refused = await site.patch("/api/agents/bot", {"soul": "wild"}, expect=409)
        assert "`write_agents` in settings.json" in refused["error"]["message"]
        workshop.write("settings.json", {"write_agents": True})

        async def allowed() -> bool:
            return (await site.request("PATCH", "/api/agents/bot", json={})).status_code == 200

        await eventually(allowed)
        stale = {"If-Match": f'"{"0" * 64}"'}
        for method, body, headers, status in (
            ("PATCH", {"settings": {"limits": {"max_iteration": 3}}}, {}, 400),
            ("PATCH", {"settings": {"model": None}}, {}, 400),
            ("PATCH", {"instructions": " "}, {}, 400),
            ("PATCH", {"scripts": {"../x.json": {}}}, {}, 400),
            ("PUT", {"settings": {}, "instructions": "x"}, {}, 400),
            ("PATCH", {"soul": "wild"}, stale, 412),
            ("DELETE", None, stale, 412),
            ("POST", {"name": "bot", **definition()}, {}, 409),
        ):
            path = "/api/agents" if method == "POST" else "/api/agents/bot"
            response = await site.request(method, path, json=body, headers=headers)
            assert response.status_code == status, (method, body, response.text)
        assert files() == before
        changes = {"settings": {"description": "two", "tools": ["ask_user"]}, "soul": None}
        changed = await site.patch("/api/agents/bot", changes)
        assert (changed["description"], changed["tools"], changed["soul"]) == ("two", ["ask_user"], None)
        assert (changed["space_id"], changed["version"] != first["version"]) == (None, True)
        assert set(files()) == {"agent.json", "AGENT.md", "script.json", "notes.txt"}
        assert (await play(site, "bot"))["agent_version"] == changed["version"]
        tag = {"If-Match": f'"{changed["version"]}"'}
        replaced = await site.request("PUT", "/api/agents/bot", json=definition(say("other")), headers=tag)
        assert (replaced.status_code, replaced.json()["description"]) == (200, "")
        assert (await play(site, "bot"))["output"] == "other"
        await site.delete("/api/agents/bot")
        await site.get("/api/agents/bot", expect=404)
        (aside,) = (workshop.folder / "agents").iterdir()
        assert aside.name.startswith(".bot.") and (aside / "notes.txt").read_text() == "mine"
