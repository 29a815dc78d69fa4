"""Skills over HTTP: create, change, enable, import and export custom ones, the catalog, and the skills of a run."""

import io
import stat
import zipfile
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import httpx2
import pytest

from tests.api.site import Site

BODY = {"name": "scales", "description": "Weigh parcels.", "instructions": "Use the scales."}
_numbers = count()


@pytest.fixture
async def http(shared_backend_site: Site) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a client of a space of its own."""
    space = f"skills-{next(_numbers)}"
    await shared_backend_site.client.post("/api/spaces", json={"id": space})
    async with httpx2.AsyncClient(base_url=f"{shared_backend_site.url}/api/spaces/{space}") as client:
        yield client


async def make(http: httpx2.AsyncClient, **fields: Any) -> dict[str, Any]:
    made = await http.post("/skills", json={**BODY, **fields})
    assert made.status_code == 201, made.text
    body: dict[str, Any] = made.json()
    return body


def archive(
    files: dict[str, str | bytes], *, links: tuple[str, ...] = (), compression: int = zipfile.ZIP_STORED
) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path)
            entry.compress_type = compression
            if path in links:
                entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            opened.writestr(entry, content)
    return packed.getvalue()


def damaged(packed: bytes) -> bytes:
    """Return an archive whose first entry has another content than its compression allows."""
    start = packed.index(b"SKILL.md") + len(b"SKILL.md")
    return packed[:start] + b"\xff" * 8 + packed[start + 8 :]


SKILL_MD = (
    "---\nname: scales\ndescription: Weigh parcels.\nmetadata: {triggers: [weigh parcel]}\n---\nUse the scales.\n"
)


async def test_a_skill_is_created_read_changed_listed_and_deleted(http: httpx2.AsyncClient) -> None:
    skill = await make(http, contract={"must_produce": [{"kind": "artifact", "type": "report"}]})
    one = f"/skills/{skill['id']}"
    read = await http.get(one)
    assert (read.json(), read.headers["etag"]) == (skill, '"1"')
    assert skill["contract"]["must_produce"] == [{"kind": "artifact", "type": "report", "title": None}]
    changed = await http.patch(one, json={"triggers": ["weigh"]}, headers={"If-Match": '"1"'})
    assert (changed.json()["version"], changed.headers["etag"]) == (2, '"2"')
    stale = await http.patch(one, json={"triggers": []}, headers={"If-Match": '"1"'})
    assert (stale.status_code, stale.json()["error"]["code"]) == (412, "VERSION_CHANGED")
    assert (await http.patch(one, json={"triggers": []}, headers={"If-Match": "x"})).status_code == 400
    for wrong in ({"priority": 2**70}, {"locale": "/x"}, {}):
        assert (await http.patch(one, json=wrong)).status_code == 400
    assert (await http.delete(one, headers={"If-Match": '"1"'})).status_code == 412
    disabled = (await http.post(f"{one}/disable")).json()
    assert (disabled["enabled"], disabled["version"]) == (False, 3)
    assert (await http.post(f"{one}/disable")).json()["version"] == 3
    assert (await http.post(f"{one}/enable")).json()["version"] == 4
    versions = (await http.get(f"{one}/versions")).json()["items"]
    assert [(each["version"], each["enabled"]) for each in versions] == [(1, True), (2, True), (3, False), (4, True)]
    assert [each["id"] for each in (await http.get("/skills")).json()["items"]] == [skill["id"]]
    assert (await http.delete(one)).status_code == 204
    assert (await http.get(one)).status_code == 404


async def test_a_key_creates_one_skill(http: httpx2.AsyncClient) -> None:
    key = {"Idempotency-Key": "k"}
    first, second = [await http.post("/skills", json=BODY, headers=key) for _ in range(2)]
    assert first.json() == second.json() and second.headers["idempotency-replayed"] == "true"
    assert (await http.post("/skills", json={**BODY, "name": "other"}, headers=key)).status_code == 409
    assert len((await http.get("/skills")).json()["items"]) == 1


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"name": "a/b"}, 400, "letters, digits"),
        ({"name": "../up"}, 400, "letters, digits"),
        ({"description": ""}, 400, "say what the skill does"),
        ({"description": "bell \u0007"}, 400, "control character"),
        ({"instructions": "red \u009b31m"}, 400, "control character"),
        ({"contract": {"must_produce": [{"kind": "file", "path": "a\u001b[2J"}]}}, 400, "control character"),
        ({"contract": {"must_produce": [{"kind": "file", "path": "a" * 9_000}]}}, 413, "characters"),
        ({"instructions": "x" * 60_000}, 413, "50000"),
        ({"triggers": [f"t{number}" for number in range(5_000)]}, 400, "at most 64"),
        ({"contract": {"must_produce": [{"kind": "artifact", "title": "("}]}}, 400, "regular expression"),
        ({"contract": {"must_produce": [{"kind": "file", "path": "../x"}]}}, 400, "working folder"),
        ({"contract": {"must_produce": [{"kind": "wish"}]}}, 400, "contract.must_produce[0].kind"),
        ({"locale": "../x"}, 400, "must be a language"),
        ({"translations": {"../../x": {"description": "d", "instructions": "i"}}}, 400, "must be languages"),
        ({"unknown": 1}, 400, "unknown"),
    ],
)
async def test_a_bad_skill_is_refused_and_nothing_changes(
    http: httpx2.AsyncClient, fields: dict[str, Any], status: int, message: str
) -> None:
    refused = await http.post("/skills", json={**BODY, **fields})
    assert refused.status_code == status, refused.text
    assert message in refused.json()["error"]["message"]
    assert (await http.get("/skills")).json()["items"] == []


async def test_a_folder_is_imported_changed_and_exported(http: httpx2.AsyncClient) -> None:
    files: dict[str, str | bytes] = {
        "scales/SKILL.md": SKILL_MD,
        "scales/SKILL.ja.md": "---\ndescription: 量る。\n---\nはかりを使う。",
        "scales/scripts/weigh.py": "print(3)",
        "scales/.DS_Store": b"\x00",
        "__MACOSX/scales/x": b"\x00",
    }
    made = await http.post("/skills/import", content=archive(files), headers={"Content-Type": "application/zip"})
    assert made.status_code == 201, made.text
    imported = made.json()
    assert (imported["created"], imported["skill"]["triggers"]) == (True, ["weigh parcel"])
    assert [file["path"] for file in imported["skill"]["files"]] == ["scripts/weigh.py"]
    assert imported["skill"]["translations"]["ja"]["description"] == "量る。"
    exported = await http.get(f"/skills/{imported['skill']['id']}/export")
    assert exported.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(exported.content)) as opened:
        assert sorted(opened.namelist()) == ["scales/SKILL.ja.md", "scales/SKILL.md", "scales/scripts/weigh.py"]
    again = (await http.post("/skills/import", content=exported.content)).json()
    assert (again["created"], again["skill"]["version"]) == (False, 2)
    same = {key: value for key, value in again["skill"].items() if key not in ("version", "updated_at")}
    assert same == {key: value for key, value in imported["skill"].items() if key not in ("version", "updated_at")}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a zip", "not a zip archive"),
        (archive({"x.md": "x"}), "has no `SKILL.md`"),
        (archive({"a/SKILL.md": SKILL_MD, "b/SKILL.md": SKILL_MD}), "more than one"),
        (archive({"scales/SKILL.md": SKILL_MD, "../evil": "x"}), "outside of the folder"),
        (archive({"scales/SKILL.md": SKILL_MD, "/etc/evil": "x"}), "outside of the folder"),
        (archive({"scales/SKILL.md": SKILL_MD, "scales\\..\\evil": "x"}), "outside of the folder"),
        (archive({"scales/SKILL.md": SKILL_MD, "scales/x": "/etc/passwd"}, links=("scales/x",)), "is a link"),
        (archive({"scales/SKILL.md": SKILL_MD, "scales/big": b"0" * 1_100_000}), "too large"),
        (archive({"scales/SKILL.md": "no frontmatter"}), "SKILL.md: line 1"),
        (archive({"scales/SKILL.md": "---\nname: a/b\ndescription: x\n---\n"}), "SKILL.md: line 2"),
        (archive({f"scales/{number}": "x" for number in range(600)}), "at most 500"),
        (damaged(archive({"scales/SKILL.md": SKILL_MD * 40}, compression=zipfile.ZIP_DEFLATED)), "can be read"),
        (archive({"scales/SKILL.md": SKILL_MD}, compression=zipfile.ZIP_LZMA), "in an unusual way"),
    ],
)
async def test_a_bad_archive_is_refused_and_nothing_changes(
    http: httpx2.AsyncClient, content: bytes, message: str
) -> None:
    refused = await http.post("/skills/import", content=content)
    assert refused.status_code in (400, 413), refused.text
    assert message in refused.json()["error"]["message"]
    assert (await http.get("/skills")).json()["items"] == []


async def test_the_catalog_shows_every_source_and_what_is_shadowed(http: httpx2.AsyncClient) -> None:
    await make(http, name="summarise", description="Our own way.")
    items = (await http.get("/skills/catalog", params={"agent": "bot", "locale": "ja"})).json()["items"]
    shown = [(each["source"], each["shadowed_by"]) for each in items if each["name"] == "summarise"]
    assert shown == [("space", None), ("official", "space")]
    brief = next(each for each in items if each["name"] == "research-brief")
    assert brief["description"].startswith("複数の情報源") and brief["locales"] == ["en", "ja"]
    assert (brief["availability"], brief["availability_reasons"]) == (
        "unavailable",
        ["the tool `create_artifact` is missing"],
    )
    anyone = (await http.get("/skills/catalog")).json()
    assert {each["availability"] for each in anyone["items"]} == {"available"}
    assert (await http.get("/skills/catalog", params={"agent": "nobody"})).status_code == 404


async def test_a_run_without_skills_has_none(shared_backend_site: Site) -> None:
    run = await shared_backend_site.play(await shared_backend_site.thread())
    read = await shared_backend_site.client.get(f"/api/runs/{run['id']}/skills")
    assert read.status_code == 200, read.text
    assert read.json() == {
        "run_id": run["id"],
        "locale": None,
        "active": [],
        "left_out": [],
        "produced": [],
        "contract_reminders": 0,
        "contracts": [],
    }
    assert (await shared_backend_site.client.get("/api/runs/run_missing/skills")).status_code == 404


async def test_the_language_of_a_request_counts_below_the_threads_and_above_the_texts(
    shared_backend_site: Site,
) -> None:
    site = shared_backend_site
    site.workshop.agent(name="linguist", skills="auto")
    site.workshop.script({"say": "done"}, agent="linguist", after_last="repeat")

    async def locale(header: str | None, *, text: str = "go", **thread: Any) -> str:
        made = await site.post("/api/threads", {"agent_type": "linguist", **thread})
        options: dict[str, Any] = {} if header is None else {"headers": {"Accept-Language": header}}
        run = await site.post(f"/api/threads/{made['id']}/runs?wait=30", {"input": text}, **options)
        found: str = (await site.get(f"/api/runs/{run['id']}/skills"))["locale"]
        return found

    assert await locale("ja-JP,ja;q=0.9,en;q=0.8") == "ja"
    assert await locale("fr;q=0.1, de;q=0.7", text="こんにちは") == "de"
    assert await locale("ja", locale="en") == "en"
    assert await locale(None, text="こんにちは") == "ja"
    assert await locale("*;q=x", text="hello") == "en"
