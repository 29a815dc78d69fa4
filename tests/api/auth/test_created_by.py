"""`created_by`, `answered_by` and `cancelled_by`: the key of the request is recorded."""

from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.ids import SpaceId
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.task_ids import run_id_of
from tests.api.auth.conftest import ACME, AuthSite, check_status
from tests.api.site import eventually

EMPTY_FIELDS: Final[dict[str, Json]] = {"tools": [], "context": [], "state": {}, "forwardedProps": {}}


@pytest.fixture(scope="module")
async def ann(auth_site: AuthSite) -> Json:
    """Return a key with scope `run` for the space `acme`."""
    return await auth_site.key("run", ACME, name="Ann")


async def start_waiting_run(auth_site: AuthSite, ann: Json, agent: str = "asker") -> str:
    """Start a run, wait until it ends or waits for a response, and return its id."""
    thread = (await auth_site.post(ann["secret"], "/api/threads", {"agent_type": agent}))["id"]
    run: str = (await auth_site.post(ann["secret"], f"/api/threads/{thread}/runs?wait=30", {"input": "go"}))["id"]
    return run


async def interrupt_of(auth_site: AuthSite, run: str) -> Interrupt:
    """Return the interrupt of a run."""
    (interrupt,) = await auth_site.site.store.interrupts.of_run(SpaceId(ACME), run_id_of(run))
    return interrupt


async def test_the_key_is_created_by_of_a_thread_a_run_and_its_messages(auth_site: AuthSite, ann: Json) -> None:
    thread = await auth_site.post(ann["secret"], "/api/threads", {"agent_type": "bot"})
    run = await auth_site.post(ann["secret"], f"/api/threads/{thread['id']}/runs?wait=30", {"input": "go"})
    messages = (await auth_site.get(ann["secret"], f"/api/threads/{thread['id']}/messages"))["items"]
    assert thread["created_by"] == run["created_by"] == messages[0]["created_by"] == ann["id"]


async def test_an_idempotency_key_is_shared_by_all_keys_of_a_space(
    auth_site: AuthSite, ann: Json, acme_key: str
) -> None:
    thread = (await auth_site.post(ann["secret"], "/api/threads", {"agent_type": "bot"}))["id"]
    path, headers = f"/api/threads/{thread}/runs", {"Idempotency-Key": "once"}
    first = await auth_site.request(ann["secret"], "POST", path, json={"input": "go"}, headers=headers)
    replay = await auth_site.request(acme_key, "POST", path, json={"input": "go"}, headers=headers)
    assert (replay.headers["idempotency-replayed"], replay.json()["id"]) == ("true", first.json()["id"])
    assert replay.json()["created_by"] == ann["id"]


async def test_the_key_is_created_by_of_tasks_chats_completions_and_ag_ui_runs(auth_site: AuthSite, ann: Json) -> None:
    task = await auth_site.post(ann["secret"], "/agents/bot/task", {"input": "go"}, expect=202)
    chat = await auth_site.post(ann["secret"], "/agents/bot/chat", {"message": "hi"}, expect=200)
    completion_body: Json = {"model": "bot", "messages": [{"role": "user", "content": "hi"}]}
    completed = await auth_site.request(ann["secret"], "POST", "/v1/chat/completions", json=completion_body)
    thread = completed.headers["x-holdfast-thread"]
    ag_ui_body = {
        "threadId": "t-who",
        "runId": "r-who",
        "messages": [{"id": "m", "role": "user", "content": "hi"}],
        **EMPTY_FIELDS,
    }
    ag_ui_response = await auth_site.request(ann["secret"], "POST", "/api/agents/bot/run", json=ag_ui_body)
    assert ag_ui_response.status_code == 200
    runs = [task["taskId"], chat["taskId"], "r-who"]
    runs += [run["id"] for run in (await auth_site.get(ann["secret"], f"/api/threads/{thread}/runs"))["items"]]
    for run in runs:
        found = await auth_site.get(ann["secret"], f"/api/runs/{run}")
        thread_row = await auth_site.get(ann["secret"], f"/api/threads/{found['thread_id']}")
        assert (found["created_by"], thread_row["created_by"]) == (ann["id"], ann["id"])


async def test_a_child_run_has_created_by_of_its_parent(auth_site: AuthSite, ann: Json) -> None:
    parent = await start_waiting_run(auth_site, ann, "parent")
    (child,) = (await auth_site.get(ann["secret"], f"/api/runs/{parent}/children"))["items"]
    assert child["created_by"] == ann["id"]


async def test_the_key_is_cancelled_by_of_a_run(auth_site: AuthSite, ann: Json, acme_key: str) -> None:
    run = await start_waiting_run(auth_site, ann)
    cancelled = await auth_site.post(acme_key, f"/api/runs/{run}/cancel", expect=200)
    assert cancelled["cancelled_by"] not in (None, ann["id"])


async def test_the_key_is_answered_by_on_every_route(auth_site: AuthSite, ann: Json, acme_key: str) -> None:
    responded = await start_waiting_run(auth_site, ann)
    await auth_site.post(acme_key, f"/api/runs/{responded}/respond", {"response": "this"}, expect=200)
    responder = (await interrupt_of(auth_site, responded)).answered_by
    task = (await auth_site.post(ann["secret"], "/agents/asker/task", {"input": "go"}, expect=202))["taskId"]

    async def is_waiting() -> bool:
        return bool((await auth_site.get(ann["secret"], f"/tasks/{task}"))["task"]["status"] == "waiting")

    await eventually(is_waiting)
    await auth_site.post(acme_key, f"/tasks/{task}/respond", {"message": "that"}, expect=200)
    chat = await auth_site.post(ann["secret"], "/agents/asker/chat", {"message": "hi"}, expect=200)
    chat_body = {"message": "these", "sessionId": chat["sessionId"]}
    await auth_site.post(acme_key, "/agents/asker/chat", chat_body, expect=200)
    resumed = await start_waiting_run(auth_site, ann)
    interrupt = await interrupt_of(auth_site, resumed)
    resume = [{"interruptId": interrupt.id, "status": "resolved", "payload": "those"}]
    thread = (await auth_site.get(ann["secret"], f"/api/runs/{resumed}"))["thread_id"]
    body = {"threadId": thread, "runId": "r-resume", "messages": [], "resume": resume, **EMPTY_FIELDS}
    assert (await auth_site.request(acme_key, "POST", f"/api/threads/{thread}/runs", json=body)).status_code == 200
    for run in (responded, task, chat["taskId"], resumed):
        assert (await interrupt_of(auth_site, run)).answered_by == responder
    assert responder not in (None, ann["id"])


async def test_the_key_is_created_by_of_artifacts_and_files(auth_site: AuthSite, ann: Json) -> None:
    thread = (await auth_site.post(ann["secret"], "/api/threads", {"agent_type": "bot"}))["id"]
    run = (await auth_site.post(ann["secret"], f"/api/threads/{thread}/runs?wait=30", {"input": "go"}))["id"]
    body = {"type": "doc", "title": "notes", "content": "x"}
    artifact = await auth_site.post(ann["secret"], f"/api/runs/{run}/artifacts", body)
    upload = await auth_site.request(ann["secret"], "POST", "/api/files?name=x.txt", content=b"x")
    assert artifact["created_by"] == check_status(upload, 201)["created_by"] == ann["id"]


async def test_created_by_in_a_body_is_refused(auth_site: AuthSite, ann: Json) -> None:
    body = {"agent_type": "bot", "created_by": "somebody else"}
    assert (await auth_site.request(ann["secret"], "POST", "/api/threads", json=body)).status_code == 400
