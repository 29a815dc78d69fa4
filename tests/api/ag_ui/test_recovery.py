"""A client's view of an abandoned model call, and of a killed server."""

import asyncio
from pathlib import Path
from typing import Final

import httpx2

from tests.api.ag_ui.driver import Driver
from tests.api.ag_ui.test_client_tools import TOOL, pending, tool_result
from tests.api.ag_ui.test_interrupts import resolved
from tests.api.site import Site, eventually
from tests.api.streams.restarting_server import serve_with_restarts
from tests.scenario.agents.agent_workspace import AgentWorkspace, say

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


async def _wait_for_text(url: str, run: str) -> None:
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:

        async def has_text() -> bool:
            return "TEXT_MESSAGE_CONTENT" in (await client.get(f"/api/runs/{run}/events")).text

        await eventually(has_text)
