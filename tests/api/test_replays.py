"""A repeated request returns the first result, even if its agent or file is gone or the queue is full."""

import shutil
from pathlib import Path

from holdfast.domain.content import Json
from tests.api.conftest import write_agents
from tests.api.site import Site, eventually, serve_with_auth
from tests.scenario.agents.agent_workspace import AgentWorkspace, say

IDEMPOTENCY_KEY = {"Idempotency-Key": "replayed"}


async def check_replay(site: Site, path: str, body: Json, run: str) -> None:
    """Check that a repeated request returns its run, and that another request under its key is refused."""
    replay = await site.request("POST", path, json=body, headers=IDEMPOTENCY_KEY)
    assert replay.status_code == 201, replay.text
    assert replay.headers["idempotency-replayed"] == "true"
    assert replay.json()["id"] == run
    other = await site.post(path, {**body, "priority": "high"}, headers=IDEMPOTENCY_KEY, expect=409)
    assert other["error"]["code"] == "IDEMPOTENCY_MISMATCH"


async def test_a_run_is_replayed_after_the_file_in_its_message_was_deleted(backend_site: Site) -> None:
    upload = await backend_site.request("POST", "/api/files", params={"name": "a.txt"}, content=b"hi")
    file = upload.json()["id"]
    body = {"messages": [{"content": [{"type": "document", "source": {"type": "file", "value": file}}]}]}
    path = f"/api/threads/{await backend_site.thread()}/runs"
    run = await backend_site.post(f"{path}?wait=30", body, headers=IDEMPOTENCY_KEY)
    await backend_site.delete(f"/api/files/{file}")
    assert (await backend_site.post(path, body, expect=404))["error"]["code"] == "NOT_FOUND"
    await check_replay(backend_site, path, body, run["id"])


async def test_a_run_and_a_task_are_replayed_after_their_agent_was_removed(tmp_path: Path) -> None:
    workshop = write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    workshop.agent(say("done"), name="passing", task={"enabled": True})
    async with serve_with_auth(workshop) as site:
        path, body = f"/api/threads/{await site.thread(agent_type='passing')}/runs", {"input": "go"}
        run = await site.post(f"{path}?wait=30", body, headers=IDEMPOTENCY_KEY)
        task = await site.post("/agents/passing/task", body, headers={"Idempotency-Key": "task"}, expect=202)
        shutil.rmtree(workshop.folder / "agents" / "passing")

        async def is_removed() -> bool:
            return (await site.request("GET", "/api/agents/passing")).status_code == 404

        await eventually(is_removed)
        await site.post(path, body, expect=404)
        await check_replay(site, path, body, run["id"])
        refused = await site.post("/agents/passing/task", body, expect=404)
        assert refused["error"]["code"] == "AGENT_NOT_FOUND"
        replay = await site.request("POST", "/agents/passing/task", json=body, headers={"Idempotency-Key": "task"})
        assert (replay.status_code, replay.json()["taskId"]) == (202, task["taskId"])
        assert replay.headers["idempotency-replayed"] == "true"


async def test_a_run_is_replayed_while_the_queue_is_full(tmp_path: Path) -> None:
    workshop = write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    async with serve_with_auth(workshop, max_queued_runs=1) as site:
        path, body = f"/api/threads/{await site.thread(agent_type='staller')}/runs", {"input": "go"}
        first = await site.post(path, body)

        async def is_running() -> bool:
            return bool((await site.get(f"/api/runs/{first['id']}"))["status"] == "running")

        await eventually(is_running)
        waiting = await site.post(path, body, headers=IDEMPOTENCY_KEY)
        await site.post(path, body, expect=429)
        await check_replay(site, path, body, waiting["id"])
        for run in (waiting, first):
            await site.post(f"/api/runs/{run['id']}/cancel", expect=200)
