"""`Idempotency-Key`: a repeated POST is done once, and gets the response of the first.

`WITHOUT_KEY` lists the POST routes that do not take it. A new one fails here until it takes the header or is listed.
"""

import asyncio
import json
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import httpx2
import pytest

from holdfast.api.openapi import openapi_document
from holdfast.domain.content import Json
from holdfast.domain.skill import SkillContent
from holdfast.skills.archive import pack_skill
from tests.api.conftest import BACKENDS, NewDatabase, write_agents
from tests.api.server_process import Server, run_server
from tests.api.site import Site, eventually, serve
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say

ENDS_ONCE: Final = "a repeat has no further effect"
ONCE_ROUTES: Final = """
    cancel_run cancel_task cancel_session archive_thread unarchive_thread mark_read accept_memory
    rebuild_memory_index retract_memory enable_skill disable_skill pause_schedule resume_schedule complete_reminder
    dismiss_reminder start_daemon stop_daemon
"""
SECRET_ROUTES: Final = "create_key create_webhook create_ticket start_browser_session"
WITHOUT_KEY: Final = {
    **dict.fromkeys(ONCE_ROUTES.split(), ENDS_ONCE),
    **dict.fromkeys(SECRET_ROUTES.split(), "the response carries a secret, which is not stored"),
    "activate_agent_version": "a repeat changes nothing",
    "resend_delivery": "the receiver recognises the `webhook-id`",
    "run_agent": "AG-UI: the `runId` of the body is used once",
    "call_model": "nothing is stored",
    "snooze_reminder": "a repeat counts from now on",
    "deliver_hook": "the header `webhook-id` names the delivery",
}
"""POST routes that ignore the header, with the reason."""


BEATS: Final = [{"name": "yearly", "schedule": "0 0 1 1 *"}]
"""The heartbeats of the daemon `beating`."""
KEY_HEADER: Final = {"Idempotency-Key": "cut off"}


class PostRequest(NamedTuple):
    """A request that creates something, another body for it, and a count of what it creates."""

    path: str
    body: Json
    other: Json
    created: Callable[[], Awaitable[int]]
    query: str = ""
    other_path: str | None = None
    """The path of the other request, if it differs."""


def _operations() -> dict[str, Any]:
    return {
        item["post"]["operationId"]: item["post"]
        for item in openapi_document()["paths"].values()
        if "post" in item and not item["post"]["operationId"].endswith("_in_space")
    }


def test_every_post_route_takes_the_key_or_is_listed_with_a_reason() -> None:
    taking = {
        name
        for name, operation in _operations().items()
        if any(parameter["name"] == "Idempotency-Key" for parameter in operation["parameters"])
    }
    assert taking == _operations().keys() - WITHOUT_KEY.keys()
    assert taking == REQUESTS.keys()
    assert WITHOUT_KEY.keys() <= _operations().keys()


def test_every_response_that_may_be_a_repeat_has_the_header() -> None:
    for name in REQUESTS:
        (*_, response) = [each for status, each in _operations()[name]["responses"].items() if status[0] == "2"]
        assert "Idempotency-Replayed" in response["headers"], name


async def _create_thread(site: Site) -> PostRequest:
    count = partial(_count, site, "/api/threads", title="once")
    return PostRequest("/api/threads", {"title": "once", "agent_type": "bot"}, {"title": "other"}, count)


async def _create_space(site: Site) -> PostRequest:
    count = partial(_count, site, "/api/spaces", id="once")
    return PostRequest("/api/spaces", {"id": "once"}, {"id": "once", "name": "Once"}, count)


async def _upload_file(site: Site) -> PostRequest:
    count = partial(_count, site, "/api/files", name="once.txt")
    return PostRequest("/api/files", b"one", b"two", count, query="?name=once.txt")


async def _create_skill(site: Site) -> PostRequest:
    body = {"name": f"once-{uuid4().hex}", "description": "d", "instructions": "i"}
    return PostRequest("/api/skills", body, {**body, "instructions": "x"}, partial(_versions, site, body["name"]))


async def _create_agent(site: Site, path: str = "/api/agents") -> PostRequest:
    body = {"name": f"once-{uuid4().hex}", "settings": {"model": "openai:gpt-5"}, "instructions": "Help."}
    count = partial(_count, site, "/api/agents", name=body["name"])
    return PostRequest(path, body, {**body, "instructions": "Hinder."}, count)


