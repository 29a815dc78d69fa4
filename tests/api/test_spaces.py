"""Spaces, agents, artifacts and files over HTTP."""

from holdfast.domain.artifact import MAX_FILE_BYTES
from holdfast.domain.content import Json
from tests.api.site import Site, eventually


async def test_the_objects_of_a_space_are_found_only_in_it(backend_site: Site) -> None:
    created = await backend_site.post("/api/spaces", {"id": "mine", "metadata": {"a": 1}})
    assert (created["id"], created["name"]) == ("mine", "mine")
    thread = (await backend_site.post("/api/spaces/mine/threads", {"agent_type": "bot"}))["id"]
    run = await backend_site.post(f"/api/spaces/mine/threads/{thread}/runs?wait=30", {"input": "hi"})
    assert (run["status"], run["space_id"]) == ("completed", "mine")
    for path in (f"threads/{thread}", f"runs/{run['id']}", f"runs/{run['id']}/events", f"threads/{thread}/messages"):
        await backend_site.get(f"/api/spaces/mine/{path}")
        await backend_site.get(f"/api/{path}", expect=404)
        await backend_site.get(f"/api/spaces/nowhere/{path}", expect=404)
    assert [each["id"] for each in (await backend_site.get("/api/spaces/mine/runs"))["items"]] == [run["id"]]
    assert (await backend_site.patch("/api/spaces/mine", {"name": "ours"}))["name"] == "ours"
    assert (await backend_site.get("/api/spaces/mine"))["metadata"] == {"a": 1}
    await backend_site.post("/api/spaces", {"id": "mine"}, expect=409)
    await backend_site.delete("/api/spaces/mine")
    await backend_site.get("/api/spaces/mine", expect=404)
    await backend_site.delete("/api/spaces/mine", expect=404)


async def test_files_of_a_space_are_deleted_with_it(backend_site: Site) -> None:
    files = backend_site.workshop.folder / ".holdfast/spaces/mine"
    for _ in range(2):
        await backend_site.post("/api/spaces", {"id": "mine"})
        assert not files.exists()
        await _grant(backend_site, "mine")
        assert [path.read_text() for path in files.glob("threads/*/note")] == ["a secret recipe"]
        await backend_site.delete("/api/spaces/mine")
        assert not files.exists()
        (files / "threads/left").mkdir(parents=True)  # by a crash, or a space of another database
    aside, mine = sorted(path.name for path in files.parent.iterdir())
    assert (aside.startswith(".aside-"), mine) == (True, "mine")
    assert (files.parent / aside / "threads/left").exists()


async def test_grants_are_listed_and_revoked(backend_site: Site) -> None:
    await backend_site.post("/api/spaces", {"id": "mine"})
    run = await _grant(backend_site, "mine")
    (grant,) = (await backend_site.get("/api/spaces/mine/grants"))["items"]
    assert (grant["agent"], grant["rule"], grant["run_id"]) == ("noter", "write_file(note)", run["id"])
    assert grant["interrupt_id"].startswith("int_") and grant["created_at"] and grant["revoked_at"] is None
    assert (await backend_site.get("/api/grants"))["items"] == []
    again = await backend_site.post(f"/api/spaces/mine/threads/{run['thread_id']}/runs?wait=30", {"input": "hi"})
    assert again["status"] == "completed"
    for place in (f"/api/grants/{grant['id']}", "/api/spaces/mine/grants/missing", "/api/spaces/none/grants/x"):
        assert (await backend_site.delete(place, expect=404))["error"]["code"] == "NOT_FOUND"
    revoked = await backend_site.delete(f"/api/spaces/mine/grants/{grant['id']}", expect=200)
    assert revoked["revoked_at"] is not None
    assert await backend_site.delete(f"/api/spaces/mine/grants/{grant['id']}", expect=200) == revoked
    assert (await backend_site.get("/api/spaces/mine/grants"))["items"] == [revoked]
    asking = await backend_site.post(f"/api/spaces/mine/threads/{run['thread_id']}/runs?wait=30", {"input": "hi"})
    assert asking["status"] == "waiting"


async def _grant(site: Site, space: str) -> Json:
    """Have an agent of a space write a file, with the answer "always", and return its run."""
    thread = (await site.post(f"/api/spaces/{space}/threads", {"agent_type": "noter"}))["id"]
    run = await site.post(f"/api/spaces/{space}/threads/{thread}/runs?wait=30", {"input": "hi"})
    assert run["status"] == "waiting"
    answer = {"response": {"decision": "always"}}
    await site.post(f"/api/spaces/{space}/runs/{run['id']}/respond", answer, expect=200)

    async def has_ended() -> bool:
        return bool((await site.get(f"/api/spaces/{space}/runs/{run['id']}"))["status"] == "completed")

    await eventually(has_ended)
    return run


