"""The limit of queued runs in a space."""

from pathlib import Path

import httpx2
import pytest
from openai import AsyncOpenAI, RateLimitError

from tests.api.auth.conftest import ACME, GLOBEX, check_status, create_keys
from tests.api.conftest import write_agents
from tests.api.site import TIMEOUT_SECONDS, eventually, serve_with_auth
from tests.scenario.agents.agent_workspace import AgentWorkspace


async def test_a_space_with_a_full_queue_refuses_runs_and_others_accept_them(tmp_path: Path) -> None:
    workshop = write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    async with serve_with_auth(workshop, max_queued_runs=2) as site:
        auth_site = await create_keys(site)
        acme_key, globex_key = auth_site.keys[f"{ACME} run"], auth_site.keys[f"{GLOBEX} run"]
        threads = [
            (await auth_site.post(key, "/api/threads", {"agent_type": "staller"}))["id"]
            for key in (acme_key, globex_key)
        ]
        first = (await auth_site.post(acme_key, f"/api/threads/{threads[0]}/runs", {"input": "go"}))["id"]

        async def is_running() -> bool:
            return bool((await auth_site.get(acme_key, f"/api/runs/{first}"))["status"] == "running")

        await eventually(is_running)
        for _ in range(2):  # queued behind the first
            await auth_site.post(acme_key, f"/api/threads/{threads[0]}/runs", {"input": "go"})
        refused = await auth_site.request(acme_key, "POST", f"/api/threads/{threads[0]}/runs", json={"input": "go"})
        assert check_status(refused, 429)["error"]["code"] == "QUEUE_FULL"
        assert refused.headers["retry-after"] == "5"
        assert (await auth_site.request(acme_key, "POST", "/agents/bot/task", json={"input": "x"})).status_code == 429
        async with httpx2.AsyncClient(trust_env=False, timeout=TIMEOUT_SECONDS) as web:
            client = AsyncOpenAI(base_url=f"{site.url}/v1", api_key=acme_key, http_client=web, max_retries=0)
            with pytest.raises(RateLimitError) as caught:
                await client.chat.completions.create(model="bot", messages=[{"role": "user", "content": "hi"}])
        assert caught.value.response.headers["retry-after"] == "5"
        await auth_site.post(globex_key, f"/api/threads/{threads[1]}/runs", {"input": "go"})
        for space, key in ((ACME, acme_key), (GLOBEX, globex_key)):
            for run in (await auth_site.get(key, "/api/runs"))["items"]:
                assert run["space_id"] == space
                await auth_site.request(key, "POST", f"/api/runs/{run['id']}/cancel")
        accepted = (await auth_site.post(acme_key, f"/api/threads/{threads[0]}/runs", {"input": "go"}))["id"]
        await auth_site.post(acme_key, f"/api/runs/{accepted}/cancel", expect=200)