async def _import_skill(site: Site) -> PostRequest:
    one, two = [pack_skill(SkillContent(name="imported", description=text, instructions=""), {}) for text in "ab"]
    return PostRequest("/api/skills/import", one, two, partial(_versions, site, "imported"))


async def _versions(site: Site, skill: str) -> int:
    return sum(each["version"] for each in await _all(site, "/api/skills") if each["name"] == skill)


async def _create_artifact(site: Site) -> PostRequest:
    path = f"/api/runs/{(await site.play(await site.thread()))['id']}/artifacts"
    count = partial(_count, site, path)
    body = {"type": "doc", "title": "notes", "content": "once"}
    return PostRequest(path, body, {**body, "content": "other"}, count)


async def _create_plan_item(site: Site) -> PostRequest:
    thread = await site.thread()
    await site.play(thread)

    async def count() -> int:
        return len((await site.get(f"/api/threads/{thread}/tasks"))["items"])

    return PostRequest(f"/api/threads/{thread}/tasks", {"title": "once"}, {"title": "other"}, count)


async def _create_run(site: Site) -> PostRequest:
    path = f"/api/threads/{await site.thread()}/runs"
    count = partial(_count, site, path)
    return PostRequest(path, {"input": "once"}, {"input": "other"}, count, query="?wait=30")


async def _create_run_on_thread(site: Site) -> PostRequest:
    async def count() -> int:
        return len(await _all(site, "/api/threads"))

    body = {"input": "once", "agent_type": "bot", "thread": {"title": "new"}}
    return PostRequest("/api/runs", body, {**body, "thread": {"title": "other"}}, count, query="?wait=30")


async def _retry_run(site: Site) -> PostRequest:
    thread = await site.thread(agent_type="failing")
    run = await site.play(thread)

    async def count() -> int:
        return len(await _all(site, f"/api/threads/{thread}/runs")) - 1

    return PostRequest(f"/api/runs/{run['id']}/retry", {}, {"from": "start"}, count, query="?wait=30")


async def _steer_run(site: Site) -> PostRequest:
    run = (await site.post(f"/api/threads/{await site.thread(agent_type='staller')}/runs", {"input": "go"}))["id"]
    path = f"/api/runs/{run}/messages"
    body = {"content": "once"}

    async def count() -> int:
        # the inbox has no route: its items are numbered, and the number of the next one tells how many there are
        sent = await site.post(path, {"content": "next"}, expect=202)
        return int(sent["number"]) - 1

    return PostRequest(path, body, {"content": "other"}, count)


async def _respond(site: Site) -> PostRequest:
    run = (await site.play(await site.thread(agent_type="asking-twice")))["id"]
    return PostRequest(f"/api/runs/{run}/respond", {"response": "a"}, {"response": "b"}, lambda: _responses(site, run))


async def _respond_to_task(site: Site) -> PostRequest:
    task = (await site.post("/agents/asking-twice/task", {"input": "go"}, expect=202))["taskId"]

    async def is_waiting() -> bool:
        return bool((await site.get(f"/tasks/{task}"))["task"]["status"] == "waiting")

    await eventually(is_waiting)
    return PostRequest(f"/tasks/{task}/respond", {"message": "a"}, {"message": "b"}, lambda: _responses(site, task))


async def _create_task(site: Site) -> PostRequest:
    async def count() -> int:
        return len([each for each in (await site.get("/tasks"))["tasks"] if each["input"] == "once"])

    return PostRequest("/agents/worker/task", {"input": "once"}, {"input": "other"}, count)


async def _chat(site: Site) -> PostRequest:
    async def count() -> int:
        sessions = (await site.get("/sessions", agentName="chatty"))["sessions"]
        return len(sessions)

    return PostRequest("/agents/chatty/chat", {"message": "once"}, {"message": "other"}, count)


async def _complete_chat(site: Site) -> PostRequest:
    async def count() -> int:
        return len(await _all(site, "/api/threads?agent_type=model"))

    body = {"model": "model", "messages": [{"role": "user", "content": "once"}]}
    return PostRequest(
        "/v1/chat/completions", body, {**body, "messages": [{"role": "user", "content": "other"}]}, count
    )


async def _create_response(site: Site) -> PostRequest:
    body, count = {"model": "model", "input": "once"}, (await _complete_chat(site)).created
    return PostRequest("/v1/responses", body, {**body, "input": "other"}, count)


