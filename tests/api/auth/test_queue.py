"""How many runs of a space may wait."""

from pathlib import Path

import httpx2
import pytest
from openai import AsyncOpenAI, RateLimitError

from tests.api.auth.conftest import OURS, THEIRS, checked, furnish
from tests.api.conftest import fill
from tests.api.site import LIMIT, eventually, guarded
from tests.scenario.agents.agent_workspace import AgentWorkspace


async def test_a_space_whose_queue_is_full_takes_no_run_and_others_do(tmp_path: Path) -> None:
    workshop = fill(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    async with guarded(workshop, most_queued=2) as site:
        house = await furnish(site)
        ours, theirs = house.keys[f"{OURS} run"], house.keys[f"{THEIRS} run"]
        threads = [(await house.post(key, "/api/threads", {"agent_type": "staller"}))["id"] for key in (ours, theirs)]
        first = (await house.post(ours, f"/api/threads/{threads[0]}/runs", {"input": "go"}))["id"]

        async def at_work() -> bool:
            return bool((await house.get(ours, f"/api/runs/{first}"))["status"] == "running")

        await eventually(at_work)
        for _ in range(2):  # they wait for the first
            await house.post(ours, f"/api/threads/{threads[0]}/runs", {"input": "go"})
        refused = await house.ask(ours, "POST", f"/api/threads/{threads[0]}/runs", json={"input": "go"})
        assert checked(refused, 429)["error"]["code"] == "QUEUE_FULL"
        assert refused.headers["retry-after"] == "5"
        assert (await house.ask(ours, "POST", "/agents/bot/task", json={"input": "x"})).status_code == 429
        async with httpx2.AsyncClient(trust_env=False, timeout=LIMIT) as web:
            client = AsyncOpenAI(base_url=f"{site.url}/v1", api_key=ours, http_client=web, max_retries=0)
            with pytest.raises(RateLimitError) as caught:
                await client.chat.completions.create(model="bot", messages=[{"role": "user", "content": "hi"}])
        assert caught.value.response.headers["retry-after"] == "5"
        await house.post(theirs, f"/api/threads/{threads[1]}/runs", {"input": "go"})
        for space, key in ((OURS, ours), (THEIRS, theirs)):
            for run in (await house.get(key, "/api/runs"))["items"]:
                assert run["space_id"] == space
                await house.ask(key, "POST", f"/api/runs/{run['id']}/cancel")
        again = (await house.post(ours, f"/api/threads/{threads[0]}/runs", {"input": "go"}))["id"]
        await house.post(ours, f"/api/runs/{again}/cancel", expect=200)
