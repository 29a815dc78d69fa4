"""Who did it: the key is written down with everything that is made, answered and ended with it."""

from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.ids import SpaceId
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.task_ids import run_id_of
from tests.api.auth.conftest import ACME, AuthSite, check_status
from tests.api.site import eventually

ASKED: Final[dict[str, Json]] = {"tools": [], "context": [], "state": {}, "forwardedProps": {}}


@pytest.fixture(scope="module")
async def ann(auth_site: AuthSite) -> Json:
    """Return the key of somebody."""
    return await auth_site.key("run", ACME, name="Ann")


async def waiting(auth_site: AuthSite, ann: Json, agent: str = "asker") -> str:
    """Start a run that asks something, and return its id once it does."""
    thread = (await auth_site.post(ann["secret"], "/api/threads", {"agent_type": agent}))["id"]
    run: str = (await auth_site.post(ann["secret"], f"/api/threads/{thread}/runs?wait=30", {"input": "go"}))["id"]
    return run


async def question_of(auth_site: AuthSite, run: str) -> Interrupt:
    """Return what a run asks, or asked."""
    (asked,) = await auth_site.site.store.interrupts.of_run(SpaceId(ACME), run_id_of(run))
    return asked


async def test_a_thread_a_run_and_its_messages_are_made_by_their_key(auth_site: AuthSite, ann: Json) -> None:
    thread = await auth_site.post(ann["secret"], "/api/threads", {"agent_type": "bot"})
    run = await auth_site.post(ann["secret"], f"/api/threads/{thread['id']}/runs?wait=30", {"input": "go"})
    messages = (await auth_site.get(ann["secret"], f"/api/threads/{thread['id']}/messages"))["items"]
    assert thread["created_by"] == run["created_by"] == messages[0]["created_by"] == ann["id"]


async def test_the_same_body_with_another_key_is_the_same_request(
    auth_site: AuthSite, ann: Json, acme_key: str
) -> None:
    thread = (await auth_site.post(ann["secret"], "/api/threads", {"agent_type": "bot"}))["id"]
    path, headers = f"/api/threads/{thread}/runs", {"Idempotency-Key": "once"}
    first = await auth_site.request(ann["secret"], "POST", path, json={"input": "go"}, headers=headers)
    again = await auth_site.request(acme_key, "POST", path, json={"input": "go"}, headers=headers)
    assert (again.headers["idempotency-replayed"], again.json()["id"]) == ("true", first.json()["id"])
    assert again.json()["created_by"] == ann["id"]


async def test_a_task_a_chat_a_completion_and_an_ag_ui_run_are_made_by_their_key(
    auth_site: AuthSite, ann: Json
) -> None:
    task = await auth_site.post(ann["secret"], "/agents/bot/task", {"input": "go"}, expect=202)
    chat = await auth_site.post(ann["secret"], "/agents/bot/chat", {"message": "hi"}, expect=200)
    said: Json = {"model": "bot", "messages": [{"role": "user", "content": "hi"}]}
    completed = await auth_site.request(ann["secret"], "POST", "/v1/chat/completions", json=said)
    thread = completed.headers["x-holdfast-thread"]
    asked = {"threadId": "t-who", "runId": "r-who", "messages": [{"id": "m", "role": "user", "content": "hi"}], **ASKED}
    checked_stream = await auth_site.request(ann["secret"], "POST", "/api/agents/bot/run", json=asked)
    assert checked_stream.status_code == 200
    runs = [task["taskId"], chat["taskId"], "r-who"]
    runs += [run["id"] for run in (await auth_site.get(ann["secret"], f"/api/threads/{thread}/runs"))["items"]]
    for run in runs:
        found = await auth_site.get(ann["secret"], f"/api/runs/{run}")
        made = await auth_site.get(ann["secret"], f"/api/threads/{found['thread_id']}")
        assert (found["created_by"], made["created_by"]) == (ann["id"], ann["id"])


async def test_a_child_is_made_by_whoever_made_its_parent(auth_site: AuthSite, ann: Json) -> None:
    parent = await waiting(auth_site, ann, "parent")
    (child,) = (await auth_site.get(ann["secret"], f"/api/runs/{parent}/children"))["items"]
    assert child["created_by"] == ann["id"]


async def test_a_run_is_cancelled_by_its_key(auth_site: AuthSite, ann: Json, acme_key: str) -> None:
    run = await waiting(auth_site, ann)
    ended = await auth_site.post(acme_key, f"/api/runs/{run}/cancel", expect=200)
    assert ended["cancelled_by"] not in (None, ann["id"])


async def test_an_answer_is_of_its_key_however_it_is_given(auth_site: AuthSite, ann: Json, acme_key: str) -> None:
    by_route = await waiting(auth_site, ann)
    await auth_site.post(acme_key, f"/api/runs/{by_route}/respond", {"response": "this"}, expect=200)
    us = (await question_of(auth_site, by_route)).answered_by
    task = (await auth_site.post(ann["secret"], "/agents/asker/task", {"input": "go"}, expect=202))["taskId"]

    async def asks() -> bool:
        return bool((await auth_site.get(ann["secret"], f"/tasks/{task}"))["task"]["status"] == "waiting")

    await eventually(asks)
    await auth_site.post(acme_key, f"/tasks/{task}/respond", {"message": "that"}, expect=200)
    chat = await auth_site.post(ann["secret"], "/agents/asker/chat", {"message": "hi"}, expect=200)
    more = {"message": "these", "sessionId": chat["sessionId"]}
    await auth_site.post(acme_key, "/agents/asker/chat", more, expect=200)
    by_resume = await waiting(auth_site, ann)
    asked = await question_of(auth_site, by_resume)
    resume = [{"interruptId": asked.id, "status": "resolved", "payload": "those"}]
    thread = (await auth_site.get(ann["secret"], f"/api/runs/{by_resume}"))["thread_id"]
    body = {"threadId": thread, "runId": "r-resume", "messages": [], "resume": resume, **ASKED}
    assert (await auth_site.request(acme_key, "POST", f"/api/threads/{thread}/runs", json=body)).status_code == 200
    for run in (by_route, task, chat["taskId"], by_resume):
        assert (await question_of(auth_site, run)).answered_by == us
    assert us not in (None, ann["id"])


async def test_artifacts_and_files_are_made_by_their_key(auth_site: AuthSite, ann: Json) -> None:
    thread = (await auth_site.post(ann["secret"], "/api/threads", {"agent_type": "bot"}))["id"]
    run = (await auth_site.post(ann["secret"], f"/api/threads/{thread}/runs?wait=30", {"input": "go"}))["id"]
    body = {"type": "doc", "title": "notes", "content": "x"}
    artifact = await auth_site.post(ann["secret"], f"/api/runs/{run}/artifacts", body)
    sent = await auth_site.request(ann["secret"], "POST", "/api/files?name=x.txt", content=b"x")
    assert artifact["created_by"] == check_status(sent, 201)["created_by"] == ann["id"]


async def test_nobody_says_who_they_are_in_a_body(auth_site: AuthSite, ann: Json) -> None:
    body = {"agent_type": "bot", "created_by": "somebody else"}
    assert (await auth_site.request(ann["secret"], "POST", "/api/threads", json=body)).status_code == 400
