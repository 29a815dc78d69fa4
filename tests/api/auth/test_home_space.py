"""Requests without a space in the path use the home space of their key, in every API."""

import asyncio

import httpx2
import pytest
from openai import AsyncOpenAI, AuthenticationError, PermissionDeniedError

from holdfast.domain.content import Json
from holdfast.domain.ids import RunId, SpaceId
from tests.api.auth.conftest import ACME, GLOBEX, AuthSite, check_status
from tests.api.site import TIMEOUT_SECONDS


async def test_a_route_without_a_space_means_the_space_of_the_key(
    auth_site: AuthSite, acme_key: str, globex_key: str
) -> None:
    thread = await auth_site.post(acme_key, "/api/threads", {"agent_type": "bot"})
    assert thread["space_id"] == ACME
    assert await auth_site.get(acme_key, f"/api/spaces/{ACME}/threads/{thread['id']}") == await auth_site.get(
        acme_key, f"/api/threads/{thread['id']}"
    )
    assert (await auth_site.request(globex_key, "GET", f"/api/threads/{thread['id']}")).status_code == 404
    assert (
        await auth_site.request(auth_site.root, "GET", f"/api/threads/{thread['id']}")
    ).status_code == 404  # the home space of the root key is `default`
    assert thread["id"] not in str(await auth_site.get(globex_key, "/api/threads"))


async def test_a_key_that_includes_the_default_space_means_that_space(auth_site: AuthSite) -> None:
    both = (await auth_site.key("run", ACME, "default"))["secret"]
    assert (await auth_site.post(both, "/api/threads", {"agent_type": "bot"}))["space_id"] == "default"


async def test_a_task_is_in_the_space_of_the_key(auth_site: AuthSite, acme_key: str, globex_key: str) -> None:
    created = await auth_site.post(acme_key, "/agents/bot/task", {"input": "go"}, expect=202)
    task = created["taskId"]
    assert (await auth_site.get(acme_key, f"/tasks/{task}"))["task"]["id"] == task
    assert (
        check_status(await auth_site.request(globex_key, "GET", f"/tasks/{task}"), 404)["error"]["code"]
        == "TASK_NOT_FOUND"
    )
    for method in ("GET", "DELETE"):
        assert (await auth_site.request(globex_key, method, f"/tasks/{task}")).status_code == 404
    assert task not in str(await auth_site.get(globex_key, "/tasks"))
    run = await auth_site.site.store.runs.get(SpaceId(ACME), RunId(task.replace("task_", "run_")))
    assert run.space_id == ACME


async def test_a_chat_is_in_the_space_of_the_key(auth_site: AuthSite, acme_key: str, globex_key: str) -> None:
    chat = await auth_site.post(acme_key, "/agents/bot/chat", {"message": "hi"}, expect=200)
    session = chat["sessionId"]
    assert (await auth_site.get(acme_key, f"/sessions/{session}"))["session"]["id"] == session
    assert (await auth_site.request(globex_key, "GET", f"/sessions/{session}")).status_code == 404
    body = {"message": "and I?", "sessionId": session}
    assert (await auth_site.request(globex_key, "POST", "/agents/bot/chat", json=body)).status_code == 404
    assert session not in str(await auth_site.get(globex_key, "/sessions"))


async def test_the_openai_client_completes_chats_in_the_space_of_its_key(auth_site: AuthSite, acme_key: str) -> None:
    async with httpx2.AsyncClient(trust_env=False, timeout=TIMEOUT_SECONDS) as web:
        client = AsyncOpenAI(base_url=f"{auth_site.site.url}/v1", api_key=acme_key, http_client=web)
        raw_response = await client.chat.completions.with_raw_response.create(
            model="bot", messages=[{"role": "user", "content": "hi"}]
        )
        assert raw_response.parse().choices[0].message.content == "hello you"
    thread = raw_response.headers["x-holdfast-thread"]
    assert (await auth_site.get(acme_key, f"/api/threads/{thread}"))["space_id"] == ACME