async def _create_memory(site: Site) -> PostRequest:
    async def count() -> int:
        return len(await _all(site, "/api/memories"))

    return PostRequest("/api/memories", {"text": f"once {await count()}"}, {"text": "other"}, count)


async def _supersede_memory(site: Site) -> PostRequest:
    kept = await site.post("/api/memories", {"text": f"before {len(await _all(site, '/api/memories'))}"})

    async def count() -> int:
        return len(await _all(site, "/api/memories"))

    body = {"memory": {"text": f"after {kept['id']}"}}
    return PostRequest(f"/api/memories/{kept['id']}/supersede", body, {"memory": {"text": "else"}}, count)


async def _import_memories(site: Site) -> PostRequest:
    async def count() -> int:
        return len(await _all(site, "/api/memories"))

    await site.post("/api/memories", {"text": f"exported {await count()}"})
    lines = (await site.request("GET", "/api/memories/export")).content.splitlines(keepends=True)
    old = json.loads(lines[-1])["memory"]["id"].encode()
    line = lines[-1].replace(b"exported", b"imported").replace(old, f"mem_{uuid4().hex}".encode())
    return PostRequest("/api/memories/import", line, line.replace(b"imported", b"changed"), count)


async def _forget_memories(site: Site) -> PostRequest:
    kept = await site.post("/api/memories", {"text": f"forgotten {len(await _all(site, '/api/memories'))}"})

    async def count() -> int:
        return -len(await _all(site, "/api/memories"))

    return PostRequest("/api/memories/forget", {"ids": [kept["id"]]}, {"ids": ["mem_other"]}, count)


async def _create_schedule(site: Site) -> PostRequest:
    async def count() -> int:
        return len(await _all(site, "/api/schedules"))

    body = {"cron": "0 9 * * *", "action": {"type": "notify", "message": "once"}}
    return PostRequest("/api/schedules", body, {**body, "cron": "0 10 * * *"}, count)


async def _run_schedule(site: Site) -> PostRequest:
    body = {"cron": "0 9 * * *", "action": {"type": "notify", "message": "fired"}}
    paths = [f"/api/schedules/{(await site.post('/api/schedules', body))['id']}" for _ in range(2)]

    async def count() -> int:
        return len(await _all(site, f"{paths[0]}/firings"))

    return PostRequest(f"{paths[0]}/run", None, None, count, other_path=f"{paths[1]}/run")


async def _create_reminder(site: Site) -> PostRequest:
    async def count() -> int:
        return len(await _all(site, "/api/reminders"))

    body = {"content": "once", "trigger_type": "time", "trigger_value": "2090-01-01T00:00:00Z"}
    return PostRequest("/api/reminders", body, {**body, "content": "twice"}, count)


async def _trigger_reminder(site: Site) -> PostRequest:
    body = {"content": "now", "trigger_type": "time", "trigger_value": "2090-01-01T00:00:00Z"}
    ids = [(await site.post("/api/reminders", body))["id"] for _ in range(2)]

    async def count() -> int:
        return len(await _all(site, f"/api/schedules/{ids[0]}/firings"))

    first, other = [f"/api/reminders/{each}/trigger" for each in ids]
    return PostRequest(first, None, None, count, other_path=other)


async def _trigger_daemon(site: Site) -> PostRequest:
    async def count() -> int:
        return len((await site.get("/daemons/beating"))["firings"])

    return PostRequest("/daemons/beating/trigger", {}, {"heartbeat": "yearly"}, count)


REQUESTS: Final[dict[str, Callable[[Site], Awaitable[PostRequest]]]] = {
    "create_thread": _create_thread,
    "create_space": _create_space,
    "upload_file": _upload_file,
    "create_artifact": _create_artifact,
    "create_agent": _create_agent,
    "create_contract_agent": partial(_create_agent, path="/agents"),
    "create_skill": _create_skill,
    "import_skill": _import_skill,
    "create_plan_item": _create_plan_item,
    "create_run": _create_run,
    "create_run_on_thread": _create_run_on_thread,
    "retry_run": _retry_run,
    "steer_run": _steer_run,
    "respond": _respond,
    "respond_to_task": _respond_to_task,
    "create_task": _create_task,
    "chat": _chat,
    "complete_chat": _complete_chat,
    "create_response": _create_response,
    "create_memory": _create_memory,
    "supersede_memory": _supersede_memory,
    "import_memories": _import_memories,
    "forget_memories": _forget_memories,
    "create_schedule": _create_schedule,
    "run_schedule": _run_schedule,
    "trigger_daemon": _trigger_daemon,
    "create_reminder": _create_reminder,
    "trigger_reminder": _trigger_reminder,
}


