"""Client tools: their calls end the segment as a success, and their results start the next."""

from typing import Final

import pytest

from holdfast.domain.content import Json
from tests.api.ag_ui.driver import Client, Driver, Outcome
from tests.api.ag_ui.test_interrupts import resolved, results
from tests.api.site import Site

TOOL: Final = {
    "name": "pick_color",
    "description": "Let the person pick a color.",
    "parameters": {"type": "object", "properties": {"prompt": {"type": "string"}}},
}


def tool_result(call: str, content: Json, **more: Json) -> Json:
    return {"id": f"result-{call}", "role": "tool", "toolCallId": call, "content": content, **more}


async def run_to_call(
    driver: Driver, site: Site, agent: str = "picker", run: str | None = None
) -> tuple[Client, Outcome]:
    client = await driver.on(site, agent)
    return client, await client.say("hi", run, tools=[TOOL])


def pending(outcome: Outcome) -> list[str]:
    ended = outcome.one("RUN_FINISHED")["outcome"]
    assert ended["type"] == "success"
    calls: list[str] = ended.get("pendingToolCallIds", [])
    return calls


async def test_a_client_tool_call_is_pending_and_its_result_starts_the_next_segment(site: Site, driver: Driver) -> None:
    client, first = await run_to_call(driver, site, run="picks-1")
    (name,) = pending(first)
    assert first.one("TOOL_CALL_START")["toolCallName"] == "pick_color"
    assert first.all("TOOL_CALL_RESULT") == [] and first.interrupts == []
    await client.edit(add=[tool_result(name, "red")])
    second = await client.run("picks-2", tools=[TOOL])
    assert second.types == ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert second.events[0]["runId"] == "picks-2"
    assert [each["role"] for each in second.messages] == ["user", "assistant", "tool", "assistant"]
    assert await results(site, second) == ["red"]
    assert (await site.get("/api/runs/picks-2"))["id"] == "picks-1"


async def test_the_turn_after_a_result_continues_the_run(site: Site, driver: Driver) -> None:
    client, first = await run_to_call(driver, site)
    await client.edit(add=[tool_result(pending(first)[0], "red")])
    await client.run(tools=[TOOL])
    third = await client.say("more", tools=[TOOL])
    assert third.events[0]["parentRunId"] == first.events[0]["runId"]
    assert len(pending(third)) == 1


async def test_a_result_keeps_the_id_that_the_client_gave_it(site: Site, driver: Driver) -> None:
    client, first = await run_to_call(driver, site)
    (call,) = pending(first)
    await client.edit(add=[tool_result(call, "red")])
    second = await client.run(tools=[TOOL])
    thread, run = first.events[0]["threadId"], first.events[0]["runId"]
    stored = (await site.get(f"/api/threads/{thread}/messages"))["items"]
    assert [each["id"] for each in stored] == [each["id"] for each in second.messages]
    logged = (await site.get(f"/api/runs/{run}/events"))["items"]
    (result,) = [each["data"] for each in logged if each["type"] == "TOOL_CALL_RESULT"]
    assert result["messageId"] == f"result-{call}"


async def test_a_later_join_leaves_the_result_in_its_place_and_later_runs_have_every_answer(
    site: Site, driver: Driver
) -> None:
    client, first = await run_to_call(driver, site)
    await client.edit(add=[tool_result(pending(first)[0], "one")])
    last = await client.run(tools=[TOOL])
    base = first.events[0]["runId"]
    for turn in ("two", "three"):
        first = await client.say(turn, tools=[TOOL])
        assert first.events[0]["parentRunId"] == base
        base = first.events[0]["runId"]
        joined = await client.join(base)
        await client.edit(add=[tool_result(pending(joined)[0], turn)])
        last = await client.run(tools=[TOOL])
    assert [each["role"] for each in last.messages] == ["user", "assistant", "tool", "assistant"] * 3
    stored = (await site.get(f"/api/threads/{first.events[0]['threadId']}/messages", run_id=base))["items"]
    assert [each["id"] for each in stored] == [each["id"] for each in last.messages]


