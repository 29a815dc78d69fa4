"""Artifacts over HTTP that an agent makes: with metadata, of a file, and in versions."""

from holdfast.domain.content import Json
from tests.api.site import Site


async def upload(site: Site) -> str:
    headers = {"Content-Type": "image/png"}
    response = await site.request("POST", "/api/files?name=scan.png", content=b"\x89PNG", headers=headers)
    file: str = response.json()["id"]
    return file


async def created_events(site: Site, run: str) -> list[Json]:
    events = (await site.get(f"/api/runs/{run}/events", type="CUSTOM", limit=200))["items"]
    return [each["data"]["value"] for each in events if each["data"]["name"] == "holdfast.artifact"]


async def test_an_agent_makes_new_versions_of_an_artifact_it_names(backend_site: Site) -> None:
    first = await backend_site.play(await backend_site.thread(agent_type="writer"))
    (artifact,) = (await backend_site.get(f"/api/runs/{first['id']}/artifacts"))["items"]
    run = await backend_site.play(await backend_site.thread(agent_type="editor"), artifact["id"])
    assert run["output"] == f'{{"artifact_id":"{artifact["id"]}","version":3}}'
    newest = await backend_site.get(f"/api/artifacts/{artifact['id']}")
    assert (newest["version"], newest["content"], newest["run_id"]) == (3, "# notes, draft 3", run["id"])
    assert (newest["type"], newest["title"], newest["metadata"]) == ("doc", "notes", {"pages": 2})
    assert [each["version"] for each in newest["versions"]] == [1, 2, 3]
    assert [each["version"] for each in await created_events(backend_site, run["id"])] == [2, 3]


async def test_an_agent_makes_an_artifact_of_a_file(backend_site: Site) -> None:
    file = await upload(backend_site)
    run = await backend_site.play(await backend_site.thread(agent_type="scanner"), file)
    (artifact,) = (await backend_site.get(f"/api/runs/{run['id']}/artifacts"))["items"]
    assert (artifact["file_id"], artifact["media_type"], artifact["size"]) == (file, "image/png", 4)
    assert (artifact["metadata"], artifact["title"]) == ({"dpi": 300}, "scan")
    (event,) = await created_events(backend_site, run["id"])
    assert (event["media_type"], event["size"], event["version"]) == ("image/png", 4, 1)


async def test_an_agent_makes_an_artifact_of_a_file_of_its_working_folder(backend_site: Site) -> None:
    run = await backend_site.play(await backend_site.thread(agent_type="charter"))
    (artifact,) = (await backend_site.get(f"/api/runs/{run['id']}/artifacts"))["items"]
    assert (artifact["title"], artifact["media_type"], artifact["size"]) == ("chart", "text/csv", 4)
    content = await backend_site.request("GET", f"/api/files/{artifact['file_id']}/content")
    assert content.content == b"1,2\n"
    messages = (await backend_site.get(f"/api/threads/{run['thread_id']}/messages"))["items"]
    denied, outside, missing = [message["content"] for message in messages if message["role"] == "tool"][2:]
    assert "do not allow `secret.txt` to be read" in denied
    assert outside.startswith("INVALID: ") and missing.startswith("NOT_FOUND: ")


async def test_an_artifact_or_a_file_that_does_not_exist_is_a_failed_call(site: Site) -> None:
    for agent, name in (("editor", "art_nothing"), ("scanner", "fil_nothing")):
        run = await site.play(await site.thread(agent_type=agent), name)
        assert run["status"] == "completed"
        assert run["output"].startswith("NOT_FOUND: ") and name in run["output"]
        assert (await site.get(f"/api/runs/{run['id']}/artifacts"))["items"] == []


async def test_an_artifact_of_a_file_has_its_media_type_unless_another_is_given(backend_site: Site) -> None:
    run, file = await backend_site.play(await backend_site.thread()), await upload(backend_site)
    path, body = f"/api/runs/{run['id']}/artifacts", {"type": "other", "title": "scan", "file_id": file}
    assert (await backend_site.post(path, body))["media_type"] == "image/png"
    assert (await backend_site.post(path, {**body, "media_type": "image/x-scan"}))["media_type"] == "image/x-scan"
    text = {"type": "doc", "title": "x", "content": "x"}
    assert (await backend_site.post(path, text))["media_type"] == "text/plain"


async def test_a_page_is_previewed_in_a_sandbox_with_a_policy_of_its_own(backend_site: Site) -> None:
    run = await backend_site.play(await backend_site.thread(agent_type="writer"))
    page = {"type": "doc", "title": "page", "content": "<h1>é</h1>", "media_type": "Text/HTML; charset=latin-1"}
    artifact = await backend_site.post(f"/api/runs/{run['id']}/artifacts", page)
    preview = await backend_site.request("GET", f"/api/artifacts/{artifact['id']}/preview")
    assert preview.content == "<h1>é</h1>".encode()
    assert preview.headers["content-type"] == "text/html; charset=utf-8"
    policy = preview.headers["content-security-policy"].split("; ")
    assert {"sandbox", "default-src 'none'", "frame-ancestors 'self'"} <= set(policy)
    assert not [each for each in policy if "script" in each or "http" in each]
    assert preview.headers["x-content-type-options"] == "nosniff"
    written = "<h1>ö</h1><LINK rel=preconnect href=//a.example>".encode("utf-16")
    file = await backend_site.request(
        "POST", "/api/files?name=a.html", content=written, headers={"Content-Type": "text/html"}
    )
    linked = {"type": "doc", "title": "linked", "file_id": file.json()["id"]}
    artifact = await backend_site.post(f"/api/runs/{run['id']}/artifacts", linked)
    preview = await backend_site.request("GET", f"/api/artifacts/{artifact['id']}/preview")
    assert preview.content.decode() == "<h1>ö</h1><x-LINK rel=preconnect href=//a.example>"
    content, headers = b"<svg xmlns='http://www.w3.org/2000/svg'/>", {"Content-Type": "image/svg+xml"}
    file = await backend_site.request("POST", "/api/files?name=a.svg", content=content, headers=headers)
    drawn = {"type": "doc", "title": "drawing", "file_id": file.json()["id"]}
    artifact = await backend_site.post(f"/api/runs/{run['id']}/artifacts", drawn)
    preview = await backend_site.request("GET", f"/api/spaces/default/artifacts/{artifact['id']}/preview?version=1")
    assert (preview.content, preview.headers["content-type"]) == (content, "image/svg+xml; charset=utf-8")