def _without_state(operation: str, body: dict[str, Json]) -> dict[str, Json]:
    """Return a response without the status of a task, which is the current one also in a repeat."""
    return {name: value for name, value in body.items() if (operation, name) != ("create_task", "status")}


async def _count(site: Site, path: str, **fields: Json) -> int:
    return len([each for each in await _all(site, path) if fields.items() <= each.items()])


async def _all(site: Site, path: str) -> list[Json]:
    items: list[Json] = (await site.get(f"{path}{'&' if '?' in path else '?'}limit=200"))["items"]
    return items


async def _responses(site: Site, run: str) -> int:
    answered = await site.get("/api/interrupts", status="answered", limit=200)
    return len([each for each in answered["items"] if each["run_id"] == run.replace("task_", "run_")])


async def send(site: Site, request: PostRequest, *, key: str | None, other: bool = False) -> httpx2.Response:
    """Send a request, or the one with another body, under a key."""
    body = request.other if other else request.body
    content: dict[str, Any] = {"content": body} if body is None or isinstance(body, bytes) else {"json": body}
    headers = {} if key is None else {"Idempotency-Key": key}
    path = request.other_path if other and request.other_path is not None else request.path
    return await site.request("POST", path + request.query, headers=headers, **content)


def send_and_read_nothing(server: Server, path: str, body: Json) -> socket.socket:
    """Send a request with the key of `KEY_HEADER`, and do not read its response."""
    data = json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", int(server.port)), timeout=30)
    ((name, value),) = KEY_HEADER.items()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{name}: {value}\r\n"
    connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return connection


@pytest.fixture(scope="module", params=BACKENDS)
async def keyed_site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase
) -> AsyncIterator[Site]:
    """Yield a server on each backend, with agents for these tests."""
    folder = tmp_path_factory.mktemp("keyed")
    database = folder / "holdfast.db" if request.param == "sqlite" else await new_database()
    workshop = write_agents(AgentWorkspace(folder / "workspace", database))
    questions = [calling(call("ask_user", question=text)) for text in ("first?", "second?")]
    workshop.agent(*questions, say("done"), name="asking-twice", tools=["ask_user"], task={"enabled": True})
    for name in ("chatty", "model", "passing"):
        workshop.agent(say("hello"), name=name)
    workshop.configure("worker", task={"enabled": True}, tools=["plan_create"])
    for beat in BEATS:
        workshop.write(f"agents/beating/heartbeats/{beat['name']}.md", "Look around.")
    workshop.agent(say("tick"), name="beating", daemon={"enabled": True, "heartbeats": BEATS})
    async with serve(workshop) as site:

        async def beating() -> bool:
            return len((await site.get("/daemons/beating"))["heartbeats"]) == len(BEATS)

        await eventually(beating)
        yield site