async def test_the_openai_client_raises_the_matching_error_for_a_refused_key(auth_site: AuthSite) -> None:
    refused = [(None, AuthenticationError, "UNAUTHENTICATED"), ("read", PermissionDeniedError, "FORBIDDEN")]
    for scope, error, code in refused:
        key = "hf_wrong" if scope is None else auth_site.keys[f"{ACME} {scope}"]
        async with httpx2.AsyncClient(trust_env=False, timeout=TIMEOUT_SECONDS) as web:
            client = AsyncOpenAI(base_url=f"{auth_site.site.url}/v1", api_key=key, http_client=web)
            with pytest.raises(error) as caught:
                await client.chat.completions.create(model="bot", messages=[{"role": "user", "content": "hi"}])
        assert (caught.value.code, caught.value.type) == (code, "invalid_request_error")


async def test_an_ag_ui_client_runs_agents_in_the_space_of_its_key(
    auth_site: AuthSite, acme_key: str, globex_key: str
) -> None:
    request_body = {
        "threadId": "t-ag-ui",
        "runId": "r-ag-ui",
        "messages": [{"id": "m1", "role": "user", "content": "hi"}],
    }
    body: Json = request_body | {"tools": [], "context": [], "state": {}, "forwardedProps": {}}
    response = await auth_site.request(acme_key, "POST", "/api/agents/bot/run", json=body)
    assert (response.status_code, response.text.count("RUN_FINISHED")) == (200, 1)
    assert (await auth_site.get(acme_key, "/api/runs/r-ag-ui"))["space_id"] == ACME
    assert (await auth_site.request(globex_key, "GET", "/api/runs/r-ag-ui")).status_code == 404
    assert (await auth_site.request(globex_key, "GET", "/api/runs/r-ag-ui/segment")).status_code == 404
    second = await auth_site.request(globex_key, "POST", "/api/agents/bot/run", json=body)
    assert second.status_code == 200  # ids are separate in each space


async def test_streams_of_another_space_are_not_found(auth_site: AuthSite, acme_key: str, globex_key: str) -> None:
    thread = (await auth_site.post(acme_key, "/api/threads", {"agent_type": "bot"}))["id"]
    run = (await auth_site.post(acme_key, f"/api/threads/{thread}/runs?wait=30", {"input": "go"}))["id"]
    assert (await auth_site.request(acme_key, "GET", f"/api/runs/{run}/sse")).status_code == 200
    assert (await auth_site.request(globex_key, "GET", f"/api/runs/{run}/sse")).status_code == 404
    assert (await auth_site.request(globex_key, "GET", f"/api/spaces/{ACME}/feed")).status_code == 404


async def test_a_key_of_one_space_lists_only_that_space(auth_site: AuthSite, globex_key: str) -> None:
    assert [space["id"] for space in (await auth_site.get(globex_key, "/api/spaces"))["items"]] == [GLOBEX]
    assert (await auth_site.request(globex_key, "POST", "/api/spaces", json={"id": "more"})).status_code == 403


@pytest.mark.parametrize("scope", ["read", "run", "admin"])
async def test_what_concerns_all_spaces_needs_a_key_for_every_space(auth_site: AuthSite, scope: str) -> None:
    everywhere = (await auth_site.key("read", every_space=True))["secret"]
    for path in ("/metrics", "/api/queue/spaces"):
        assert (await auth_site.request(auth_site.keys[f"{ACME} {scope}"], "GET", path)).status_code == 403
        assert (await auth_site.request(everywhere, "GET", path)).status_code == 200


async def test_concurrent_requests_use_the_space_of_their_own_key(
    auth_site: AuthSite, acme_key: str, globex_key: str
) -> None:
    async def creates_in_own_space(secret: str, space: str) -> bool:
        created = await auth_site.post(secret, "/api/threads", {"agent_type": "bot"})
        return bool(created["space_id"] == space)

    checks = [
        creates_in_own_space(acme_key, ACME) if number % 2 else creates_in_own_space(globex_key, GLOBEX)
        for number in range(40)
    ]
    assert all(await asyncio.gather(*checks))
