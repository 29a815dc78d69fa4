"""No query over any route or memory file returns anything of another space."""

import random
from typing import Any

import httpx2
import pytest

from tests.api.site import Site
from tests.api.test_recall import say

MARK = "quokka"
"""A word that every text of the other space holds, and no query."""
WORDS = ("harbour", "ferry", "invoice", "Globex", "vault", "4711", "printer", "東京", "会議", "always", "Ann", "coffee")
AGENT_FILE = "/memory/agents/bot/MEMORY.md"


async def fill(http: httpx2.AsyncClient, mark: str) -> list[str]:
    """Fill a space with texts of the same words, and return the ids of what it holds."""
    names = []
    for number in range(3):
        text = f"The {mark} {number} of Globex: the vault opens with 4711, the 東京 会議 is at the harbour."
        names.append(await say(http, f"{text} Always bring coffee.", title=f"{mark} vault {number}"))
        memory = {"text": text, "tags": ["vault"], "entities": [{"label": "Globex"}, {"label": f"{mark} printer"}]}
        made = await http.post("/memories", json={**memory, "standing": number == 0, "type": "semantic"})
        assert made.status_code == 201, made.text
        names.append(made.json()["id"])
    for path in ("/memory/MEMORY.md", AGENT_FILE):
        assert (await http.put(path, json={"text": f"- The {mark} invoice of Globex, 東京 会議\n"})).status_code == 200
    messages = (await http.get(f"/threads/{names[0]}/messages")).json()["items"]
    return [*names, *(message["id"] for message in messages)]


def request(chance: random.Random, foreign: list[str]) -> tuple[str, dict[str, Any]]:
    """Return the path and the parameters of a query that may name ids of the other space."""
    name = chance.choice(foreign)
    text = " ".join(chance.sample(WORDS, chance.randint(1, 4))) if chance.random() < 0.8 else name
    kinds: dict[str, Any] = {"type": chance.choice(["all", "keyword", "semantic"])}
    target: dict[str, Any] = {"target": chance.choice(["both", "raw", "abstract"]), "explain": True, "limit": 50}
    return chance.choice(
        [
            ("/memories/search", {"q": text, **target}),
            ("/memories", {"tag": "vault", "limit": 100}),
            ("/memories", {"thread_id": name}),
            ("/memories/timeline", {"limit": 100}),
            ("/memories/timeline", {"thread_id": name}),
            ("/memories/timeline", {"entity": "Globex"}),
            ("/memories/graph", {"start": chance.choice([name, "Globex", "printer"]), "depth": 4}),
            ("/memories/export", {}),
            (f"/memories/{name}", {}),
            (f"/memories/{name}/provenance", {}),
            (f"/memories/{name}/history", {}),
            ("/search", {"q": text}),
            ("/memories/forget", {"ids": [name], "dry_run": True}),
            (f"/memories/{name}/supersede", {"memory": {"text": text}}),
            (f"/memories/{name}/accept", {}),
            ("/threads/search", {"q": text, **kinds}),
            (f"/threads/{name}/messages/search", {"q": text, **kinds}),
            ("/memory", {}),
            ("/memory/MEMORY.md", {}),
            (AGENT_FILE, {}),
            ("/memory/search", {"q": text}),
        ]
    )


@pytest.mark.parametrize("queries", [150, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])])
async def test_no_route_returns_anything_of_another_space(shared_backend_site: Site, queries: int) -> None:
    client, url = shared_backend_site.client, shared_backend_site.url
    spaces = [f"{name}-{queries}" for name in ("theirs", "ours")]
    for space in spaces:
        assert (await client.post("/api/spaces", json={"id": space})).status_code == 201
    theirs, ours = (httpx2.AsyncClient(base_url=f"{url}/api/spaces/{space}", timeout=60) for space in spaces)
    async with theirs, ours:
        foreign = await fill(theirs, MARK)
        await fill(ours, "wombat")
        chance = random.Random(7)
        leaks, found = [], 0
        for _ in range(queries):
            path, parameters = request(chance, foreign)
            sent = path.endswith(("/forget", "/supersede", "/accept"))
            answer = await (ours.post(path, json=parameters) if sent else ours.get(path, params=parameters))
            assert answer.status_code < 500, answer.text
            leaks += [(path, parameters)] if MARK in answer.text else []
            found += "wombat" in answer.text
    assert leaks == []
    assert found > queries // 3  # the queries do find what is there
