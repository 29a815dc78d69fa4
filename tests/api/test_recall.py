"""Search over HTTP: what was said is found by the next request, with excerpts that show why, in its own space."""

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import httpx2
import pytest

from tests.api.site import Site, eventually

_numbers = count()


@pytest.fixture
async def http(shared_backend_site: Site) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a client of a space of its own."""
    space = f"recall-{next(_numbers)}"
    await shared_backend_site.client.post("/api/spaces", json={"id": space})
    async with httpx2.AsyncClient(base_url=f"{shared_backend_site.url}/api/spaces/{space}") as client:
        yield client


async def say(http: httpx2.AsyncClient, *texts: str, title: str = "a thread") -> str:
    """Start a thread with these messages, and return its id."""
    thread = (await http.post("/threads", json={"title": title, "agent_type": "bot"})).json()["id"]
    for text in texts:
        made = await http.post(f"/threads/{thread}/runs", params={"wait": 30}, json={"input": text})
        assert made.status_code == 201, made.text
    return str(thread)


def marked(result: dict[str, Any]) -> list[str]:
    """Return the highlighted words of a result."""
    text = result["excerpt"]["text"]
    return [text[place["start"] : place["end"]] for place in result["excerpt"]["highlights"]]


async def test_messages_and_threads_are_found_at_once_with_highlights(http: httpx2.AsyncClient) -> None:
    cats = await say(http, "The cat sleeps on the printers.", "Bring coffee on Friday.", title="Animals")
    other = await say(http, "The invoice is due.", title="Printer invoices")
    found = (await http.get("/memories/search", params={"q": "printer cat", "explain": True})).json()
    assert found["results"][0]["thread_id"] == cats
    assert found["results"][0]["kind"] == "message"
    assert marked(found["results"][0]) == ["cat", "printers"]
    assert found["results"][0]["parts"]["lexical"] > 0
    assert "parts" not in (await http.get("/memories/search", params={"q": "cat"})).json()["results"][0]
    threads = (await http.get("/threads/search", params={"q": "cat"})).json()["results"]
    assert threads[0]["thread"]["id"] == cats
    assert marked(threads[0]["messages"][0]) == ["cat"]
    titled = (await http.get("/threads/search", params={"q": "printer inv", "type": "keyword"})).json()["results"]
    assert titled[0]["thread"]["id"] == other
    inside = (await http.get(f"/threads/{cats}/messages/search", params={"q": "coffee", "type": "keyword"})).json()
    assert {hit["thread_id"] for hit in inside["results"]} == {cats}
    assert inside["results"][0]["excerpt"]["text"] == "Bring coffee on Friday."
    elsewhere = (await http.get(f"/threads/{other}/messages/search", params={"q": "coffee", "type": "keyword"})).json()
    assert elsewhere["results"] == []


async def test_a_memory_file_is_found_as_it_is_on_disk(http: httpx2.AsyncClient) -> None:
    async def found(query: str, **more: str) -> list[tuple[str, str]]:
        results = (await http.get("/memories/search", params={"q": query, **more})).json()["results"]
        return [(hit["id"], hit["excerpt"]["text"]) for hit in results if hit["kind"] == "file"]

    assert (await http.put("/memory/MEMORY.md", json={"text": "- The office is closed.\n"})).status_code == 200
    assert await found("office closed") == [("MEMORY.md", "- The office is closed.")]
    await http.put("/memory/MEMORY.md", json={"text": "- The cellar floods.\n"})
    assert await found("cellar") == [("MEMORY.md", "- The cellar floods.")]
    assert await found("cellar", target="abstract") == []
    await http.delete("/memory/MEMORY.md")
    assert await found("cellar") == []


async def test_a_thread_is_outlined_after_its_run_and_its_outline_is_highlighted(http: httpx2.AsyncClient) -> None:
    thread = await say(http, "Always water the ferns on Sundays.", title="Plants")

    async def outlined() -> bool:
        return (await http.get(f"/threads/{thread}")).json()["summary"] is not None

    await eventually(outlined)
    (found,) = (await http.get("/threads/search", params={"q": "fern", "type": "keyword"})).json()["results"]
    assert found["thread"]["key_points"] == ["Always water the ferns on Sundays."]
    assert found["excerpt"]["text"].startswith("Plants\nAlways water the ferns on Sundays.")
    assert marked(found)[0] == "ferns"


async def test_japanese_is_found_and_highlighted(http: httpx2.AsyncClient) -> None:
    thread = await say(http, "猫の名前はミソです。", "2012年に東京へ引っ越しました。")
    found = (await http.get("/threads/search", params={"q": "東京"})).json()["results"]
    assert found[0]["thread"]["id"] == thread
    assert "東京" in marked(found[0]["messages"][0])
    by_word = await http.get(f"/threads/{thread}/messages/search", params={"q": "猫の名前", "type": "keyword"})
    assert any("猫" in word for word in marked(by_word.json()["results"][0]))


async def test_memories_are_found_by_target_and_type(http: httpx2.AsyncClient) -> None:
    await say(http, "I drink tea in the morning.")
    kept = (await http.post("/memories", json={"text": "Ann drinks green tea", "type": "semantic"})).json()
    await http.post("/memories", json={"text": "To make tea, boil water", "type": "procedural"})
    cases: list[tuple[dict[str, str], set[str]]] = [
        ({}, {"message", "memory"}),
        ({"target": "raw"}, {"message"}),
        ({"target": "abstract"}, {"memory"}),
        ({"type": "semantic"}, {"memory"}),
    ]
    for parameters, kinds in cases:
        results = (await http.get("/memories/search", params={"q": "tea", **parameters})).json()["results"]
        assert {each["kind"] for each in results} == kinds, parameters
    results = (await http.get("/memories/search", params={"q": "tea", "type": "semantic"})).json()["results"]
    assert [each["memory"]["id"] for each in results] == [kept["id"]]
    await http.post(f"/memories/{kept['id']}/retract")
    query = {"q": "green tea", "target": "abstract", "type": "semantic"}
    assert (await http.get("/memories/search", params=query)).json()["results"] == []
    inactive = await http.get("/memories/search", params={**query, "inactive": "true"})
    assert [each["memory"]["status"] for each in inactive.json()["results"]] == ["retracted"]


async def test_pages_of_results(http: httpx2.AsyncClient) -> None:
    for number in range(5):
        await http.post("/memories", json={"text": f"Tea number {number} is good"})
    pages = [
        (await http.get("/memories/search", params={"q": "tea", "limit": 2, "offset": offset})).json()["results"]
        for offset in (0, 2, 4)
    ]
    ids = [each["id"] for page in pages for each in page]
    assert (len(ids), len(set(ids))) == (5, 5)


@pytest.mark.parametrize("path", ["/memories/search", "/threads/search", "/threads/{thread}/messages/search"])
async def test_bad_queries_are_refused(http: httpx2.AsyncClient, path: str) -> None:
    path = path.format(thread=await say(http, "hello"))
    for query in ("", "   ", "x" * 20_000, "a\0b"):
        refused = await http.get(path, params={"q": query})
        assert refused.status_code in (400, 413, 414), query[:10]
    unusable: list[dict[str, str | int]] = [
        {},
        {"q": "x", "limit": 0},
        {"q": "x", "limit": 101},
        {"q": "x", "offset": -1},
        {"q": "x", "y": 1},
    ]
    for parameters in unusable:
        refused = await http.get(path, params=parameters)
        assert refused.status_code == 400, parameters
    assert (await http.get(path, params={"q": "x", "limit": 100, "offset": 50})).status_code == 400
    assert (await http.get(path, params={"q": "x", "type": "other"})).status_code == 400
    assert (await http.get(f"{path}?q=%ed%a0%80")).status_code == 400
    assert (await http.get("/threads/thr_none/messages/search", params={"q": "x"})).status_code == 404


async def test_another_space_is_never_found(http: httpx2.AsyncClient, shared_backend_site: Site) -> None:
    await say(http, "The PINEAPPLE is mine.")
    await http.post("/memories", json={"text": "PINEAPPLE in memory"})
    await shared_backend_site.client.post("/api/spaces", json={"id": "recall-elsewhere"})
    other = f"{shared_backend_site.url}/api/spaces/recall-elsewhere"
    async with httpx2.AsyncClient(base_url=other) as client:
        for path in ("/memories/search", "/threads/search"):
            assert (await client.get(path, params={"q": "PINEAPPLE"})).json()["results"] == []


@pytest.mark.parametrize("path", ["/threads/search", "/memories/search"])
async def test_a_wrong_type_is_named_as_it_was_sent(http: httpx2.AsyncClient, path: str) -> None:
    refused = await http.get(path, params={"q": "cat", "type": "fuzzy"})
    assert (refused.status_code, refused.json()["error"]["details"]) == (400, {"field": "type"})


async def test_everything_is_found_by_id_title_name_and_words(http: httpx2.AsyncClient) -> None:
    thread = await say(http, "The oven in Ärzte street is cold.", title="Ovens")
    run = (await http.get("/runs")).json()["items"][0]
    artifact = {"type": "report", "title": "Ärzte report", "content": "x"}
    made = (await http.post(f"/runs/{run['id']}/artifacts", json=artifact)).json()
    memory = (await http.post("/memories", json={"text": "Mia repairs ovens.", "type": "semantic"})).json()

    async def found(q: str, **more: str) -> list[tuple[str, str]]:
        response = await http.get("/search", params={"q": q, **more})
        assert response.status_code == 200, response.text
        return [(each["kind"], each["id"]) for each in response.json()["items"]]

    assert await found("ovens", kind="thread") == [("thread", thread)]
    assert ("memory", memory["id"]) in await found("Ovens")
    assert await found("Ärzte", kind="artifact") == await found("REPORT", kind="artifact") == [("artifact", made["id"])]
    assert [kind for kind, _ in await found("cold oven", kind="message")] == ["message"]
    assert await found("bot", kind="agent") == [("agent", "bot")]
    for kind, name in (("run", run["id"]), ("thread", thread), ("artifact", made["id"]), ("memory", memory["id"])):
        assert (await found(name))[0] == (kind, name)
    assert await found("no-such-thing_1") == []
    assert (await http.get("/search", params={"q": " "})).status_code == 400
    unknown = str(http.base_url).rstrip("/") + "-unknown/search?q=x"
    assert (await http.get(unknown)).status_code == 404
