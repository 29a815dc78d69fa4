"""A client's view of an abandoned model call, and of a killed server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx2

from holdfast.agent.run_context import RetryPolicy
from tests.api.ag_ui.conftest import write_agents
from tests.api.ag_ui.driver import Driver, Outcome
from tests.api.ag_ui.test_branches import base_of
from tests.api.ag_ui.test_client_tools import TOOL, pending, tool_result
from tests.api.ag_ui.test_interrupts import resolved
from tests.api.site import Site, eventually, serve
from tests.api.streams.restarting_server import serve_with_restarts
from tests.scenario.agents.agent_workspace import AgentWorkspace, Turn, call, calling, say

TIMEOUT_SECONDS: Final = 120.0


async def test_the_text_of_an_abandoned_model_call_is_removed(site: Site, driver: Driver) -> None:
    client = await driver.on(site, "breaking")
    outcome = await client.say("hi")
    assert outcome.types == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_END",
        "MESSAGES_SNAPSHOT",
        "RUN_ERROR",
    ]
    assert outcome.said == ["user: hi"]


async def test_a_snapshot_has_the_number_of_the_event_before_it_and_is_not_stored(site: Site) -> None:
    thread = await site.thread(agent_type="breaking")
    body = {"threadId": thread, "runId": f"lost-{thread}", "messages": [{"id": "u", "role": "user", "content": "hi"}]}
    answer = await site.request("POST", f"/api/threads/{thread}/runs", json=body)
    frames = [frame.splitlines() for frame in answer.text.split("\n\n") if frame.startswith("id: ")]
    (index,) = [number for number, frame in enumerate(frames) if "MESSAGES_SNAPSHOT" in frame[1]]
    assert "holdfast.abandoned" in frames[index - 1][1]
    assert frames[index - 1][0] == frames[index][0]
    log = await site.get(f"/api/runs/{body['runId']}/events")
    assert "MESSAGES_SNAPSHOT" not in [item["type"] for item in log["items"]]


async def test_a_client_rejoins_after_the_server_was_killed(driver: Driver, tmp_path: Path) -> None:
    workshop = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workshop.agent(say("this is only a part", stall=True))
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        serve_with_restarts(tmp_path, database=workshop.database, workers=2, lease=2.0) as server,
    ):
        url = f"http://{await server.host()}"
        client = await driver.client(url, "talk", agent="bot")
        await client.edit(add=[{"id": "u1", "role": "user", "content": "hi"}])
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(client.attempt("cut-off"))
            await _wait_for_text(url, "cut-off")
            workshop.script(say("the whole answer"))
            await server.restart()
        assert "RUN_FINISHED" not in running.result().types
        await client.move(f"http://{await server.host()}")
        joined = await client.join("cut-off")
        assert joined.said == ["user: hi", "assistant: the whole answer"]
        assert len(joined.all("MESSAGES_SNAPSHOT")) == 2
        again = await client.join("cut-off")
        assert (again.types, again.said) == (joined.types, joined.said)
        after = await client.say("more")
        assert after.events[0]["parentRunId"] == "cut-off"


async def test_a_client_that_sends_half_an_answer_after_a_kill_continues_after_the_whole_one(
    driver: Driver, tmp_path: Path
) -> None:
    workshop = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workshop.agent(say("this is only a part", stall=True))
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        serve_with_restarts(tmp_path, database=workshop.database, workers=2, lease=2.0) as server,
    ):
        url = f"http://{await server.host()}"
        client = await driver.client(url, "talk", agent="bot")
        await client.edit(add=[{"id": "u1", "role": "user", "content": "hi"}])
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(client.attempt("cut-off"))
            await _wait_for_text(url, "cut-off")
            workshop.script(say("the whole answer"))
            await server.restart()
        assert running.result().said == ["user: hi", "assistant: this is only a part"]
        url = f"http://{await server.host()}"
        await client.move(url)
        await _wait_for_end(url, "cut-off")
        after = await client.say("more")
        assert after.events[0]["parentRunId"] == "cut-off"
        assert await _conversation(url, after) == ["hi", "the whole answer", "more", "the whole answer"]


@asynccontextmanager
async def abandoning_site(folder: Path, *turns: Turn) -> AsyncIterator[Site]:
    """Serve an agent that says the last of its turns and fails, again and again, until its script is changed."""
    workshop = write_agents(AgentWorkspace(folder / "workspace", folder / "holdfast.db"))
    failing = {**turns[-1], "error": {"code": "MODEL_UNAVAILABLE", "message": "later"}}
    workshop.agent(*turns[:-1], failing, tools=["log_write"], permissions={"allow": ["log_write"]})
    async with serve(workshop, retry_policy=RetryPolicy(max_attempts=1000, first_delay_seconds=0.01)) as site:
        yield site


async def test_half_an_answer_after_a_tool_call_continues_after_the_whole_one(driver: Driver, tmp_path: Path) -> None:
    note = calling(call("log_write", message="noted"))
    async with abandoning_site(tmp_path, note, say("half of", think="hm")) as site:
        client = await driver.on(site)
        half = await client.say("hi", "interrupted", abort_after="TEXT_MESSAGE_END")
        assert half.said[-1] == "assistant: half of"
        site.workshop.script(note, say("half of the whole"))
        await _wait_for_end(site.url, "interrupted")
        await client.edit(messages=half.messages)  # as it was when the client left
        after = await client.say("more", message="more")
        assert after.events[0]["parentRunId"] == "interrupted"
        assert "half of the whole" in await _conversation(site.url, after)
        again = await client.say("and more", message="and-more")
        assert again.events[0]["parentRunId"] == after.events[0]["runId"]


async def test_the_beginning_of_a_message_that_a_run_went_on_from_does_not_fork(site: Site, driver: Driver) -> None:
    client = await driver.on(site, "planner")
    whole = await client.say("bake", "went-on")
    asked, called, *_ = whole.messages
    for part in (
        {**called, "toolCalls": []},
        {**called, "toolCalls": [{**called["toolCalls"][0], "function": {"name": "plan_create", "arguments": '{"'}}]},
    ):
        await client.edit(messages=[asked, part])
        after = await client.say("more", message=f"more-{part['toolCalls'] == []}")
        assert await base_of(site, after) == ("went-on", None)


async def test_a_client_that_was_cut_off_between_two_messages_continues_after_the_whole_answer(
    site: Site, driver: Driver
) -> None:
    client = await driver.on(site, "planner")
    whole = await client.say("bake", "whole")
    assert [each["role"] for each in whole.messages[:3]] == ["user", "assistant", "tool"]
    for received in (1, 2, 3):
        await client.edit(messages=whole.messages[:received])
        after = await client.say("more", message=f"more-{received}")
        assert await base_of(site, after) == ("whole", None)
        assert whole.messages[-1]["content"] in await _conversation(site.url, after)


async def test_a_client_that_lacks_a_question_of_the_run_forks_before_it(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    await client.edit(add=[{"id": id, "role": "user", "content": id} for id in ("first", "second")])
    both = await client.run("both")
    await client.edit(messages=[both.messages[0]])
    fork = await client.say("instead of the second", message="instead")
    assert await base_of(site, fork) == ("both", 0)
    assert (await _conversation(site.url, fork))[:2] == ["first", "instead of the second"]


async def test_the_id_of_an_abandoned_message_in_another_run_means_nothing(driver: Driver, tmp_path: Path) -> None:
    async with abandoning_site(tmp_path, say("half of")) as site:
        client = await driver.on(site)
        half = await client.say("hi", "elsewhere", abort_after="TEXT_MESSAGE_END")
        site.workshop.script(say("the whole"))
        await _wait_for_end(site.url, "elsewhere")
        other = await driver.on(site)
        told = await other.say("hello", "here")
        await other.edit(messages=[told.messages[0], half.messages[-1]])
        fork = await other.run("regenerated")
        assert await base_of(site, fork) == ("here", 0)


async def test_the_clients_of_a_queued_run_receive_the_answer_that_it_waits_for(driver: Driver, tmp_path: Path) -> None:
    async with abandoning_site(tmp_path, say("half of")) as site:
        client = await driver.on(site)
        first = await client.say("one", "first", abort_after="TEXT_MESSAGE_END")
        thread = first.events[0]["threadId"]
        await client.edit(messages=first.messages)  # as it was when the client left

        async def is_queued() -> bool:
            answer = await site.request("GET", "/api/runs/second")
            return answer.status_code == 200 and answer.json()["status"] == "pending"

        async def is_joined() -> bool:
            return site.streams.open_count == 3

        other, same = await driver.client(site.url, thread), await driver.client(site.url, thread)
        await same.edit(messages=[*first.messages, {"id": "c1-2", "role": "user", "content": "two"}])
        async with asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as tasks:
            running = tasks.create_task(client.say("two", "second"))
            await eventually(is_queued)
            joining = [tasks.create_task(each.join("second")) for each in (other, same)]
            await eventually(is_joined)
            site.workshop.script(say("the whole"))
        whole = ["user: one", "assistant: the whole", "user: two", "assistant: the whole"]
        assert running.result().said == whole
        assert [each.result().said for each in joining] == [whole, whole]
        after = await client.say("three")
        assert after.events[0]["parentRunId"] == "second"


async def test_a_client_that_left_while_its_run_was_queued_joins_it_in_the_right_order(
    driver: Driver, tmp_path: Path
) -> None:
    async with abandoning_site(tmp_path, say("half of")) as site:
        client = await driver.on(site)
        first = await client.say("one", "first", abort_after="TEXT_MESSAGE_END")
        await client.edit(messages=first.messages[:1])  # the client drops the half answer
        left = await client.say("two", "second", abort_after="RUN_STARTED")
        assert left.said == ["user: one", "user: two"]
        site.workshop.script(say("the whole"))
        await _wait_for_end(site.url, "second")
        whole = ["user: one", "assistant: the whole", "user: two", "assistant: the whole"]
        assert (await client.join("second")).said == whole
        assert (await client.join("second")).said == whole


async def test_the_client_of_a_queued_run_that_is_cancelled_keeps_its_conversation(
    driver: Driver, tmp_path: Path
) -> None:
    async with abandoning_site(tmp_path, say("half of")) as site:
        client = await driver.on(site)
        half = await client.say("one", "busy", abort_after="TEXT_MESSAGE_END")
        await client.edit(messages=half.messages)  # as it was when the client left

        async def is_cancelled() -> bool:
            return (await site.request("POST", "/api/runs/never-started/cancel")).status_code == 200

        async with asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as tasks:
            running = tasks.create_task(client.say("two", "never-started"))
            await eventually(is_cancelled)
        assert running.result().types == ["RUN_STARTED", "RUN_FINISHED"]
        assert running.result().said == ["user: one", "assistant: half of", "user: two"]


async def test_every_segment_of_a_run_may_be_joined_by_its_id(site: Site, driver: Driver) -> None:
    client = await driver.on(site, "mixed")
    first = await client.say("hi", "joined-1", tools=[TOOL])
    second = await client.run("joined-2", resume=[resolved(first.interrupts[0], "yes")])
    await client.edit(add=[tool_result(pending(second)[0], "red")])
    third = await client.run("joined-3")
    thread = first.events[0]["threadId"]
    for name, seen in (("joined-1", first), ("joined-2", second), ("joined-3", third)):
        other = await driver.client(site.url, thread)
        outcome = await other.join(name)
        if name == "joined-1":  # also the id of the run, which stands for its latest segment
            assert outcome.said == third.said
        else:
            assert outcome.said == seen.said
            assert outcome.events[0]["runId"] == name


async def test_joining_a_missing_segment_is_not_found(site: Site) -> None:
    assert (await site.get("/api/runs/nowhere/segment", expect=404))["error"]["code"] == "NOT_FOUND"


async def test_a_joining_client_receives_the_state(site: Site, driver: Driver) -> None:
    first = await (await driver.on(site, state={"a": 1})).say("hi")
    other = await driver.client(site.url, first.events[0]["threadId"])
    joined = await other.join(first.events[0]["runId"])
    assert (joined.state, joined.said) == ({"a": 1}, first.said)


async def _wait_for_end(url: str, run: str) -> None:
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:

        async def has_ended() -> bool:
            return (await client.get(f"/api/runs/{run}")).json()["completed_at"] is not None

        await eventually(has_ended)


async def _conversation(url: str, outcome: Outcome) -> list[str]:
    """Return the texts on the chain of a run."""
    started = outcome.events[0]
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
        query = {"run_id": started["runId"]}
        answer = await client.get(f"/api/threads/{started['threadId']}/messages", params=query)
    return [each["content"] for each in answer.json()["items"]]


async def _wait_for_text(url: str, run: str) -> None:
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:

        async def has_text() -> bool:
            return "TEXT_MESSAGE_CONTENT" in (await client.get(f"/api/runs/{run}/events")).text

        await eventually(has_text)
