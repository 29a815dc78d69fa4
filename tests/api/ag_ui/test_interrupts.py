"""Questions of a run: its segment ends with them, and a `resume` opens the next one."""

from holdfast.domain.content import Json
from tests.api.ag_ui.driver import Client, Driver, Outcome
from tests.api.site import Site


def resolved(interrupt: Json, payload: Json) -> Json:
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}


def cancelled(interrupt: Json) -> Json:
    return {"interruptId": interrupt["id"], "status": "cancelled"}


async def results(site: Site, outcome: Outcome) -> list[str]:
    """Return what came of the calls of a run."""
    started = outcome.events[0]
    items = (await site.get(f"/api/threads/{started['threadId']}/messages"))["items"]
    return [item["content"] for item in items if item["role"] == "tool"]


async def asked(driver: Driver, site: Site, agent: str, run: str | None = None) -> tuple[Client, Outcome]:
    client = await driver.on(site, agent)
    return client, await client.say("hi", run)


async def test_a_question_ends_the_segment_and_its_answer_opens_the_next_of_the_same_run(
    site: Site, driver: Driver
) -> None:
    client, first = await asked(driver, site, "asker", "asks-1")
    (question,) = first.interrupts
    assert first.one("RUN_FINISHED")["outcome"]["type"] == "interrupt"
    assert (question["reason"], question["message"]) == ("input_required", "which?")
    second = await client.run("asks-2", resume=[resolved(question, "this one")])
    assert second.types[0] == "RUN_STARTED" and second.types[-1] == "RUN_FINISHED"
    assert (second.events[0]["runId"], second.events[-1]["runId"]) == ("asks-2", "asks-2")
    assert second.interrupts == []
    assert second.said[-1] == "assistant: so be it"
    assert await results(site, second) == ["this one"]
    run = await site.get("/api/runs/asks-2")
    assert (run["id"], run["status"]) == ("asks-1", "completed")


async def test_the_turn_after_an_answer_continues_the_run(site: Site, driver: Driver) -> None:
    client, first = await asked(driver, site, "asker")
    await client.run(resume=[resolved(first.interrupts[0], "x")])
    third = await client.say("more")
    assert third.events[0]["parentRunId"] == first.events[0]["runId"]


async def test_all_questions_are_answered_at_once(site: Site, driver: Driver) -> None:
    client, first = await asked(driver, site, "curious")
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


async def test_an_answer_that_does_not_fit_is_refused_and_changes_nothing(site: Site, driver: Driver) -> None:
    client, first = await asked(driver, site, "curious")
    who, what = first.interrupts
    refused = await client.attempt(resume=[resolved(who, "me"), resolved(what, "neither")])
    assert refused.failed["status"] == 400
    assert refused.failed["payload"]["error"]["code"] == "INVALID"
    again = await client.run(resume=[resolved(who, "me"), resolved(what, "b")])
    assert again.said[-1] == "assistant: good"


async def test_an_answer_that_was_given_is_refused_the_second_time(site: Site, driver: Driver) -> None:
    client, first = await asked(driver, site, "asker", "given-1")
    answer = resolved(first.interrupts[0], "this")
    await client.run("given-2", resume=[answer])
    late = await client.attempt("given-3", resume=[answer])
    assert (late.failed["status"], late.failed["payload"]["error"]["code"]) == (404, "NOT_FOUND")
    body = {"threadId": first.events[0]["threadId"], "runId": "given-2", "messages": [], "resume": [answer]}
    assert (await site.ask("POST", f"/api/threads/{body['threadId']}/runs", json=body)).status_code == 404


async def test_a_name_that_was_used_names_no_segment(site: Site, driver: Driver) -> None:
    client, first = await asked(driver, site, "asker", "used-1")
    refused = await client.attempt("used-1", resume=[resolved(first.interrupts[0], "this")])
    assert refused.failed["payload"]["error"]["code"] == "ID_TAKEN"
    assert (await site.get("/api/runs/used-1"))["status"] == "waiting"


async def test_a_question_may_be_closed_without_an_answer(site: Site, driver: Driver) -> None:
    client, first = await asked(driver, site, "curious")
    second = await client.run(resume=[cancelled(each) for each in first.interrupts])
    assert await results(site, second) == ["not answered: the person closed the question"] * 2


async def test_a_message_instead_of_an_answer_is_refused_with_the_questions(site: Site, driver: Driver) -> None:
    client, first = await asked(driver, site, "asker")
    thread, (question,) = first.events[0]["threadId"], first.interrupts
    body = {"threadId": thread, "runId": "instead", "messages": [{"id": "n", "role": "user", "content": "no"}]}
    refused = await site.post(f"/api/threads/{thread}/runs", body, expect=409)
    assert (refused["error"]["code"], refused["error"]["details"]["interrupts"]) == ("WAITING", [question["id"]])


async def test_an_answer_with_a_message_beside_it_is_refused(site: Site, driver: Driver) -> None:
    client, first = await asked(driver, site, "asker")
    await client.edit(add=[{"id": "beside", "role": "user", "content": "and this"}])
    refused = await client.attempt(resume=[resolved(first.interrupts[0], "x")])
    assert refused.failed["payload"]["error"]["details"]["field"] == "resume"


