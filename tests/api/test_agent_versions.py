"""Versions of agents over HTTP: list, read, compare and activate them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.api.conftest import BACKENDS
from tests.api.site import Site, serve
from tests.scenario.agents.agent_workspace import AgentWorkspace, say

SERVER = {"docs": {"url": "https://user:secret@mcp.example.com"}}


@pytest.fixture(params=BACKENDS)
async def edited(request: pytest.FixtureRequest, tmp_path: Path, api_database: str) -> AsyncIterator[Site]:
    """Yield a server with two versions of `bot`."""
    database = tmp_path / "holdfast.db" if request.param == "sqlite" else api_database
    workspace = AgentWorkspace(tmp_path / "workspace", database)
    workspace.agent(say("done"), description="one")
    async with serve(workspace) as site:
        workspace.write("agents/bot/AGENT.md", "Do something else.")
        workspace.configure(description="two", mcp_servers=SERVER)
        site.floor.holdfast.agents.refresh()
        await site.floor.holdfast.agents.sync()
        yield site


async def versions(site: Site) -> list[Any]:
    items: list[Any] = (await site.get("/api/agents/bot/versions"))["items"]
    return items


async def test_versions_are_listed_newest_first_and_paged(edited: Site) -> None:
    page = await edited.get("/api/agents/bot/versions")
    new, old = page["items"]
    assert (new["active"], old["active"]) == (True, False)
    assert page["active"] == page["published"] == new["digest"]
    assert [file["path"] for file in old["files"]] == [
        f"agents/bot/{name}" for name in ("AGENT.md", "agent.json", "script.json")
    ]
    first = await edited.get("/api/agents/bot/versions", limit=1)
    last = await edited.get("/api/agents/bot/versions", limit=1, cursor=first["next_cursor"])
    assert (first["items"], last["items"], last["next_cursor"]) == ([new], [old], None)
    assert await edited.get(f"/api/agents/bot/versions/{old['digest'][:8]}") == old
    assert (await edited.get("/api/agents/bot"))["version"] == new["digest"]


async def test_a_diff_shows_texts_and_hides_addresses(edited: Site) -> None:
    new, old = await versions(edited)
    diff = await edited.get(f"/api/agents/bot/versions/{old['digest']}/diff", to=new["digest"])
    changes = {each["path"]: each for each in diff["files"]}
    assert "-Do as you are told.\n" in changes["agents/bot/AGENT.md"]["diff"]
    assert '+  "description": "two"' in changes["agents/bot/agent.json"]["diff"]
    assert "sha256:" in str(diff) and "example.com" not in str(diff) and "secret" not in str(diff)
    same = await edited.get(f"/api/agents/bot/versions/{old['digest']}/diff", to=old["digest"])
    assert same["files"] == []


async def test_an_activated_version_is_that_of_new_runs(edited: Site) -> None:
    new, old = await versions(edited)
    activated = await edited.post(f"/api/agents/bot/versions/{old['digest'][:12]}/activate", expect=200)
    assert activated == old | {"active": True}
    assert (await edited.get("/api/agents/bot"))["description"] == "one"
    thread = await edited.thread(agent_type="bot")
    run = await edited.play(thread)
    assert run["agent_version"] == old["digest"]
    assert (await edited.get(f"/api/runs/{run['id']}"))["agent_version"] == old["digest"]
    page = await edited.get("/api/agents/bot/versions")
    assert (page["active"], page["published"]) == (old["digest"], new["digest"])


REFUSED: Final = [
    ("GET", "/api/agents/nobody/versions", 404),
    ("GET", "/api/agents/..%2Fbot/versions", 404),
    ("GET", f"/api/agents/bot/versions/{'0' * 64}", 404),
    ("GET", "/api/agents/bot/versions/0", 400),
    ("GET", "/api/agents/bot/versions/%25%25%25%25%25%25%25%25", 400),
    ("GET", f"/api/agents/bot/versions/{'a' * 65}", 400),
    ("GET", f"/api/agents/bot/versions/{'0' * 64}/diff", 400),
    ("GET", f"/api/agents/bot/versions/{'0' * 64}/diff?to={'0' * 64}", 404),
    ("POST", f"/api/agents/bot/versions/{'0' * 64}/activate", 404),
    ("POST", "/api/agents/nobody/versions/00000000/activate", 404),
    ("GET", "/api/agents/bot/versions?limit=0", 400),
    ("GET", "/api/agents/bot/versions?cursor=x", 400),
]


async def test_what_does_not_exist_is_refused_and_changes_nothing(edited: Site) -> None:
    before = await edited.get("/api/agents/bot/versions")
    for method, path, status in REFUSED:
        response = await edited.request(method, path)
        assert response.status_code == status, (path, response.text)
        assert response.json()["error"]["code"]
    assert await edited.get("/api/agents/bot/versions") == before