async def test_the_default_space_cannot_be_deleted(site: Site) -> None:
    assert (await site.delete("/api/spaces/default", expect=409))["error"]["code"] == "IN_USE"
    assert "default" in [space["id"] for space in (await site.get("/api/spaces"))["items"]]


async def test_a_space_with_a_live_run_is_not_deleted(site: Site) -> None:
    await site.post("/api/spaces", {"id": "busy"})
    thread = (await site.post("/api/spaces/busy/threads", {"agent_type": "staller"}))["id"]
    run = await site.post(f"/api/spaces/busy/threads/{thread}/runs", {"input": "hi"})
    assert (await site.delete("/api/spaces/busy", expect=409))["error"]["code"] == "RUN_ACTIVE"
    await site.post(f"/api/spaces/busy/runs/{run['id']}/cancel", expect=200)

    async def delete_succeeds() -> bool:
        return (await site.request("DELETE", "/api/spaces/busy")).status_code == 204

    await eventually(delete_succeeds)  # once the worker has released the lease


async def test_agents_are_read_without_their_folder(site: Site) -> None:
    listed = await site.get("/api/agents")
    assert {"bot", "asker", "planner"} <= {agent["name"] for agent in listed["items"]}
    assert listed["broken"] == []
    agent = await site.get("/api/agents/bot")
    assert (agent["models"], agent["modes"], agent["instructions"]) == (
        ["scripted:script.json"],
        ["chat", "task"],
        "Do as you are told.",
    )
    assert "folder" not in agent
    await site.get("/api/agents/nobody", expect=404)


async def test_tools_are_listed_with_their_sources_and_agents(site: Site) -> None:
    tools = {tool["name"]: tool for tool in (await site.get("/api/tools"))["items"]}
    assert tools["bash"]["source"] == "builtin"
    assert (tools["read_file"]["read_only"], tools["bash"]["class"]) == (True, "effectful")
    assert "planner" in tools["plan_create"]["agents"]
    assert "bot" not in tools["plan_create"]["agents"]
    await site.get("/api/spaces/nowhere/tools", expect=404)


async def test_agents_are_listed_page_by_page(site: Site) -> None:
    all_items = [agent["name"] for agent in (await site.get("/api/agents", limit=200))["items"]]
    assert all_items == sorted(all_items)
    found: list[str] = []
    after: dict[str, Json] = {}
    while True:
        page = await site.get("/api/agents", limit=3, **after)
        assert len(page["items"]) <= 3
        found += [agent["name"] for agent in page["items"]]
        if page["next_cursor"] is None:
            break
        after = {"cursor": page["next_cursor"]}
    assert found == all_items
    later = await site.get("/api/agents", cursor="bot-that-is-gone")
    assert "bot" not in {agent["name"] for agent in later["items"]}
    await site.get("/api/agents", limit=0, expect=400)


async def test_an_invalid_agent_is_listed_as_broken(site: Site) -> None:
    folder = site.floor.holdfast.agents
    path = site.workshop.folder / "agents" / "broken" / "agent.json"
    path.parent.mkdir()
    path.write_text("{")
    folder.refresh()
    try:
        (broken,) = (await site.get("/api/agents"))["broken"]
        assert broken["name"] == "broken"
        await site.get("/api/agents/broken", expect=400)
    finally:
        path.unlink()
        folder.refresh()


async def test_an_artifact_has_versions(backend_site: Site) -> None:
    run = await backend_site.play(await backend_site.thread(agent_type="writer"))
    (created,) = (await backend_site.get(f"/api/runs/{run['id']}/artifacts"))["items"]
    assert (created["title"], created["version"], created["content"]) == ("notes", 1, None)
    body = {"id": created["id"], "type": "doc", "title": "notes", "content": "# more"}
    assert (await backend_site.post(f"/api/runs/{run['id']}/artifacts", body))["version"] == 2
    newest = await backend_site.get(f"/api/artifacts/{created['id']}")
    assert (newest["content"], [each["version"] for each in newest["versions"]]) == ("# more", [1, 2])
    assert (await backend_site.get(f"/api/artifacts/{created['id']}", version=1))["content"] == "# notes"
    await backend_site.get(f"/api/artifacts/{created['id']}", version=3, expect=404)
    listed = await backend_site.get("/api/spaces/default/artifacts")
    assert created["id"] in [each["id"] for each in listed["items"]]


async def test_the_artifacts_of_a_thread_are_paged_over_its_runs(site: Site) -> None:
    thread = await site.thread()
    created = []
    for count in (3, 0, 1, 2):
        run = await site.play(thread)
        for number in range(count):
            body = {"type": "doc", "title": f"{number}", "content": "x"}
            created.append((await site.post(f"/api/runs/{run['id']}/artifacts", body))["id"])
    for limit in (1, 2, 3, 200):
        seen = []
        async for items in site.pages(f"/api/threads/{thread}/artifacts", limit=limit):
            assert len(items) <= limit
            seen += [each["id"] for each in items]
        assert seen == created[::-1]


