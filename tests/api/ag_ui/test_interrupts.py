"""Interrupts of a run: they end its segment, and a `resume` starts the next one."""

import asyncio
from pathlib import Path

from holdfast.domain.content import Json
from tests.api.ag_ui.conftest import write_agents
from tests.api.ag_ui.driver import Client, Driver, Outcome
from tests.api.site import Site, eventually, serve
from tests.scenario.agents.agent_workspace import AgentWorkspace


def resolved(interrupt: Json, payload: Json) -> Json:
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}


def cancelled(interrupt: Json) -> Json:
    return {"interruptId": interrupt["id"], "status": "cancelled"}


async def results(site: Site, outcome: Outcome) -> list[str]:
    """Return the tool results of a thread."""
    started = outcome.events[0]
    items = (await site.get(f"/api/threads/{started['threadId']}/messages"))["items"]
    return [item["content"] for item in items if item["role"] == "tool"]


async def run_to_interrupt(driver: Driver, site: Site, agent: str, run: str | None = None) -> tuple[Client, Outcome]:
    client = await driver.on(site, agent)
    return client, await client.say("hi", run)


async def test_an_interrupt_ends_the_segment_and_its_response_starts_the_next_of_the_run(
    site: Site, driver: Driver
) -> None:
    client, first = await run_to_interrupt(driver, site, "asker", "asks-1")
    (interrupt,) = first.interrupts
    assert first.one("RUN_FINISHED")["outcome"]["type"] == "interrupt"
    assert (interrupt["reason"], interrupt["message"]) == ("input_required", "which?")
    second = await client.run("asks-2", resume=[resolved(interrupt, "this one")])
    assert second.types[0] == "RUN_STARTED" and second.types[-1] == "RUN_FINISHED"
    assert (second.events[0]["runId"], second.events[-1]["runId"]) == ("asks-2", "asks-2")
    assert second.interrupts == []
    assert second.said[-1] == "assistant: so be it"
    assert await results(site, second) == ["this one"]
    run = await site.get("/api/runs/asks-2")
    assert (run["id"], run["status"]) == ("asks-1", "completed")


async def test_the_turn_after_a_response_continues_the_run(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "asker")
    await client.run(resume=[resolved(first.interrupts[0], "x")])
    third = await client.say("more")
    assert third.events[0]["parentRunId"] == first.events[0]["runId"]


async def test_all_open_interrupts_need_a_response_at_once(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "curious")
    who, what = first.interrupts
    body = {
        "threadId": first.events[0]["threadId"],
        "runId": "one-of-two",
        "messages": first.messages,
        "resume": [resolved(who, "me")],
    }
    refused = await site.post(f"/api/threads/{body['threadId']}/runs", body, expect=409)
    assert refused["error"]["code"] == "WAITING"
    assert set(refused["error"]["details"]["interrupts"]) == {who["id"], what["id"]}
    second = await client.run("one-of-two", resume=[resolved(who, "me"), resolved(what, "a")])
    assert await results(site, second) == ["me", "a"]


async def test_a_response_that_does_not_fit_is_rejected_and_changes_nothing(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "curious")
    who, what = first.interrupts
    refused = await client.attempt(resume=[resolved(who, "me"), resolved(what, "neither")])
    assert refused.failed["status"] == 400
    assert refused.failed["payload"]["error"]["code"] == "INVALID"
    again = await client.run(resume=[resolved(who, "me"), resolved(what, "b")])
    assert again.said[-1] == "assistant: good"


async def test_a_response_to_a_closed_interrupt_is_rejected(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "asker", "given-1")
    answer = resolved(first.interrupts[0], "this")
    await client.run("given-2", resume=[answer])
    late = await client.attempt("given-3", resume=[answer])
    assert (late.failed["status"], late.failed["payload"]["error"]["code"]) == (404, "NOT_FOUND")
    other = await client.attempt("given-2", resume=[resolved(first.interrupts[0], "that")])
    assert (other.failed["status"], other.failed["payload"]["error"]["code"]) == (409, "ALREADY_ANSWERED")
    await site.get("/api/runs/given-3", expect=404)


async def test_a_repeated_resume_joins_its_segment(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "asker", "repeats-1")
    answer = resolved(first.interrupts[0], "this")
    second = await client.run("repeats-2", resume=[answer])
    await client.edit(messages=first.messages)
    again = await client.run("repeats-2", resume=[answer])
    assert (again.said, again.events[0]["runId"]) == (second.said, "repeats-2")
    assert await results(site, again) == ["this"]


async def test_of_the_same_resumes_at_once_one_is_accepted_and_the_others_join(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "careful", "at-once")
    thread = first.events[0]["threadId"]
    others = [await driver.client(site.url, thread, messages=first.messages) for _ in range(4)]
    resume = [resolved(first.interrupts[0], True)]
    outcomes = await asyncio.gather(*(each.run("at-once", resume=resume) for each in others))
    assert [each.said[-1] for each in outcomes] == ["assistant: noted"] * 4
    assert len(await results(site, first)) == 1