async def test_a_result_with_the_id_of_another_message_is_refused_and_changes_nothing(
    site: Site, driver: Driver
) -> None:
    client, first = await run_to_call(driver, site, "pair", "taken-id")
    thread, (one, two) = first.events[0]["threadId"], pending(first)
    for sent in (
        [{**tool_result(one, "red"), "id": first.messages[0]["id"]}],
        [{**tool_result(one, "red"), "id": "same"}, {**tool_result(two, "blue"), "id": "same"}],
    ):
        body = {"threadId": thread, "runId": "never-named", "messages": [*first.messages, *sent]}
        refused = await site.post(f"/api/threads/{thread}/runs", body, expect=409)
        assert refused["error"]["code"] == "ID_TAKEN"
    unnamed = {**tool_result(one, "red"), "id": ""}
    body = {"threadId": thread, "runId": "never-named", "messages": [*first.messages, unnamed]}
    assert (await site.post(f"/api/threads/{thread}/runs", body, expect=400))["error"]["code"] == "INVALID"
    await site.get("/api/runs/never-named", expect=404)
    await client.edit(add=[tool_result(one, "red"), tool_result(two, "blue")])
    assert (await client.run(tools=[TOOL])).said[-1] == "assistant: two colors"


async def test_the_error_of_a_client_tool_reaches_the_model(site: Site, driver: Driver) -> None:
    client, first = await run_to_call(driver, site)
    await client.edit(add=[tool_result(pending(first)[0], "", error="no such color")])
    assert await results(site, await client.run(tools=[TOOL])) == ["no such color"]


async def test_results_may_name_the_segment_that_asked_for_them_again(site: Site, driver: Driver) -> None:
    client, first = await run_to_call(driver, site, "pair", "same-colors")
    one, two = pending(first)
    await client.edit(add=[tool_result(one, "red")])
    second = await client.run("same-colors", tools=[TOOL])
    assert (second.events[0]["runId"], pending(second)) == ("same-colors", [two])
    await client.edit(add=[tool_result(two, "blue")])
    third = await client.run("same-colors", tools=[TOOL])
    assert third.said[-1] == "assistant: two colors"
    assert await results(site, third) == ["red", "blue"]


async def test_repeated_results_join_their_segment(site: Site, driver: Driver) -> None:
    for again in ("colors-1", "colors-2"):
        client, first = await run_to_call(driver, site, run=f"first-{again}")
        await client.edit(add=[tool_result(pending(first)[0], "red")])
        sent = [*first.messages, tool_result(pending(first)[0], "red")]
        name = f"first-{again}" if again == "colors-1" else again
        second = await client.run(name, tools=[TOOL])
        await client.edit(messages=sent)
        repeated = await client.run(name, tools=[TOOL])
        assert (repeated.said, repeated.events[0]["runId"]) == (second.said, name)
        assert await results(site, repeated) == ["red"]


async def test_results_may_be_sent_one_by_one(site: Site, driver: Driver) -> None:
    client, first = await run_to_call(driver, site, "pair")
    one, two = pending(first)
    await client.edit(add=[tool_result(one, "red")])
    second = await client.run(tools=[TOOL])
    assert pending(second) == [two]
    await client.edit(add=[tool_result(two, "blue")])
    third = await client.run(tools=[TOOL])
    assert third.said[-1] == "assistant: two colors"
    assert await results(site, third) == ["red", "blue"]


async def test_results_may_be_sent_together(site: Site, driver: Driver) -> None:
    client, first = await run_to_call(driver, site, "pair")
    await client.edit(add=[tool_result(call, call) for call in pending(first)])
    second = await client.run(tools=[TOOL])
    assert await results(site, second) == pending(first)
    assert [each["role"] for each in second.messages] == ["user", "assistant", "tool", "tool", "assistant"]


async def test_a_new_message_instead_of_the_result_cancels_the_run_and_continues_it(site: Site, driver: Driver) -> None:
    client, first = await run_to_call(driver, site, run="unanswered")
    pending(first)
    second = await client.say("forget it", tools=[])
    assert second.events[0]["parentRunId"] == "unanswered"
    run = await site.get("/api/runs/unanswered")
    assert (run["status"], run["status_reason"]) == ("cancelled", "the client went on without its tools")
    assert (await results(site, second))[0].startswith("not answered")