async def test_a_call_is_approved_in_the_words_of_the_protocol(site: Site, driver: Driver) -> None:
    for payload in (True, {"approved": True}, {"decision": "approve"}):
        client, first = await asked(driver, site, "careful")
        (question,) = first.interrupts
        assert question["toolCallId"] == first.one("TOOL_CALL_START")["toolCallId"]
        assert question["reason"] == "tool_call"
        second = await client.run(resume=[resolved(question, payload)])
        assert [each["type"] for each in second.events if each["type"].startswith("TOOL")] == ["TOOL_CALL_RESULT"]
        assert second.one("TOOL_CALL_RESULT")["toolCallId"] == question["toolCallId"]
        assert second.said[-1] == "assistant: noted"


async def test_a_call_is_approved_with_other_arguments(site: Site, driver: Driver) -> None:
    client, first = await asked(driver, site, "careful")
    edited = {"approved": True, "editedArgs": {"message": "changed"}}
    second = await client.run(resume=[resolved(first.interrupts[0], edited)])
    logged = [each["value"] for each in second.events if each.get("name") == "holdfast.log"]
    assert logged == [{"message": "changed"}]


async def test_a_call_is_denied(site: Site, driver: Driver) -> None:
    for payload in (False, {"approved": False, "reason": "not now"}):
        client, first = await asked(driver, site, "careful")
        second = await client.run(resume=[resolved(first.interrupts[0], payload)])
        assert "refused" in (await results(site, second))[0]
    client, first = await asked(driver, site, "careful")
    second = await client.run(resume=[cancelled(first.interrupts[0])])
    assert "refused" in (await results(site, second))[0]


async def test_a_waiting_run_that_is_cancelled_lets_the_next_one_go(site: Site, driver: Driver) -> None:
    client, first = await asked(driver, site, "asker")
    await site.post(f"/api/runs/{first.events[0]['runId']}/cancel", expect=200)
    stranger = await driver.client(site.url, first.events[0]["threadId"], messages=first.messages)
    outcome = await stranger.say("again")
    assert outcome.events[0]["parentRunId"] == first.events[0]["runId"]


async def test_a_question_of_a_sub_agent_ends_the_segment_and_its_answer_opens_the_next(
    site: Site, driver: Driver
) -> None:
    client, first = await asked(driver, site, "delegating", "root-asked")
    (question,) = first.interrupts
    assert (question["message"], question["reason"]) == ("which?", "input_required")
    (child,) = (await site.get("/api/runs/root-asked/children"))["items"]
    suspended = first.one("SUBAGENT_FINISHED")
    assert question["subagentRunId"] == suspended["subagentRunId"] == child["id"]
    assert suspended["outcome"] == {"type": "suspended", "interruptIds": [question["id"]]}
    second = await client.run("root-answered", resume=[resolved(question, "this one")])
    assert (second.events[0]["runId"], second.events[-1]["runId"]) == ("root-answered", "root-answered")
    assert second.one("SUBAGENT_STARTED")["subagentRunId"] == child["id"]
    assert "outcome" not in second.one("SUBAGENT_FINISHED")
    assert second.said[-1] == "assistant: delegated"
    run = await site.get("/api/runs/root-answered")
    assert (run["id"], run["status"]) == ("root-asked", "completed")


async def test_what_is_asked_two_levels_below_is_answered_at_the_root(site: Site, driver: Driver) -> None:
    client, first = await asked(driver, site, "director", "two-below")
    (question,) = first.interrupts
    second = await client.run(resume=[resolved(question, "x")])
    assert second.said[-1] == "assistant: directed"
    assert (await site.get("/api/runs/two-below"))["status"] == "completed"


async def test_a_sub_agents_question_may_be_closed_without_an_answer(site: Site, driver: Driver) -> None:
    client, first = await asked(driver, site, "delegating")
    second = await client.run(resume=[cancelled(first.interrupts[0])])
    assert second.said[-1] == "assistant: delegated"


async def test_a_message_instead_of_an_answer_to_a_sub_agent_is_refused(site: Site, driver: Driver) -> None:
    _, first = await asked(driver, site, "delegating")
    thread, (question,) = first.events[0]["threadId"], first.interrupts
    body = {"threadId": thread, "runId": "instead-below", "messages": [{"id": "n", "role": "user", "content": "no"}]}
    refused = await site.post(f"/api/threads/{thread}/runs", body, expect=409)
    assert (refused["error"]["code"], refused["error"]["details"]["interrupts"]) == ("WAITING", [question["id"]])
    plain = {"messages": [{"role": "user", "content": "no"}]}
    native = await site.post(f"/api/threads/{thread}/runs", plain, expect=409)
    assert native["error"]["code"] == "WAITING"


async def test_the_question_of_a_sub_agent_that_was_answered_elsewhere_is_over(site: Site, driver: Driver) -> None:
    client, first = await asked(driver, site, "delegating", "elsewhere")
    (question,) = first.interrupts
    await site.post("/api/runs/elsewhere/respond", {"response": "this", "interrupt_id": question["id"]}, expect=200)
    late = await client.attempt(resume=[resolved(question, "that")])
    assert (late.failed["status"], late.failed["payload"]["error"]["code"]) == (404, "NOT_FOUND")


async def test_a_sub_agent_at_work_goes_on_after_an_answer(site: Site, driver: Driver) -> None:
    client, first = await asked(driver, site, "leader")
    while first.interrupts:
        first = await client.run(resume=[resolved(each, "yes") for each in first.interrupts])
    assert first.said[-1] == "assistant: helped"
