"""AG-UI requests: tolerated deviations, and errors before a stream starts."""

from typing import Any

import pytest
from ag_ui.core import AgentCapabilities

from holdfast.domain.content import Json
from tests.api.site import Site


def request_body(thread: str, run: str = "some-run", **more: Json) -> dict[str, Any]:
    return {"threadId": thread, "runId": run, "messages": [{"id": "u", "role": "user", "content": "hi"}], **more}


def event_types(stream: str) -> list[str]:
    frames = [line for line in stream.splitlines() if line.startswith("data: ")]
    return [frame.split('"type":"')[1].split('"')[0] for frame in frames]


async def test_unknown_fields_are_ignored(site: Site) -> None:
    thread = await site.thread()
    message = {"id": "u", "role": "user", "content": "hi", "mood": "good"}
    body = request_body(thread, f"new-{thread}", messages=[message], novelty={"a": 1}, protocolVersion="1.7")
    answer = await site.request("POST", f"/api/threads/{thread}/runs", json=body)
    assert (answer.status_code, answer.headers["x-run-id"]) == (200, body["runId"])
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert (event_types(answer.text)[0], event_types(answer.text)[-1]) == ("RUN_STARTED", "RUN_FINISHED")


async def test_null_means_absent(site: Site) -> None:
    thread = await site.thread()
    nothing = dict.fromkeys(["parentRunId", "state", "tools", "context", "forwardedProps", "resume", "protocolVersion"])
    message = {"id": "u", "role": "user", "content": "hi", "name": None, "metadata": None}
    body = request_body(thread, f"null-{thread}", messages=[message], **nothing)
    answer = await site.request("POST", f"/api/threads/{thread}/runs", json=body)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"messages": None}, "messages"),
        ({"messages": [{"role": "user", "content": "hi"}]}, "messages[0].id"),
        ({"messages": [{"id": "u", "role": "wizard", "content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"id": "u", "role": "user", "content": [{"type": "smell"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"id": "not an id", "role": "user", "content": "hi"}]}, "messages.id"),
        ({"runId": "not an id"}, "runId"),
        ({"runId": "task_1"}, "runId"),
        ({"runId": 1}, "runId"),
        ({"runId": None}, "runId"),
        ({"threadId": "another"}, "threadId"),
        ({"resume": [{"interruptId": "i"}]}, "resume[0].status"),
        ({"forwardedProps": {"baseRunId": 1}}, "forwardedProps.baseRunId"),
    ],
)
async def test_a_malformed_request_is_rejected_before_anything_runs(site: Site, changes: Json, field: str) -> None:
    thread = await site.thread()
    answer = await site.post(f"/api/threads/{thread}/runs", {**request_body(thread), **changes}, expect=400)
    assert (answer["error"]["code"], answer["error"]["details"]["field"]) == ("INVALID", field)
    assert (await site.get(f"/api/threads/{thread}/runs"))["items"] == []


async def test_two_messages_with_one_id_are_rejected(site: Site) -> None:
    thread = await site.thread()
    twice = [{"id": "u", "role": "user", "content": text} for text in "ab"]
    await site.post(f"/api/threads/{thread}/runs", request_body(thread, messages=twice), expect=400)


@pytest.mark.parametrize("way", [{"parentRunId": "nowhere"}, {"forwardedProps": {"baseRunId": "nowhere"}}])
async def test_a_missing_base_is_not_found(site: Site, way: Json) -> None:
    thread = await site.thread()
    await site.post(f"/api/threads/{thread}/runs", request_body(thread, **way), expect=404)


async def test_a_base_of_another_thread_is_not_found(site: Site) -> None:
    other = await site.play(await site.thread())
    thread = await site.thread()
    path = f"/api/threads/{thread}/runs?base_run_id={other['id']}"
    await site.post(path, request_body(thread), expect=404)


async def test_a_native_request_names_its_base_in_the_body(site: Site) -> None:
    thread = await site.thread()
    await site.post(f"/api/threads/{thread}/runs?base_run_id=x", {"input": "hi"}, expect=400)


async def test_wait_and_idempotency_keys_are_rejected(site: Site) -> None:
    thread = await site.thread()
    await site.post(f"/api/threads/{thread}/runs?wait=1", request_body(thread), expect=400)
    await site.post(f"/api/threads/{thread}/runs", request_body(thread), headers={"Idempotency-Key": "k"}, expect=400)


async def test_a_used_run_id_is_rejected(site: Site) -> None:
    thread = await site.thread()
    path, body = f"/api/threads/{thread}/runs", request_body(thread, f"once-{thread}")
    assert (await site.request("POST", path, json=body)).status_code == 200
    body["messages"][0]["id"] = "another"
    assert (await site.post(path, body, expect=409))["error"]["code"] == "ID_TAKEN"


async def test_a_response_to_a_missing_interrupt_is_not_found(site: Site) -> None:
    thread = await site.thread()
    resume = [{"interruptId": "nothing", "status": "resolved", "payload": 1}]
    await site.post(f"/api/threads/{thread}/runs", request_body(thread, resume=resume), expect=404)


async def test_an_interrupt_of_another_thread_is_not_found(site: Site) -> None:
    waiting = await site.play(await site.thread(agent_type="asker"))
    (interrupt,) = [each for each in (await site.get("/api/interrupts"))["items"] if each["run_id"] == waiting["id"]]
    thread = await site.thread()
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": "x"}]
    await site.post(f"/api/threads/{thread}/runs", request_body(thread, resume=resume), expect=404)


async def test_two_responses_to_one_interrupt_are_rejected(site: Site) -> None:
    thread = await site.thread(agent_type="asker")
    waiting = await site.play(thread)
    (interrupt,) = [each for each in (await site.get("/api/interrupts"))["items"] if each["run_id"] == waiting["id"]]
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": "x"}] * 2
    body = request_body(thread, messages=[], resume=resume)
    answer = await site.post(f"/api/threads/{thread}/runs", body, expect=400)
    assert answer["error"]["details"]["field"] == "resume"


async def test_a_thread_is_created_on_first_use_and_reused(site: Site) -> None:
    first = await site.request("POST", "/api/agents/bot/run", json=request_body("made-here", "made-1"))
    assert first.status_code == 200
    assert (await site.get("/api/threads/made-here"))["agent_type"] == "bot"
    second = request_body("made-here", "made-2", messages=[{"id": "u2", "role": "user", "content": "more"}])
    assert (await site.request("POST", "/api/agents/bot/run", json=second)).status_code == 200
    assert (await site.get("/api/runs/made-2"))["base_run_id"] == "made-1"
    used = await site.post("/api/agents/bot/run", request_body("made-there", "made-1"), expect=409)
    assert used["error"]["details"]["id"] == "made-1"


@pytest.mark.parametrize(
    ("query", "more"),
    [
        ("", {"parentRunId": "nowhere"}),
        ("", {"forwardedProps": {"baseRunId": "nowhere"}}),
        ("?base_run_id=nowhere", {}),
        ("", {"resume": [{"interruptId": "nothing", "status": "resolved", "payload": 1}]}),
    ],
)
async def test_a_request_that_continues_a_run_creates_no_thread(site: Site, query: str, more: Json) -> None:
    await site.post(f"/api/agents/bot/run{query}", request_body("never-begun", **more), expect=404)
    await site.get("/api/threads/never-begun", expect=404)


async def test_a_missing_agent_creates_no_thread(site: Site) -> None:
    await site.post("/api/agents/nobody/run", request_body("never-made"), expect=404)
    await site.get("/api/threads/never-made", expect=404)


async def test_a_closed_thread_accepts_no_run(site: Site) -> None:
    thread = await site.thread()
    await site.post(f"/api/threads/{thread}/archive", expect=200)
    answer = await site.post(f"/api/threads/{thread}/runs", request_body(thread), expect=409)
    assert answer["error"]["code"] == "THREAD_CLOSED"


async def test_agent_capabilities_have_the_shape_of_the_protocol(site: Site) -> None:
    capabilities = (await site.get("/api/agents/parent"))["capabilities"]
    read = AgentCapabilities.model_validate(capabilities)
    assert read.model_dump(by_alias=True, exclude_none=True) == capabilities
    assert (capabilities["multiAgent"]["delegation"], capabilities["tools"]["clientProvided"]) == (True, True)