async def test_a_rejected_message_does_not_cancel_the_waiting_run(site: Site, driver: Driver) -> None:
    client, first = await run_to_call(driver, site, run="still-waiting")
    thread = first.events[0]["threadId"]
    said = {"id": "else", "role": "user", "content": "something else"}
    for run, status in (("still-waiting", 409), ("fine", 400)):
        messages = [*first.messages, said, *([said] if run == "fine" else [])]
        body = {"threadId": thread, "runId": run, "messages": messages}
        await site.post(f"/api/threads/{thread}/runs", body, expect=status)
    assert (await site.get("/api/runs/still-waiting"))["status"] == "waiting"
    await client.edit(add=[tool_result(pending(first)[0], "red")])
    assert (await client.run()).said[-1] == "assistant: so be it"


async def test_a_new_message_after_the_result_is_input_of_the_next_run(site: Site, driver: Driver) -> None:
    client, first = await run_to_call(driver, site, run="answered-late")
    await client.edit(add=[tool_result(pending(first)[0], "red")])
    second = await client.say("and more")
    assert second.events[0]["parentRunId"] == "answered-late"
    assert (await site.get("/api/runs/answered-late"))["output"] == "so be it"
    assert (await results(site, second))[0] == "red"


async def test_an_interrupt_for_a_person_precedes_client_tool_calls(site: Site, driver: Driver) -> None:
    client, first = await run_to_call(driver, site, "mixed")
    (question,) = first.interrupts
    second = await client.run(resume=[resolved(question, "yes")])
    (name,) = pending(second)
    await client.edit(add=[tool_result(name, "red")])
    third = await client.run()
    assert third.said[-1] == "assistant: mixed"
    assert sorted(await results(site, third)) == ["red", "yes"]


async def test_a_client_before_1_0_is_sent_no_outcome_that_it_would_refuse(site: Site) -> None:
    thread = await site.thread(agent_type="picker")
    asked = {"id": "u", "role": "user", "content": "hi"}
    body = {"threadId": thread, "messages": [asked], "tools": [TOOL]}
    older = await site.request("POST", f"/api/threads/{thread}/runs", json={**body, "runId": f"older-{thread}"})
    assert '"outcome":{"type":"success"}' in older.text and "pendingToolCallIds" not in older.text
    other = await site.thread(agent_type="picker")
    version = {"threadId": other, "runId": f"newer-{other}", "protocolVersion": "1.0"}
    newer = await site.request("POST", f"/api/threads/{other}/runs", json={**body, **version})
    assert '"outcome":{"type":"success","pendingToolCallIds":[' in newer.text


async def test_a_client_does_not_replace_a_tool_of_the_agent(site: Site, driver: Driver) -> None:
    client = await driver.on(site, "planner")
    imposter = {"name": "plan_create", "description": "mine", "parameters": {"type": "object"}}
    outcome = await client.say("bake", tools=[imposter])
    assert len(outcome.all("TOOL_CALL_RESULT")) == 1


async def test_client_tools_do_not_carry_over_to_the_next_run(site: Site, driver: Driver) -> None:
    client, first = await run_to_call(driver, site)
    await client.edit(add=[tool_result(pending(first)[0], "red")])
    await client.run(tools=[TOOL])
    run = await site.play(first.events[0]["threadId"])
    assert run["error"]["message"].endswith("the tools of this call are: none")


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "no spaces", "description": "x"},
        {"name": "x", "description": "x", "parameters": {"type": "string"}},
        {"name": "x", "description": "x", "parameters": [1]},
        {"description": "x"},
    ],
)
async def test_an_invalid_client_tool_is_rejected_before_anything_runs(site: Site, tool: Json) -> None:
    thread = await site.thread()
    body = {"threadId": thread, "runId": "never-run", "messages": [], "tools": [tool]}
    answer = await site.post(f"/api/threads/{thread}/runs", body, expect=400)
    assert answer["error"]["code"] == "INVALID"
    await site.get("/api/runs/never-run", expect=404)


async def test_two_client_tools_with_one_name_are_rejected(site: Site) -> None:
    thread = await site.thread()
    body = {"threadId": thread, "runId": "never-run", "messages": [], "tools": [TOOL, TOOL]}
    assert "same name" in (await site.post(f"/api/threads/{thread}/runs", body, expect=400))["error"]["message"]