async def test_a_file_is_uploaded_read_used_and_deleted(backend_site: Site) -> None:
    content = bytes(range(256))
    headers = {"Content-Type": "image/png"}
    response = await backend_site.request(
        "POST", "/api/files", params={"name": "a b/ü.png"}, content=content, headers=headers
    )
    assert response.status_code == 201, response.text
    file = response.json()
    assert (file["name"], file["media_type"], file["size"]) == ("a b/ü.png", "image/png", 256)
    assert await backend_site.get(f"/api/files/{file['id']}") == file
    read = await backend_site.request("GET", f"/api/files/{file['id']}/content")
    assert (read.content, read.headers["content-type"]) == (content, "image/png")
    assert read.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20b%2F%C3%BC.png"
    assert "sandbox" in read.headers["content-security-policy"]
    run = await backend_site.play(await backend_site.thread())
    artifact_body = {"type": "other", "title": "picture", "file_id": file["id"]}
    await backend_site.post(f"/api/runs/{run['id']}/artifacts", artifact_body)
    assert (await backend_site.delete(f"/api/files/{file['id']}", expect=409))["error"]["code"] == "IN_USE"
    other = (await backend_site.request("POST", "/api/files?name=x", content=b"", headers=headers)).json()
    assert other["size"] == 0
    assert other["id"] in [each["id"] for each in (await backend_site.get("/api/files"))["items"]]
    await backend_site.delete(f"/api/files/{other['id']}")
    await backend_site.get(f"/api/files/{other['id']}/content", expect=404)


async def test_a_file_can_be_used_in_several_messages(site: Site) -> None:
    file = (
        await site.request("POST", "/api/files?name=x.png", content=b"x", headers={"Content-Type": "image/png"})
    ).json()
    source = {"type": "file", "value": file["id"]}
    for _ in range(2):
        body = {"messages": [{"content": [{"type": "image", "source": source}]}]}
        await site.post(f"/api/threads/{await site.thread()}/runs", body)


async def test_a_message_can_use_only_files_of_its_space(site: Site) -> None:
    await site.post("/api/spaces", {"id": "elsewhere"})
    foreign = (await site.request("POST", "/api/spaces/elsewhere/files?name=x", content=b"x")).json()["id"]
    thread, busy = await site.thread(), await site.thread(agent_type="staller")
    live = await site.post(f"/api/threads/{busy}/runs", {"input": "x"})
    for file in (foreign, "fil_none", "no id at all"):
        content = [{"type": "text", "text": "see"}, {"type": "image", "source": {"type": "file", "value": file}}]
        for path, body in (
            (f"/api/threads/{thread}/runs", {"messages": [{"content": content}]}),
            (f"/api/runs/{live['id']}/messages", {"content": content}),
        ):
            error = (await site.post(path, body, expect=404))["error"]
            assert (error["code"], error["details"]) == ("NOT_FOUND", {"id": file})
    assert (await site.get(f"/api/threads/{thread}"))["next_sequence"] == 0
    await site.post(f"/api/runs/{live['id']}/cancel", expect=200)


async def test_a_run_is_retried_after_its_file_was_deleted(site: Site) -> None:
    file = (await site.request("POST", "/api/files?name=x", content=b"x")).json()["id"]
    content = [{"type": "image", "source": {"type": "file", "value": file}}]
    path = f"/api/threads/{await site.thread(agent_type='failing')}/runs?wait=30"
    failed = await site.post(path, {"messages": [{"content": content}]})
    await site.delete(f"/api/files/{file}")
    retried = await site.post(f"/api/runs/{failed['id']}/retry", {"from": "start"})
    assert retried["id"] != failed["id"]