async def test_a_resume_may_name_the_interrupted_segment_again(site: Site, driver: Driver) -> None:
    client, outcome = await run_to_interrupt(driver, site, "insisting", "same")
    for payload in ("one", "two"):
        (interrupt,) = outcome.interrupts
        outcome = await client.run("same", resume=[resolved(interrupt, payload)])
        assert {outcome.events[0]["runId"], outcome.events[-1]["runId"]} == {"same"}
    assert outcome.said[-1] == "assistant: at last"
    assert await results(site, outcome) == ["one", "two"]
    other = await driver.client(site.url, outcome.events[0]["threadId"])
    joined = await other.join("same")
    assert (joined.said, joined.types.count("RUN_STARTED"), joined.interrupts) == (outcome.said, 1, [])


async def test_a_segment_is_joined_by_its_newest_name(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "insisting", "asked-once")
    second = await client.run("asked-again", resume=[resolved(first.interrupts[0], "one")])
    third = await client.run("asked-again", resume=[resolved(second.interrupts[0], "two")])
    other = await driver.client(site.url, first.events[0]["threadId"])
    assert (await other.join("asked-again")).said == third.said
    assert (await other.join("asked-once")).said == third.said


async def test_a_segment_that_no_worker_has_resumed_yet_may_be_joined(driver: Driver, tmp_path: Path) -> None:
    workshop = write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    async with serve(workshop, workers=1) as site:
        client, first = await run_to_interrupt(driver, site, "asker", "resumed-later")
        (interrupt,) = first.interrupts
        busy = await site.post(f"/api/threads/{await site.thread(agent_type='staller')}/runs", {"input": "go"})

        async def is_busy() -> bool:
            return bool((await site.get(f"/api/runs/{busy['id']}"))["status"] == "running")

        await eventually(is_busy)
        other = await driver.client(site.url, first.events[0]["threadId"])
        async with asyncio.TaskGroup() as tasks:
            resumed = tasks.create_task(client.run("resumed-later", resume=[resolved(interrupt, "this")]))

            async def is_answered() -> bool:
                return bool((await site.get("/api/runs/resumed-later"))["status"] == "queued")

            await eventually(is_answered)
            joining = tasks.create_task(other.join("resumed-later"))

            async def is_joined() -> bool:
                return site.streams.open_count == 2

            await eventually(is_joined)
            await site.post(f"/api/runs/{busy['id']}/cancel", expect=200)
        assert resumed.result().said == joining.result().said
        assert joining.result().said[-1] == "assistant: so be it"


async def test_a_run_id_of_another_run_cannot_name_a_segment(site: Site, driver: Driver) -> None:
    _, elsewhere = await run_to_interrupt(driver, site, "asker", "used-elsewhere")
    client, first = await run_to_interrupt(driver, site, "asker", "used-1")
    refused = await client.attempt("used-elsewhere", resume=[resolved(first.interrupts[0], "this")])
    assert refused.failed["payload"]["error"]["code"] == "ID_TAKEN"
    assert (await site.get("/api/runs/used-1"))["status"] == "waiting"


async def test_a_clients_own_result_of_an_approved_call_gives_way_to_the_real_one(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "careful", "own-result")
    (interrupt,) = first.interrupts
    own = {"id": "own", "role": "tool", "toolCallId": interrupt["toolCallId"], "content": '{"approved":true}'}
    await client.edit(add=[own])
    second = await client.run("own-result", resume=[resolved(interrupt, {"approved": True})])
    assert [each["role"] for each in second.messages] == ["user", "assistant", "tool", "assistant"]
    stored = (await site.get(f"/api/threads/{first.events[0]['threadId']}/messages"))["items"]
    assert [each["id"] for each in second.messages] == [each["id"] for each in stored]
    assert second.messages[2]["content"] == stored[2]["content"]


async def test_an_interrupt_may_be_cancelled(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "curious")
    second = await client.run(resume=[cancelled(each) for each in first.interrupts])
    assert await results(site, second) == ["not answered: the person closed the question"] * 2


async def test_a_message_instead_of_a_response_is_rejected_with_the_interrupts(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "asker")
    thread, (interrupt,) = first.events[0]["threadId"], first.interrupts
    body = {"threadId": thread, "runId": "instead", "messages": [{"id": "n", "role": "user", "content": "no"}]}
    refused = await site.post(f"/api/threads/{thread}/runs", body, expect=409)
    assert (refused["error"]["code"], refused["error"]["details"]["interrupts"]) == ("WAITING", [interrupt["id"]])


async def test_a_resume_with_a_new_message_is_rejected(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "asker")
    await client.edit(add=[{"id": "beside", "role": "user", "content": "and this"}])
    refused = await client.attempt(resume=[resolved(first.interrupts[0], "x")])
    assert refused.failed["payload"]["error"]["details"]["field"] == "resume"


