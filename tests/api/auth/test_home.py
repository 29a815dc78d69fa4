"""Who asks without naming a space is at home: every surface, and nothing of another space."""

import asyncio

import httpx2
import pytest
from openai import AsyncOpenAI, AuthenticationError, PermissionDeniedError

from holdfast.domain.content import Json
from holdfast.domain.ids import RunId, SpaceId
from tests.api.auth.conftest import OURS, THEIRS, House, checked
from tests.api.site import LIMIT


async def test_a_route_without_a_space_means_the_space_of_the_key(house: House, ours: str, theirs: str) -> None:
    thread = await house.post(ours, "/api/threads", {"agent_type": "bot"})
    assert thread["space_id"] == OURS
    assert await house.get(ours, f"/api/spaces/{OURS}/threads/{thread['id']}") == await house.get(
        ours, f"/api/threads/{thread['id']}"
    )
    assert (await house.ask(theirs, "GET", f"/api/threads/{thread['id']}")).status_code == 404
    assert (await house.ask(house.root, "GET", f"/api/threads/{thread['id']}")).status_code == 404  # it means `default`
    assert thread["id"] not in str(await house.get(theirs, "/api/threads"))


async def test_a_key_that_is_also_for_the_default_space_means_that_one(house: House) -> None:
    both = (await house.key("run", OURS, "default"))["secret"]
    assert (await house.post(both, "/api/threads", {"agent_type": "bot"}))["space_id"] == "default"


async def test_a_task_is_in_the_space_of_the_key(house: House, ours: str, theirs: str) -> None:
    made = await house.post(ours, "/agents/bot/task", {"input": "go"}, expect=202)
    task = made["taskId"]
    assert (await house.get(ours, f"/tasks/{task}"))["task"]["id"] == task
    assert checked(await house.ask(theirs, "GET", f"/tasks/{task}"), 404)["error"]["code"] == "TASK_NOT_FOUND"
    for way in ("GET", "DELETE"):
        assert (await house.ask(theirs, way, f"/tasks/{task}")).status_code == 404
    assert task not in str(await house.get(theirs, "/tasks"))
    run = await house.site.store.runs.get(SpaceId(OURS), RunId(task.replace("task_", "run_")))
    assert run.space_id == OURS


async def test_a_chat_is_in_the_space_of_the_key(house: House, ours: str, theirs: str) -> None:
    said = await house.post(ours, "/agents/bot/chat", {"message": "hi"}, expect=200)
    session = said["sessionId"]
    assert (await house.get(ours, f"/sessions/{session}"))["session"]["id"] == session
    assert (await house.ask(theirs, "GET", f"/sessions/{session}")).status_code == 404
    body = {"message": "and I?", "sessionId": session}
    assert (await house.ask(theirs, "POST", "/agents/bot/chat", json=body)).status_code == 404
    assert session not in str(await house.get(theirs, "/sessions"))


async def test_the_official_client_of_openai_completes_chats_in_the_space_of_its_key(house: House, ours: str) -> None:
    async with httpx2.AsyncClient(trust_env=False, timeout=LIMIT) as web:
        client = AsyncOpenAI(base_url=f"{house.site.url}/v1", api_key=ours, http_client=web)
        raw = await client.chat.completions.with_raw_response.create(
            model="bot", messages=[{"role": "user", "content": "hi"}]
        )
        assert raw.parse().choices[0].message.content == "hello you"
    thread = raw.headers["x-holdfast-thread"]
    assert (await house.get(ours, f"/api/threads/{thread}"))["space_id"] == OURS


async def test_the_official_client_of_openai_knows_what_a_key_is_refused_for(house: House) -> None:
    refused = [(None, AuthenticationError, "UNAUTHENTICATED"), ("read", PermissionDeniedError, "FORBIDDEN")]
    for scope, error, code in refused:
        key = "hf_wrong" if scope is None else house.keys[f"{OURS} {scope}"]
        async with httpx2.AsyncClient(trust_env=False, timeout=LIMIT) as web:
            client = AsyncOpenAI(base_url=f"{house.site.url}/v1", api_key=key, http_client=web)
            with pytest.raises(error) as caught:
                await client.chat.completions.create(model="bot", messages=[{"role": "user", "content": "hi"}])
        assert (caught.value.code, caught.value.type) == (code, "invalid_request_error")


async def test_an_ag_ui_client_runs_agents_in_the_space_of_its_key(house: House, ours: str, theirs: str) -> None:
    asked = {"threadId": "t-ag-ui", "runId": "r-ag-ui", "messages": [{"id": "m1", "role": "user", "content": "hi"}]}
    body: Json = asked | {"tools": [], "context": [], "state": {}, "forwardedProps": {}}
    answer = await house.ask(ours, "POST", "/api/agents/bot/run", json=body)
    assert (answer.status_code, answer.text.count("RUN_FINISHED")) == (200, 1)
    assert (await house.get(ours, "/api/runs/r-ag-ui"))["space_id"] == OURS
    assert (await house.ask(theirs, "GET", "/api/runs/r-ag-ui")).status_code == 404
    assert (await house.ask(theirs, "GET", "/api/runs/r-ag-ui/segment")).status_code == 404
    twin = await house.ask(theirs, "POST", "/api/agents/bot/run", json=body)
    assert twin.status_code == 200  # an id that they have not used


async def test_streams_of_another_space_are_not_there(house: House, ours: str, theirs: str) -> None:
    thread = (await house.post(ours, "/api/threads", {"agent_type": "bot"}))["id"]
    run = (await house.post(ours, f"/api/threads/{thread}/runs?wait=30", {"input": "go"}))["id"]
    assert (await house.ask(ours, "GET", f"/api/runs/{run}/sse")).status_code == 200
    assert (await house.ask(theirs, "GET", f"/api/runs/{run}/sse")).status_code == 404
    assert (await house.ask(theirs, "GET", f"/api/spaces/{OURS}/feed")).status_code == 404


async def test_who_may_only_see_one_space_sees_one_space(house: House, theirs: str) -> None:
    assert [space["id"] for space in (await house.get(theirs, "/api/spaces"))["items"]] == [THEIRS]
    assert (await house.ask(theirs, "POST", "/api/spaces", json={"id": "more"})).status_code == 403


@pytest.mark.parametrize("scope", ["read", "run", "admin"])
async def test_the_numbers_of_the_whole_server_are_for_those_with_every_space(house: House, scope: str) -> None:
    assert (await house.ask(house.keys[f"{OURS} {scope}"], "GET", "/metrics")).status_code == 403
    everywhere = (await house.key("read", every_space=True))["secret"]
    assert (await house.ask(everywhere, "GET", "/metrics")).status_code == 200


async def test_many_ask_at_once_and_each_is_at_home(house: House, ours: str, theirs: str) -> None:
    async def at_home(secret: str, space: str) -> bool:
        made = await house.post(secret, "/api/threads", {"agent_type": "bot"})
        return bool(made["space_id"] == space)

    asked = [at_home(ours, OURS) if number % 2 else at_home(theirs, THEIRS) for number in range(40)]
    assert all(await asyncio.gather(*asked))
