"""A request that is sent again is answered as it was, whatever became of what it needed."""

import shutil
from pathlib import Path

from holdfast.domain.content import Json
from tests.api.conftest import write_agents
from tests.api.site import Site, eventually, serve_with_auth
from tests.scenario.agents.workshop import Workshop, say

ONCE = {"Idempotency-Key": "replayed"}


async def replayed(site: Site, path: str, body: Json, run: str) -> None:
    """Check that a request gets the run that it made, and that another one under its key gets none."""
    again = await site.request("POST", path, json=body, headers=ONCE)
    assert again.status_code == 201, again.text
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["id"] == run
    other = await site.post(path, {**body, "priority": "high"}, headers=ONCE, expect=409)
    assert other["error"]["code"] == "IDEMPOTENCY_MISMATCH"


async def test_a_run_is_returned_again_after_the_file_in_its_message_was_deleted(backend_site: Site) -> None:
    made = await backend_site.request("POST", "/api/files", params={"name": "a.txt"}, content=b"hi")
    file = made.json()["id"]
    body = {"messages": [{"content": [{"type": "document", "source": {"type": "file", "value": file}}]}]}
    path = f"/api/threads/{await backend_site.thread()}/runs"
    run = await backend_site.post(f"{path}?wait=30", body, headers=ONCE)
    await backend_site.delete(f"/api/files/{file}")
    assert (await backend_site.post(path, body, expect=404))["error"]["code"] == "NOT_FOUND"
    await replayed(backend_site, path, body, run["id"])


async def test_a_run_and_a_task_are_returned_again_after_their_agent_was_removed(tmp_path: Path) -> None:
    workshop = write_agents(Workshop(tmp_path / "workspace", tmp_path / "holdfast.db"))
    workshop.agent(say("done"), name="passing", task={"enabled": True})
    async with serve_with_auth(workshop) as site:
        path, body = f"/api/threads/{await site.thread(agent_type='passing')}/runs", {"input": "go"}
        run = await site.post(f"{path}?wait=30", body, headers=ONCE)
        task = await site.post("/agents/passing/task", body, headers={"Idempotency-Key": "task"}, expect=202)
        shutil.rmtree(workshop.folder / "agents" / "passing")

        async def gone() -> bool:
            return (await site.request("GET", "/api/agents/passing")).status_code == 404

        await eventually(gone)
        await site.post(path, body, expect=404)
        await replayed(site, path, body, run["id"])
        refused = await site.post("/agents/passing/task", body, expect=404)
        assert refused["error"]["code"] == "AGENT_NOT_FOUND"
        again = await site.request("POST", "/agents/passing/task", json=body, headers={"Idempotency-Key": "task"})
        assert (again.status_code, again.json()["taskId"]) == (202, task["taskId"])
        assert again.headers["idempotency-replayed"] == "true"


async def test_a_run_is_returned_again_where_the_queue_is_full(tmp_path: Path) -> None:
    workshop = write_agents(Workshop(tmp_path / "workspace", tmp_path / "holdfast.db"))
    async with serve_with_auth(workshop, max_queued_runs=1) as site:
        path, body = f"/api/threads/{await site.thread(agent_type='staller')}/runs", {"input": "go"}
        first = await site.post(path, body)

        async def at_work() -> bool:
            return bool((await site.get(f"/api/runs/{first['id']}"))["status"] == "running")

        await eventually(at_work)
        waiting = await site.post(path, body, headers=ONCE)
        await site.post(path, body, expect=429)
        await replayed(site, path, body, waiting["id"])
        for run in (waiting, first):
            await site.post(f"/api/runs/{run['id']}/cancel", expect=200)