async def test_an_approval_accepts_the_payloads_of_the_protocol(site: Site, driver: Driver) -> None:
    for payload in (True, {"approved": True}, {"decision": "approve"}):
        client, first = await run_to_interrupt(driver, site, "careful")
        (interrupt,) = first.interrupts
        assert interrupt["toolCallId"] == first.one("TOOL_CALL_START")["toolCallId"]
        assert interrupt["reason"] == "tool_call"
        second = await client.run(resume=[resolved(interrupt, payload)])
        assert [each["type"] for each in second.events if each["type"].startswith("TOOL")] == ["TOOL_CALL_RESULT"]
        assert second.one("TOOL_CALL_RESULT")["toolCallId"] == interrupt["toolCallId"]
        assert second.said[-1] == "assistant: noted"


async def test_a_call_is_approved_with_edited_arguments(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "careful")
    edited = {"approved": True, "editedArgs": {"message": "changed"}}
    second = await client.run(resume=[resolved(first.interrupts[0], edited)])
    logged = [each["value"] for each in second.events if each.get("name") == "holdfast.log"]
    assert logged == [{"message": "changed"}]


async def test_a_call_is_denied(site: Site, driver: Driver) -> None:
    for payload in (False, {"approved": False, "reason": "not now"}):
        client, first = await run_to_interrupt(driver, site, "careful")
        second = await client.run(resume=[resolved(first.interrupts[0], payload)])
        assert "refused" in (await results(site, second))[0]
    client, first = await run_to_interrupt(driver, site, "careful")
    second = await client.run(resume=[cancelled(first.interrupts[0])])
    assert "refused" in (await results(site, second))[0]


async def test_cancelling_a_waiting_run_allows_the_next_one(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "asker")
    await site.post(f"/api/runs/{first.events[0]['runId']}/cancel", expect=200)
    stranger = await driver.client(site.url, first.events[0]["threadId"], messages=first.messages)
    outcome = await stranger.say("again")
    assert outcome.events[0]["parentRunId"] == first.events[0]["runId"]


async def test_an_interrupt_of_a_sub_agent_ends_the_segment_and_its_response_starts_the_next(
    site: Site, driver: Driver
) -> None:
    client, first = await run_to_interrupt(driver, site, "delegating", "root-asked")
    (interrupt,) = first.interrupts
    assert (interrupt["message"], interrupt["reason"]) == ("which?", "input_required")
    (child,) = (await site.get("/api/runs/root-asked/children"))["items"]
    suspended = first.one("SUBAGENT_FINISHED")
    assert interrupt["subagentRunId"] == suspended["subagentRunId"] == child["id"]
    assert suspended["outcome"] == {"type": "suspended", "interruptIds": [interrupt["id"]]}
    second = await client.run("root-answered", resume=[resolved(interrupt, "this one")])
    assert (second.events[0]["runId"], second.events[-1]["runId"]) == ("root-answered", "root-answered")
    assert second.one("SUBAGENT_STARTED")["subagentRunId"] == child["id"]
    assert "outcome" not in second.one("SUBAGENT_FINISHED")
    assert second.said[-1] == "assistant: delegated"
    run = await site.get("/api/runs/root-answered")
    assert (run["id"], run["status"]) == ("root-asked", "completed")


async def test_the_root_accepts_responses_to_interrupts_two_levels_below(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "director", "two-below")
    (interrupt,) = first.interrupts
    second = await client.run(resume=[resolved(interrupt, "x")])
    assert second.said[-1] == "assistant: directed"
    assert (await site.get("/api/runs/two-below"))["status"] == "completed"


async def test_an_interrupt_of_a_sub_agent_may_be_cancelled(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "delegating")
    second = await client.run(resume=[cancelled(first.interrupts[0])])
    assert second.said[-1] == "assistant: delegated"


async def test_a_message_instead_of_a_response_to_a_sub_agent_is_rejected(site: Site, driver: Driver) -> None:
    _, first = await run_to_interrupt(driver, site, "delegating")
    thread, (interrupt,) = first.events[0]["threadId"], first.interrupts
    body = {"threadId": thread, "runId": "instead-below", "messages": [{"id": "n", "role": "user", "content": "no"}]}
    refused = await site.post(f"/api/threads/{thread}/runs", body, expect=409)
    assert (refused["error"]["code"], refused["error"]["details"]["interrupts"]) == ("WAITING", [interrupt["id"]])
    plain = {"messages": [{"role": "user", "content": "no"}]}
    native = await site.post(f"/api/threads/{thread}/runs", plain, expect=409)
    assert native["error"]["code"] == "WAITING"


async def test_an_interrupt_of_a_sub_agent_answered_elsewhere_is_closed(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "delegating", "elsewhere")
    (interrupt,) = first.interrupts
    await site.post("/api/runs/elsewhere/respond", {"response": "this", "interrupt_id": interrupt["id"]}, expect=200)
    late = await client.attempt(resume=[resolved(interrupt, "that")])
    assert (late.failed["status"], late.failed["payload"]["error"]["code"]) == (404, "NOT_FOUND")


async def test_an_active_sub_agent_continues_after_a_response(site: Site, driver: Driver) -> None:
    client, first = await run_to_interrupt(driver, site, "leader")
    while first.interrupts:
        first = await client.run(resume=[resolved(each, "yes") for each in first.interrupts])
    assert first.said[-1] == "assistant: helped"
