"""Runs of the real client: one segment each, without a warning."""

import asyncio

from holdfast.domain.content import Json
from tests.api.ag_ui.driver import Driver
from tests.api.site import Site, eventually
from tests.unit.sandbox.confined import need_sandbox

TALK = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"]


async def test_a_client_runs_an_agent_and_receives_its_reply(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    outcome = await client.say("hi", "first-run")
    assert outcome.types == TALK
    assert outcome.said == ["user: hi", "assistant: hello you"]
    started, finished = outcome.events[0], outcome.events[-1]
    assert (started["runId"], started["protocolVersion"]) == ("first-run", "1.0")
    assert finished["runId"] == "first-run"
    assert "parentRunId" not in started


async def test_the_end_of_a_run_has_its_usage(site: Site, driver: Driver) -> None:
    outcome = await (await driver.on(site)).say("hi")
    (usage,) = outcome.one("RUN_FINISHED")["usage"]
    assert (usage["inputTokens"], usage["outputTokens"], usage["totalTokens"]) == (7, 2, 9)


async def test_the_next_run_continues_the_one_before(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    first = await client.say("hi")
    second = await client.say("and you?")
    assert second.types == TALK
    assert second.events[0]["parentRunId"] == first.events[0]["runId"]
    run = await site.get(f"/api/runs/{second.events[0]['runId']}")
    assert (run["base_run_id"], run["base_sequence"]) == (first.events[0]["runId"], None)
    assert second.said == ["user: hi", "assistant: hello you", "user: and you?", "assistant: hello you"]


async def test_sixteen_clients_at_once_are_served(site: Site, driver: Driver) -> None:
    clients = [await driver.on(site) for _ in range(16)]
    for turns in (1, 2):
        outcomes = await asyncio.gather(*(client.say("hi") for client in clients))
        assert [outcome.types for outcome in outcomes] == [TALK] * 16
        assert all(len(outcome.messages) == 2 * turns for outcome in outcomes)


async def test_reasoning_is_sent_and_may_be_sent_back(site: Site, driver: Driver) -> None:
    client = await driver.on(site, "thinker")
    outcome = await client.say("hi")
    thought = ["REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_END", "REASONING_END"]
    assert outcome.types == [TALK[0], *thought, *TALK[1:]]
    again = await client.say("more")
    assert again.events[0]["parentRunId"] == outcome.events[0]["runId"]
    assert [each["role"] for each in again.messages] == ["user", "reasoning", "assistant"] * 2


async def test_a_failed_run_ends_the_stream_with_an_error(site: Site, driver: Driver) -> None:
    outcome = await (await driver.on(site, "failing")).say("hi")
    assert outcome.types == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_ERROR"]  # text of the failed call is removed
    assert outcome.events[-1]["code"] == "MODEL_REFUSED"


async def test_server_tool_calls_are_sent_with_their_results(site: Site, driver: Driver) -> None:
    client = await driver.on(site, "planner")
    outcome = await client.say("bake")
    calls = ["TOOL_CALL_START", "TOOL_CALL_END", "TOOL_CALL_RESULT"]
    assert [each for each in outcome.types if each.startswith("TOOL") and "ARGS" not in each] == calls
    assert [each["role"] for each in outcome.messages] == ["user", "assistant", "tool", "assistant"]
    assert (await client.say("more")).events[0]["parentRunId"] == outcome.events[0]["runId"]


async def test_command_output_is_an_activity_and_is_not_sent_back(site: Site, driver: Driver) -> None:
    await need_sandbox()
    client = await driver.on(site, "operator")
    outcome = await client.say("print")
    (activity,) = [each for each in outcome.messages if each["role"] == "activity"]
    assert "".join(activity["content"]["output"]) == "one\ntwo\n"
    again = await client.say("more")
    assert again.events[0]["parentRunId"] == outcome.events[0]["runId"]
    other = await driver.client(site.url, outcome.events[0]["threadId"])
    joined = await other.join(outcome.events[0]["runId"])
    assert [each for each in joined.messages if each["role"] == "activity"] == [activity]


async def test_a_sub_agent_has_start_and_finish_events(site: Site, driver: Driver) -> None:
    outcome = await (await driver.on(site, "parent")).say("help")
    started, finished = outcome.one("SUBAGENT_STARTED"), outcome.one("SUBAGENT_FINISHED")
    assert started["subagentRunId"] == finished["subagentRunId"]
    assert outcome.said[-1] == "assistant: helped"


async def test_message_parts_are_stored_and_matched_in_the_next_turn(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    sources: list[dict[str, Json]] = [
        {"type": "url", "value": "https://example.org/a"},
        {"type": "data", "value": "aGk=", "mimeType": "application/octet-stream"},
        {"type": "file", "value": "file_1", "provider": "elsewhere"},
    ]
    kinds = ("image", "audio", "video", "document")
    parts = [{"type": "text", "text": "look"}, *({"type": kind, "source": each} for kind in kinds for each in sources)]
    first = await client.say(parts)
    second = await client.say("and?")
    assert second.events[0]["parentRunId"] == first.events[0]["runId"]
    stored = await site.get(f"/api/threads/{first.events[0]['threadId']}/messages")
    assert stored["items"][0]["content"] == parts


async def test_a_cancelled_run_ends_as_cancelled_and_the_next_one_works(site: Site, driver: Driver) -> None:
    client = await driver.on(site, "staller")

    async def exists() -> bool:
        return (await site.request("GET", "/api/runs/to-be-cancelled")).status_code == 200

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(client.say("hi", "to-be-cancelled"))
        await eventually(exists)
        await site.post("/api/runs/to-be-cancelled/cancel", expect=200)
    assert running.result().one("RUN_FINISHED")["outcome"] == {"type": "cancelled"}
    after = await client.say("again", abort_after="TEXT_MESSAGE_START")
    assert after.events[0]["parentRunId"] == "to-be-cancelled"
    await site.post(f"/api/runs/{after.events[0]['runId']}/cancel", expect=200)


async def test_a_run_continues_after_a_disconnect_and_the_next_message_follows_it(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    await client.say("hi", "left-alone", abort_after="RUN_STARTED")
    outcome = await client.say("still there?")
    assert outcome.events[0]["parentRunId"] == "left-alone"
    assert (await site.get("/api/runs/left-alone"))["status"] == "completed"