@pytest.mark.parametrize("operation", REQUESTS)
async def test_a_repeated_request_is_done_once_and_gets_the_same_response(keyed_site: Site, operation: str) -> None:
    request = await REQUESTS[operation](keyed_site)
    before = 0 if operation in ("create_space", "steer_run") else await request.created()
    first = await send(keyed_site, request, key=f"{operation} 1")
    assert first.status_code in (200, 201, 202), first.text
    assert "idempotency-replayed" not in first.headers
    again = await send(keyed_site, request, key=f"{operation} 1")
    assert again.status_code == first.status_code
    assert _without_state(operation, again.json()) == _without_state(operation, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert await request.created() == before + 1
    if operation == "create_space":
        await keyed_site.delete("/api/spaces/once")


@pytest.mark.parametrize("operation", REQUESTS)
async def test_another_body_under_the_same_key_is_refused_and_changes_nothing(keyed_site: Site, operation: str) -> None:
    request = await REQUESTS[operation](keyed_site)
    before = 0 if operation in ("create_space", "steer_run") else await request.created()
    assert (await send(keyed_site, request, key=f"{operation} 2")).status_code < 300
    refused = await send(keyed_site, request, key=f"{operation} 2", other=True)
    assert refused.status_code == 409, refused.text
    assert "IDEMPOTENCY_MISMATCH" in refused.text
    assert await request.created() == before + 1
    if operation == "create_space":
        await keyed_site.delete("/api/spaces/once")


async def test_of_many_concurrent_requests_with_one_key_one_is_done(keyed_site: Site) -> None:
    request = await _create_thread(keyed_site)
    before = await request.created()
    responses = await asyncio.gather(*(send(keyed_site, request, key="many") for _ in range(20)))
    assert {response.status_code for response in responses} == {201}
    assert len({response.json()["id"] for response in responses}) == 1
    assert sum("idempotency-replayed" not in response.headers for response in responses) == 1
    assert await request.created() == before + 1


async def test_a_key_belongs_to_one_operation_and_one_space(keyed_site: Site) -> None:
    headers = {"Idempotency-Key": "shared"}
    thread = await keyed_site.post("/api/threads", {"agent_type": "bot"}, headers=headers)
    run = await keyed_site.post(f"/api/threads/{thread['id']}/runs?wait=30", {"input": "go"}, headers=headers)
    assert run["thread_id"] == thread["id"]
    await keyed_site.post("/api/spaces", {"id": "keyed"})
    there = await keyed_site.post("/api/spaces/keyed/threads", {"agent_type": "bot"}, headers=headers)
    assert there["id"] != thread["id"]
    await keyed_site.delete("/api/spaces/keyed")


async def test_a_failed_request_leaves_its_key_free(keyed_site: Site) -> None:
    headers = {"Idempotency-Key": "free"}
    await keyed_site.post("/api/threads", {"agent_type": "nobody"}, headers=headers, expect=404)
    assert (await keyed_site.post("/api/threads", {"agent_type": "bot"}, headers=headers))["agent_type"] == "bot"


async def test_a_repeat_gets_the_first_response_after_its_subject_changed(keyed_site: Site) -> None:
    headers = {"Idempotency-Key": "changed"}
    body = {"title": "first", "agent_type": "passing"}
    thread = await keyed_site.post("/api/threads", body, headers=headers)
    await keyed_site.patch(f"/api/threads/{thread['id']}", {"title": "second"})
    shutil.rmtree(keyed_site.workshop.folder / "agents" / "passing")

    async def is_removed() -> bool:
        return (await keyed_site.request("GET", "/api/agents/passing")).status_code == 404

    await eventually(is_removed)
    assert await keyed_site.post("/api/threads", body, headers=headers) == thread


async def test_a_repeated_message_that_answered_a_question_answers_no_other(keyed_site: Site) -> None:
    first = await keyed_site.post("/agents/asking-twice/chat", {"message": "go"}, expect=200)
    headers, body = {"Idempotency-Key": "answer"}, {"message": "a", "sessionId": first["sessionId"]}
    answered = await keyed_site.request("POST", "/agents/asking-twice/chat", json=body, headers=headers)
    again = await keyed_site.request("POST", "/agents/asking-twice/chat", json=body, headers=headers)
    assert answered.json()["output"] == "second?"
    assert (again.json(), again.headers["idempotency-replayed"]) == (answered.json(), "true")
    assert await _responses(keyed_site, first["taskId"]) == 1
    assert len(await _all(keyed_site, f"/api/threads/{first['sessionId']}/runs")) == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "\u00e9"])
async def test_a_key_that_is_not_valid_is_refused(keyed_site: Site, key: str) -> None:
    headers = {"Idempotency-Key": key.encode("latin-1")}
    response = await keyed_site.request("POST", "/api/threads", json={"agent_type": "bot"}, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID")


def test_a_server_that_died_before_its_response_does_not_do_the_request_twice(tmp_path: Path) -> None:
    write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    body = {"title": "once", "agent_type": "bot"}
    with run_server(tmp_path) as server, send_and_read_nothing(server, "/api/threads", body):
        while not (found := server.request("/api/threads")["items"]):
            pass  # until the request is on disk
        server.kill()
    with run_server(tmp_path) as server:
        again = server.request("/api/threads", body, headers=KEY_HEADER)
        assert found == server.request("/api/threads")["items"]
        assert [{name: each[name] for name in again} for each in found] == [again]
        assert [(each["latest_run"], each["open_questions"]) for each in found] == [(None, 0)]
