"""Chats and sessions."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.content import Json
from tests.api.ag_ui.test_recovery import abandoning_site
from tests.api.site import Site, eventually
from tests.scenario.agents.agent_workspace import call, calling
from tests.scenario.agents.agent_workspace import say as turn

STREAM = {"Accept": "text/event-stream"}


async def say(site: Site, agent: str, message: str, *, expect: int = 200, **more: Json) -> Json:
    """Send a message to an agent, and return its reply."""
    return await site.post(f"/agents/{agent}/chat", {"message": message, **more}, expect=expect)


async def streamed(site: Site, agent: str, message: str, **more: Json) -> list[tuple[str, Json]]:
    """Send a message to an agent, and return the events of its reply."""
    answer = await site.request("POST", f"/agents/{agent}/chat", json={"message": message, **more}, headers=STREAM)
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "text/event-stream")
    frames = [frame.split("\n") for frame in answer.text.split("\n\n") if frame and not frame.startswith(":")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in frames]


async def start_stalled_chat(site: Site, agent: str) -> tuple[str, str]:
    """Start a chat that does not end by itself, and return its session and its task."""
    async with site.client.stream("POST", f"/agents/{agent}/chat", json={"message": "go"}, headers=STREAM) as answer:
        lines = answer.aiter_lines()
        assert await anext(lines) == "event: session"
        session = json.loads((await anext(lines)).removeprefix("data: "))
    return session["sessionId"], session["taskId"]


def check_error(response: Any, status: int, code: str) -> Json:
    """Check that a response is an error, and return the error."""
    assert (response.status_code, response.json()["error"]["code"]) == (status, code), response.text
    return response.json()["error"]


async def test_agents_are_listed_and_read(site: Site) -> None:
    found = await site.get("/agents")
    assert "bot" in [agent["name"] for agent in found["agents"]]
    assert [agent["name"] for agent in found["broken"]] == ["broken"]
    assert (await site.get("/agents/bot"))["agent"] in found["agents"]
    check_error(await site.request("GET", "/agents/nobody"), 404, "AGENT_NOT_FOUND")


async def test_a_message_gets_a_reply(site: Site) -> None:
    answer = await say(site, "bot", "hi")
    assert set(answer) == {"sessionId", "taskId", "status", "output", "error", "usage"}
    assert (answer["status"], answer["output"], answer["error"]) == ("finished", "hello you", None)
    assert (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (7, 2)
    run = await site.get(f"/api/runs/{answer['taskId']}")
    assert (run["thread_id"], run["mode"]) == (answer["sessionId"], "chat")


async def test_a_session_continues(site: Site) -> None:
    first = await say(site, "bot", "one")
    second = await say(site, "bot", "two", sessionId=first["sessionId"])
    assert second["sessionId"] == first["sessionId"] and second["taskId"] != first["taskId"]
    page = await site.get(f"/sessions/{first['sessionId']}/messages")
    messages = [(each["role"], each["content"]) for each in page["messages"]]
    assert messages == [("user", "one"), ("assistant", "hello you"), ("user", "two"), ("assistant", "hello you")]
    assert [each["task_id"] for each in page["messages"]][1:3] == [first["taskId"], second["taskId"]]


async def test_a_stream_has_the_same_reply(site: Site) -> None:
    events = await streamed(site, "worker", "go")
    assert [name for name, _ in events][:1] + [name for name, _ in events][-1:] == ["session", "done"]
    done = events[-1][1]
    assert done["output"] == "I note it\n\nnoted" == "".join(data["text"] for name, data in events if name == "delta")
    assert events[0][1] == {"sessionId": done["sessionId"], "taskId": done["taskId"]}
    assert set(done) == set(await say(site, "worker", "go"))


async def test_the_text_of_an_interrupted_model_call_is_withdrawn(tmp_path: Path) -> None:
    note = calling(call("log_write", message="noted"), say="first")
    async with abandoning_site(tmp_path, note, turn("half of")) as site:
        shown, resets = "", []
        async with site.client.stream("POST", "/agents/bot/chat", json={"message": "go"}, headers=STREAM) as answer:
            name, event = "", {}
            async for line in answer.aiter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                if not line.startswith("data: "):
                    continue
                event = json.loads(line.removeprefix("data: "))
                if name == "delta":
                    shown += event["text"]
                elif name == "reset":
                    shown = event["text"]
                    resets.append(shown)
                    site.workshop.script(note, turn("the whole"))
        assert set(resets) == {"first"}
        assert shown == event["output"] == "first\n\nthe whole"


@pytest.mark.parametrize("streams", [False, True])
async def test_a_message_to_a_waiting_session_is_the_response(site: Site, streams: bool) -> None:
    first = await say(site, "asker", "go")
    assert (first["status"], first["output"]) == ("waiting", "which?")
    session = first["sessionId"]
    if streams:
        reply = (await streamed(site, "asker", "red", sessionId=session))[-1][1]
    else:
        reply = await say(site, "asker", "red", sessionId=session)
    assert (reply["status"], reply["output"], reply["taskId"]) == ("finished", "it is red", first["taskId"])


async def test_the_interrupt_of_a_sub_agent_is_shown_by_its_agent(site: Site) -> None:
    first = await say(site, "proxy", "go")
    assert (first["status"], first["output"]) == ("waiting", "which?")
    reply = await say(site, "proxy", "red", sessionId=first["sessionId"])
    assert (reply["status"], reply["output"], reply["taskId"]) == ("finished", "I hear: it is red", first["taskId"])


async def test_the_text_of_an_interrupt_is_streamed_last(site: Site) -> None:
    events = await streamed(site, "guarded", "go")
    (session, *_), (_, done) = events, events[-1]
    assert done["status"] == "waiting" and session[0] == "session"
    assert done["output"] == "".join(data["text"] for name, data in events if name == "delta")
    answer = await site.request(
        "POST", "/agents/guarded/chat", json={"message": "perhaps", "sessionId": done["sessionId"]}
    )
    check_error(answer, 400, "VALIDATION_ERROR")
    assert (await say(site, "guarded", "approve", sessionId=done["sessionId"]))["output"] == "done"


async def test_a_failed_run_is_reported(site: Site) -> None:
    failed = await say(site, "failing", "go")
    assert (failed["status"], failed["output"], failed["error"]["code"]) == ("failed", None, "MODEL_REFUSED")
    assert (await streamed(site, "failing", "go"))[-1][1]["error"]["code"] == "MODEL_REFUSED"


async def test_requests_with_one_idempotency_key_start_one_run(site: Site) -> None:
    key = {"Idempotency-Key": "chat-once"}
    first = await site.post("/agents/bot/chat", {"message": "hi"}, expect=200, headers=key)
    answer = await site.request("POST", "/agents/bot/chat", json={"message": "hi"}, headers=key)
    assert (answer.json(), answer.headers["idempotency-replayed"]) == (first, "true")
    other = await site.request("POST", "/agents/bot/chat", json={"message": "ho"}, headers=key)
    check_error(other, 409, "IDEMPOTENCY_MISMATCH")


async def test_an_invalid_message_is_rejected_and_creates_no_session(site: Site) -> None:
    before = await site.get("/sessions", limit=200)
    for body in ({}, {"message": 7}, {"message": "x", "sessionId": "a b"}, {"message": "x", "stream": True}):
        check_error(await site.request("POST", "/agents/bot/chat", json=body), 400, "VALIDATION_ERROR")
    missing = {"message": "x", "sessionId": "nowhere"}
    check_error(await site.request("POST", "/agents/bot/chat", json=missing), 404, "SESSION_NOT_FOUND")
    check_error(await site.request("POST", "/agents/nobody/chat", json={"message": "x"}), 404, "AGENT_NOT_FOUND")
    check_error(await site.request("POST", "/agents/silent/chat", json={"message": "x"}), 400, "MODE_NOT_SUPPORTED")
    check_error(await site.request("POST", "/agents/broken/chat", json={"message": "x"}), 400, "VALIDATION_ERROR")
    assert await site.get("/sessions", limit=200) == before


async def test_sessions_are_listed_by_their_latest_task(site: Site) -> None:
    oldest, first, second = [await say(site, "bot", text) for text in ("0", "1", "2")]
    page = await site.get("/sessions", limit=2, agentName="bot")
    assert [each["id"] for each in page["sessions"]] == [second["sessionId"], first["sessionId"]]
    assert {each["agent_name"] for each in page["sessions"]} == {"bot"}
    more = await site.get("/sessions", limit=1, agentName="bot", cursor=page["next_cursor"])
    assert more["sessions"][0]["id"] == oldest["sessionId"]


async def test_a_session_shows_its_status_and_last_task(site: Site) -> None:
    answer = await say(site, "asker", "go")
    session = (await site.get(f"/sessions/{answer['sessionId']}"))["session"]
    assert (session["agent_name"], session["status"], session["message_count"]) == ("asker", "active", 2)
    assert (session["last_task"]["id"], session["last_task"]["status"]) == (answer["taskId"], "waiting")
    empty = await site.thread()
    assert (await site.get(f"/sessions/{empty}"))["session"]["last_task"] is None
    assert (await site.get(f"/sessions/{empty}/context"))["context"] is None
    assert (await site.get(f"/sessions/{empty}/messages"))["messages"] == []


async def test_the_context_is_that_of_the_model_call(site: Site) -> None:
    session = (await say(site, "bot", "hi"))["sessionId"]
    body = await site.get(f"/sessions/{session}/context")
    assert body["sessionId"] == session and body["context"]["messages"][-1] == {"role": "user", "content": "hi"}


async def test_messages_are_paged_from_the_end(site: Site) -> None:
    session = (await say(site, "bot", "one"))["sessionId"]
    await say(site, "bot", "two", sessionId=session)
    page = await site.get(f"/sessions/{session}/messages", limit=3)
    assert [each["content"] for each in page["messages"]] == ["hello you", "two", "hello you"]
    rest = await site.get(f"/sessions/{session}/messages", limit=3, cursor=page["next_cursor"])
    assert ([each["content"] for each in rest["messages"]], rest["next_cursor"]) == (["one"], None)


async def test_active_runs_of_a_session_are_cancelled(site: Site) -> None:
    session, task = await start_stalled_chat(site, "staller")
    assert await site.post(f"/sessions/{session}/cancel", expect=200) == {"sessionId": session, "canceled": [task]}
    check_error(await site.request("POST", f"/sessions/{session}/cancel"), 400, "SESSION_NOT_ACTIVE")
    assert (await site.get(f"/sessions/{session}"))["session"]["last_task"]["status"] == "canceled"


async def test_an_active_session_is_deleted_only_with_force(site: Site) -> None:
    session, task = await start_stalled_chat(site, "staller")
    check_error(await site.request("DELETE", f"/sessions/{session}"), 409, "SESSION_ACTIVE")
    assert await site.delete(f"/sessions/{session}?force=true", expect=200) == {"deleted": True, "sessionId": session}
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/messages"), ("GET", "/context"), ("POST", "/cancel")):
        check_error(await site.request(method, f"/sessions/{session}{path}"), 404, "SESSION_NOT_FOUND")
    assert (await site.get(f"/api/runs/{task}"))["status"] == "cancelled"
    check_error(
        await site.request("POST", "/agents/bot/chat", json={"message": "x", "sessionId": session}),
        404,
        "SESSION_NOT_FOUND",
    )


async def test_a_run_continues_after_the_client_disconnects(site: Site) -> None:
    session, task = await start_stalled_chat(site, "staller")

    async def disconnected() -> bool:
        return site.streams.open_count == 0

    await eventually(disconnected)
    assert (await site.get(f"/api/runs/{task}"))["status"] in ("queued", "running")
    await site.delete(f"/sessions/{session}?force=true", expect=200)


async def test_a_chat_shows_what_was_asked(site: Site) -> None:
    answer = await say(site, "bot", "When does the ferry leave?\nAnd from where?")
    session = (await site.get(f"/sessions/{answer['sessionId']}"))["session"]
    assert session["title"] == "When does the ferry leave?"
    assert session["last_task"]["input"] == "When does the ferry leave?\nAnd from where?"
    assert (await site.get(f"/api/runs/{answer['taskId']}"))["input"] == session["last_task"]["input"]
    later = await say(site, "bot", "Thanks", sessionId=answer["sessionId"])
    session = (await site.get(f"/sessions/{answer['sessionId']}"))["session"]
    assert (session["title"], session["last_task"]["input"]) == ("When does the ferry leave?", "Thanks")
    assert later["sessionId"] in [each["id"] for each in (await site.get("/api/threads", title="FERRY"))["items"]]


async def test_sessions_of_sub_agents_are_left_out_unless_requested(site: Site) -> None:
    answer = await say(site, "proxy", "go")
    (child,) = (await site.get(f"/api/runs/{answer['taskId']}/children"))["items"]
    for path, items in (("/sessions", "sessions"), ("/api/threads", "items")):
        listed = {each["id"] for each in (await site.get(path, limit=200))[items]}
        assert answer["sessionId"] in listed and child["thread_id"] not in listed
        everything = {each["id"] for each in (await site.get(path, limit=200, children="true"))[items]}
        assert {answer["sessionId"], child["thread_id"]} <= everything
