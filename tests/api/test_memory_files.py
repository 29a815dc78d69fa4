"""Memory files over HTTP: read, written, searched and deleted with ETags, each space its own."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import httpx2
import pytest

from holdfast.domain.memory_file import MAX_MEMORY_FILE_BYTES
from tests.api.site import Site

_numbers = count()


@pytest.fixture
async def http(site: Site) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a client of the memory files of a space of its own."""
    space = f"files-{next(_numbers)}"
    await site.client.post("/api/spaces", json={"id": space})
    async with httpx2.AsyncClient(base_url=f"{site.url}/api/spaces/{space}/memory") as client:
        yield client


async def test_a_file_is_written_read_listed_and_deleted(http: httpx2.AsyncClient) -> None:
    assert (await http.get("")).json() == {"items": []}
    written = await http.put("/MEMORY.md", json={"text": "# Notes\n- tea\n"})
    assert written.status_code == 200, written.text
    read = await http.get("/MEMORY.md")
    assert read.json() == {"path": "MEMORY.md", "text": "# Notes\n- tea\n", "lines": 2, "etag": read.json()["etag"]}
    assert read.headers["ETag"] == written.headers["ETag"] == f'"{read.json()["etag"]}"'
    own = await http.put("/agents/bot/MEMORY.md", json={"text": "mine"})
    assert own.json()["path"] == "agents/bot/MEMORY.md"
    assert [item["path"] for item in (await http.get("")).json()["items"]] == ["MEMORY.md", "agents/bot/MEMORY.md"]
    assert (await http.get("/agents/bot/MEMORY.md")).json()["text"] == "mine"
    assert (await http.delete("/agents/bot/MEMORY.md")).status_code == 204
    assert (await http.delete("/agents/bot/MEMORY.md")).status_code == 404
    assert (await http.get("/agents/bot/MEMORY.md")).status_code == 404


async def test_a_stale_etag_is_refused_and_changes_nothing(http: httpx2.AsyncClient) -> None:
    first = await http.put("/MEMORY.md", json={"text": "1"})
    second = await http.put("/MEMORY.md", json={"text": "2"}, headers={"If-Match": first.headers["ETag"]})
    assert second.status_code == 200
    for refused in (
        await http.put("/MEMORY.md", json={"text": "3"}, headers={"If-Match": first.headers["ETag"]}),
        await http.delete("/MEMORY.md", headers={"If-Match": first.headers["ETag"]}),
        await http.put("/other.md", json={"text": "3"}, headers={"If-Match": "*"}),
    ):
        assert (refused.status_code, refused.json()["error"]["code"]) == (412, "MEMORY_FILE_CHANGED")
    assert (await http.put("/MEMORY.md", json={"text": "3"}, headers={"If-Match": "3f9c"})).status_code == 400
    assert (await http.get("/MEMORY.md")).json()["text"] == "2"


async def test_of_racing_writers_with_one_etag_one_wins(http: httpx2.AsyncClient) -> None:
    tag = (await http.put("/MEMORY.md", json={"text": "0"})).headers["ETag"]
    races = [http.put("/MEMORY.md", json={"text": f"{n}"}, headers={"If-Match": tag}) for n in range(1, 9)]
    codes = [response.status_code for response in await asyncio.gather(*races)]
    assert sorted(codes) == [200] + [412] * 7


@pytest.mark.parametrize(
    "path",
    [
        "/notes.txt",
        "/.hidden.md",
        "/a/.b/c.md",
        "/%2e%2e/%2e%2e/x.md",
        "/a/b/c/d/e.md",
        "/agents/UP/MEMORY.md",
        "/x%00.md",
    ],
)
async def test_an_unsafe_path_is_refused(http: httpx2.AsyncClient, path: str) -> None:
    refused = await http.put(path, json={"text": "x"})
    assert refused.status_code in (400, 404), refused.text
    assert (await http.get("")).json() == {"items": []}


async def test_a_file_that_is_too_large_is_refused(http: httpx2.AsyncClient) -> None:
    refused = await http.put("/MEMORY.md", json={"text": "x" * (MAX_MEMORY_FILE_BYTES + 1)})
    assert refused.status_code == 413, refused.text


async def test_lines_are_found_in_english_and_japanese(http: httpx2.AsyncClient) -> None:
    await http.put("/MEMORY.md", json={"text": "- the meetings are on Monday\n- 会議室は三階です\n"})
    await http.put("/agents/bot/MEMORY.md", json={"text": "tea at four\n"})
    found = (await http.get("/search", params={"q": "when is the meeting"})).json()["hits"]
    assert [(hit["path"], hit["line"]) for hit in found] == [("MEMORY.md", 1)]
    assert [hit["line"] for hit in (await http.get("/search", params={"q": "会議室"})).json()["hits"]] == [2]
    for bad in ("", "?q=", f"?q={'x' * 1001}", "?q=x&limit=0", "?q=%00", "?q=%ff", "?q=x&scope=all"):
        assert (await http.get(f"/search{bad}")).status_code == 400, bad


async def test_a_space_sees_only_its_own_files(http: httpx2.AsyncClient, site: Site) -> None:
    await http.put("/MEMORY.md", json={"text": "the secret of one space"})
    other = f"files-{next(_numbers)}"
    await site.client.post("/api/spaces", json={"id": other})
    for path in ("", "/search?q=secret"):
        body = (await site.client.get(f"/api/spaces/{other}/memory{path}")).json()
        assert body in ({"items": []}, {"hits": []})
    assert (await site.client.get(f"/api/spaces/{other}/memory/MEMORY.md")).status_code == 404
    assert (await site.client.get("/api/spaces/nobody/memory")).status_code == 404
    assert (await site.client.get("/memory/MEMORY.md")).status_code == 404