async def test_a_file_that_is_too_large_and_a_form_are_refused(site: Site) -> None:
    large = await site.request("POST", "/api/files?name=x", content=bytes(MAX_FILE_BYTES + 1))
    assert (large.status_code, large.json()["error"]["code"]) == (413, "BODY_TOO_LARGE")
    form = await site.request("POST", "/api/files?name=x", files={"file": b"x"})
    assert (form.status_code, form.json()["error"]["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


async def test_the_usage_of_a_space_is_reported_by_day_agent_model_and_key(backend_site: Site) -> None:
    await backend_site.post("/api/spaces", {"id": "metered"})
    body = {"input": "hi", "agent_type": "bot"}
    run = await backend_site.post("/api/spaces/metered/runs?wait=30", body)
    path = "/api/spaces/metered/usage"
    report = await backend_site.get(path)
    assert (report["group_by"], len(report["items"]), report["total"]["calls"]) == ("day", 1, 1)
    assert report["items"][0]["name"] == report["last_day"]
    for group, name in (("agent", "bot"), ("model", run["model_used"]), ("key", ""), ("thread", run["thread_id"])):
        (item,) = (await backend_site.get(path, group_by=group, **{"from": report["last_day"]}))["items"]
        assert (item["name"], item["input_tokens"]) == (name, run["usage"]["input_tokens"]), group
    assert (await backend_site.get(path, to="2000-01-31"))["items"] == []
    await backend_site.delete("/api/spaces/metered")


async def test_a_wrong_span_of_usage_is_refused(backend_site: Site) -> None:
    for query in (
        {"from": "2026-02-30"},
        {"from": "yesterday"},
        {"from": "2026-02-02", "to": "2026-02-01"},
        {"from": "2020-01-01", "to": "2026-01-01"},
        {"group_by": "colour"},
    ):
        assert (await backend_site.get("/api/usage", expect=400, **query))["error"]["code"] == "INVALID", query


async def test_queue_and_workers_show_the_space_and_the_process(backend_site: Site) -> None:
    async def is_there() -> bool:
        workers = (await backend_site.get("/api/workers"))["items"]
        return [(each["alive"], each["lost_leases"], each["runs"]) for each in workers] == [(True, 0, [])]

    await eventually(is_there)
    thread = await backend_site.thread(agent_type="staller")
    run = await backend_site.post(f"/api/threads/{thread}/runs", {"input": "go"})

    async def is_held() -> bool:
        (worker,) = (await backend_site.get("/api/workers"))["items"]
        return [(each["run_id"], each["thread_id"]) for each in worker["runs"]] == [(run["id"], thread)]

    await eventually(is_held)
    waiting = await backend_site.post(f"/api/threads/{thread}/runs", {"input": "then"})
    queue = await backend_site.get("/api/queue")
    assert [(each["run_id"], each["status"]) for each in queue["items"]] == [(waiting["id"], "pending")]
    assert (queue["counts"]["running"], queue["counts"]["pending"]) == (1, 1)
    await backend_site.post("/api/spaces", {"id": "apart"})
    (apart,) = (await backend_site.get("/api/spaces/apart/workers"))["items"]
    assert (apart["runs"], apart["other_runs"]) == ([], 1)
    assert (await backend_site.get("/api/spaces/apart/queue"))["items"] == []
    everywhere = await backend_site.get("/api/queue/spaces")
    assert [(each["space_id"], each["running"]) for each in everywhere["items"]] == [("default", 1)]
    assert everywhere["total"] == 1
    await backend_site.get("/api/queue/spaces", limit=0, expect=400)
    await backend_site.get("/api/queue", cursor="x", expect=400)
    await backend_site.get("/api/spaces/none/workers", expect=404)
    await backend_site.post(f"/api/runs/{run['id']}/cancel", expect=200)


async def test_the_budget_of_a_space_is_set_spent_and_removed(backend_site: Site) -> None:
    await backend_site.post("/api/spaces", {"id": "thrifty"})
    path = "/api/spaces/thrifty/budget"
    await backend_site.get(path, expect=404)
    budget = (await backend_site.request("PUT", path, json={"period": "month", "tokens": 9})).json()
    assert (budget["period"], budget["tokens"], budget["percent"], budget["cost_usd"]) == ("month", 9, 0, None)
    run = await backend_site.post("/api/spaces/thrifty/runs?wait=30", {"agent_type": "bot", "input": "x"})
    assert run["status"] == "completed"
    assert (await backend_site.get(path))["spent"]["tokens"] == 9
    run = await backend_site.post("/api/spaces/thrifty/runs?wait=30", {"agent_type": "bot", "input": "x"})
    assert (run["status"], run["error"]["code"], run["error"]["details"]["budget"]) == (
        "failed",
        "BUDGET_EXCEEDED",
        "space",
    )

    async def is_told() -> bool:
        news = (await backend_site.get("/api/spaces/thrifty/notifications"))["items"]
        return "budget.exceeded" in [each["kind"] for each in news]

    await eventually(is_told)
    refused: list[Json] = [
        {},
        {"period": "year", "tokens": 1},
        {"period": "day"},
        {"period": "day", "tokens": 0},
        {"period": "day", "tokens": 1.5},
        {"period": "day", "cost_usd": -1},
        {"period": "day", "cost_usd": 1e300},
        {"period": "day", "tokens": 2**60},
        {"period": "day", "cost_usd": 1, "currency": "EUR"},
        [],
    ]
    for bad in refused:
        response = await backend_site.request("PUT", path, json=bad)
        assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID"), bad
    assert (await backend_site.get(path))["tokens"] == 9
    assert (await backend_site.request("DELETE", path)).status_code == 204
    assert (await backend_site.request("DELETE", path)).status_code == 404
