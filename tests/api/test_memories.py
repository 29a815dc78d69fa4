"""Memories over HTTP: keep, correct, trace, export, import and forget."""

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import httpx2
import pytest

from tests.api.site import Site

MEMORIES = "/memories"
_numbers = count()


@pytest.fixture
async def http(shared_backend_site: Site) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a client of a space of its own."""
    space = f"memories-{next(_numbers)}"
    await shared_backend_site.client.post("/api/spaces", json={"id": space})
    async with httpx2.AsyncClient(base_url=f"{shared_backend_site.url}/api/spaces/{space}") as client:
        yield client


async def keep(http: httpx2.AsyncClient, text: str = "Ann likes tea", **fields: Any) -> dict[str, Any]:
    made = await http.post(MEMORIES, json={"text": text, **fields})
    assert made.status_code == 201, made.text
    body: dict[str, Any] = made.json()
    return body


async def test_a_memory_is_kept_read_changed_and_traced(http: httpx2.AsyncClient) -> None:
    memory = await keep(http, tags=["tea"], entities=[{"label": "Ann", "kind": "person"}])
    assert (memory["status"], memory["origin"], memory["version"]) == ("active", "person", 1)
    one = f"{MEMORIES}/{memory['id']}"
    assert (await http.get(one)).json() == memory
    changed = (await http.patch(one, json={"text": "Ann likes green tea"})).json()
    assert (changed["text"], changed["version"]) == ("Ann likes green tea", 2)
    assert (await http.patch(f"{one}?version=1", json={"text": "late"})).status_code == 409
    history = (await http.get(f"{one}/history")).json()["items"]
    assert [each["memory"]["text"] for each in history] == ["Ann likes tea", "Ann likes green tea"]
    assert (await http.get(f"{one}/provenance")).json()["messages"] == []
    graph = (await http.get(f"{MEMORIES}/graph", params={"start": "ann"})).json()["hits"]
    assert [hit["depth"] for hit in graph] == [0, 1]
    timeline = (await http.get(f"{MEMORIES}/timeline")).json()
    assert [each["id"] for each in timeline["memories"]] == [memory["id"]]
    listed = (await http.get(MEMORIES, params={"type": "semantic", "tag": "tea", "status": "active"})).json()
    assert [each["id"] for each in listed["items"]] == [memory["id"]]


async def test_supersession_acceptance_and_retraction(http: httpx2.AsyncClient) -> None:
    old = await keep(http, "The code is 1")
    new = await http.post(f"{MEMORIES}/{old['id']}/supersede", json={"memory": {"text": "The code is 2"}})
    assert (new.status_code, new.json()["supersedes"]) == (201, [old["id"]])
    cycle = await http.post(f"{MEMORIES}/{new.json()['id']}/supersede", json={"by": old["id"]})
    assert cycle.status_code == 409
    assert (await http.post(f"{MEMORIES}/{old['id']}/supersede", json={})).status_code == 400
    retracted = await http.post(f"{MEMORIES}/{new.json()['id']}/retract")
    assert (retracted.status_code, retracted.json()["status"]) == (200, "retracted")
    assert (await http.post(f"{MEMORIES}/{new.json()['id']}/accept")).status_code == 409


async def test_a_keyed_request_is_done_once(http: httpx2.AsyncClient) -> None:
    headers = {"Idempotency-Key": "k1"}
    first = await http.post(MEMORIES, json={"text": "once"}, headers=headers)
    again = await http.post(MEMORIES, json={"text": "once"}, headers=headers)
    assert (again.json(), again.headers["Idempotency-Replayed"]) == (first.json(), "true")
    assert (await http.post(MEMORIES, json={"text": "other"}, headers=headers)).status_code == 409
    assert len((await http.get(MEMORIES)).json()["items"]) == 1


async def test_an_import_restores_an_export(http: httpx2.AsyncClient) -> None:
    old = await keep(http, "The code is 1", tags=["x"], entities=[{"label": "code"}])
    await http.post(f"{MEMORIES}/{old['id']}/supersede", json={"memory": {"text": "The code is 2", "standing": True}})
    await http.patch(f"{MEMORIES}/{old['id']}", json={"importance": 0.9})
    exported = await http.get(f"{MEMORIES}/export")
    assert exported.headers["content-type"].startswith("application/x-ndjson")
    unchanged = await http.post(f"{MEMORIES}/import", content=exported.content)
    assert unchanged.json() == {"added": 0, "unchanged": 2, "dropped_sources": 0}
    ids = [each["id"] for each in (await http.get(MEMORIES)).json()["items"]]
    await http.post(f"{MEMORIES}/forget", json={"ids": ids})
    assert (await http.get(f"{MEMORIES}/export")).content == b""
    restored = await http.post(f"{MEMORIES}/import", content=exported.content)
    assert (restored.status_code, restored.json()["added"]) == (201, 2)
    assert (await http.get(f"{MEMORIES}/export")).content == exported.content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"nonsense", "line 1 is not an exported memory"),
        (b'{"memory": {}}', "line 1 is not an exported memory"),
        (b"\xff\xfe", "line 1 is not an exported memory"),
    ],
)
async def test_a_bad_import_is_refused_whole(http: httpx2.AsyncClient, content: bytes, message: str) -> None:
    good = await keep(http)
    exported = (await http.get(f"{MEMORIES}/export")).content
    await http.delete(f"{MEMORIES}/{good['id']}")
    answer = await http.post(f"{MEMORIES}/import", content=content + b"\n" + exported)
    assert (answer.status_code, message in answer.json()["error"]["message"]) == (400, True)
    assert (await http.get(MEMORIES)).json()["items"] == []


async def test_an_import_with_foreign_sources_is_refused_or_drops_them(http: httpx2.AsyncClient) -> None:
    await keep(http)
    line = (await http.get(f"{MEMORIES}/export")).content
    foreign = line.replace(b'"sources":[]', b'"sources":[{"message_id":"msg_x","thread_id":"thr_x"}]')
    foreign = foreign.replace(b'"id":"mem_', b'"id":"other_')
    assert (await http.post(f"{MEMORIES}/import", content=foreign)).status_code == 404
    dropped = await http.post(f"{MEMORIES}/import", params={"missing_sources": "drop"}, content=foreign)
    assert dropped.json() == {"added": 1, "unchanged": 0, "dropped_sources": 1}


async def test_forgetting_has_a_dry_run_and_a_receipt(http: httpx2.AsyncClient) -> None:
    memory = await keep(http, "The safe opens with ZEBRA-7731")
    dry = await http.post(f"{MEMORIES}/forget", json={"ids": [memory["id"]], "dry_run": True})
    assert (dry.json()["dry_run"], dry.json()["memories"]) == (True, 1)
    assert (await http.get(f"{MEMORIES}/{memory['id']}")).status_code == 200
    receipt = await http.delete(f"{MEMORIES}/{memory['id']}")
    assert (receipt.status_code, receipt.json()["memory_ids"]) == (200, [memory["id"]])
    assert (await http.get(f"{MEMORIES}/{memory['id']}")).status_code == 404
    assert (await http.post(f"{MEMORIES}/forget", json={})).status_code == 400
    assert (await http.post(f"{MEMORIES}/forget", json={"ids": ["mem_missing"]})).status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"text": ""}, 400),
        ({"text": "a\x00b"}, 400),
        ({"text": "x" * 4001}, 413),
        ({"text": "x", "importance": 2}, 400),
        ({"text": "x", "type": "rumour"}, 400),
        ({"text": "x", "origin": "person"}, 400),
        ({"text": "x", "supersedes": ["mem_missing"]}, 404),
        ({"text": "x", "sources": [{"message_id": "m", "thread_id": "t"}]}, 404),
    ],
)
async def test_a_bad_memory_is_refused(http: httpx2.AsyncClient, body: dict[str, Any], status: int) -> None:
    answer = await http.post(MEMORIES, json=body)
    assert answer.status_code == status, answer.text
    assert (await http.get(MEMORIES)).json()["items"] == []


async def test_a_memory_of_another_space_does_not_exist(shared_backend_site: Site, http: httpx2.AsyncClient) -> None:
    memory = await keep(http)
    client, one = shared_backend_site.client, f"/api/memories/{memory['id']}"
    for path in ("", "/provenance", "/history"):
        assert (await client.get(f"{one}{path}")).status_code == 404
    for verb in ("accept", "retract"):
        assert (await client.post(f"{one}/{verb}")).status_code == 404
    assert (await client.post("/api/memories/forget", json={"ids": [memory["id"]]})).status_code == 404
    assert (await http.get(f"{MEMORIES}/{memory['id']}")).json() == memory
