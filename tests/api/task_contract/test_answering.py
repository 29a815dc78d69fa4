"""Answering, cancelling and deleting tasks."""

import asyncio
from functools import partial
from typing import Any, Final

import pytest

from holdfast.api.contract_errors import ContractInvalid
from holdfast.api.tasks.tasks import parse_response
from holdfast.domain.commit import Commit
from holdfast.domain.content import Json
from holdfast.domain.events import Event, ToolCallResult
from holdfast.domain.ids import InterruptId
from holdfast.domain.interrupt import Interrupt, InterruptKind, InterruptStatus, NewInterrupt
from holdfast.domain.run import Move, RunStatus, WaitsFor
from tests.api.task_contract.desk import ASKS, ENDS, Desk, refused, run_of
from tests.scenario.agents.workshop import SPACE

APPROVAL: Final = NewInterrupt(
    kind=InterruptKind.APPROVAL,
    message="The agent wants to call `pay`. May it?",
    arguments={"sum": 7},
    digest="sha256:x",
    response_schema={
        "type": "object",
        "required": ["decision"],
        "properties": {"decision": {"enum": ["approve", "deny"]}, "reason": {"type": "string"}},
        "additionalProperties": False,
    },
)
ASKING: Final = Move(to=RunStatus.WAITING, reason=WaitsFor.PERSON)


def _is_result(content: str, event: Event) -> bool:
    return isinstance(event, ToolCallResult) and event.content == content


class TestRespond:
    """`POST /tasks/:id/respond`."""

    @pytest.mark.parametrize(
        ("agent", "output"), [("asker", "it is The answer is 42"), ("responder", "The answer is 42")]
    )
    async def test_a_message_is_what_the_agent_goes_on_with(self, desk: Desk, agent: str, output: str) -> None:
        task = await desk.asking(agent)
        answer = await desk.site.post(f"/tasks/{task}/respond", {"message": "The answer is 42"}, expect=200)
        assert answer == {"taskId": task, "status": "processing"}
        await desk.comes_to(task, *ENDS)
        assert (await desk.read(task))["output"] == output
        changes = [event["data"] for event in await desk.events(task) if event["type"] == "status.change"]
        assert [(each["from"], each["to"]) for each in changes] == [
            ("pending", "processing"),
            ("processing", "waiting"),
            ("waiting", "processing"),
            ("processing", "finished"),
        ]
        assert changes[1]["reason"] in ("which?", "done?"), "what it asks"

    async def test_a_task_that_does_not_wait_is_refused(self, desk: Desk) -> None:
        running = await desk.begun(await desk.create("staller"))
        sleeping = await desk.comes_to(await desk.create("sleeper"), RunStatus.WAITING)
        cancelled = await desk.asking()
        await desk.site.post(f"/tasks/{cancelled}/cancel", expect=200)
        for task in (await desk.ended(), await desk.ended("failing"), running, sleeping, cancelled):
            answer = await desk.ask("POST", f"/tasks/{task}/respond", json={"message": "x"})
            assert refused(answer, 400, "TASK_NOT_WAITING")["details"] == {"id": task, "asking": []}
        for task in (running, sleeping):
            await desk.site.delete(f"/tasks/{task}?force=true", expect=200)

    async def test_a_pending_task_is_refused(self, still_desk: Desk) -> None:
        task = await still_desk.create()
        refused(await still_desk.ask("POST", f"/tasks/{task}/respond", json={"message": "x"}), 400, "TASK_NOT_WAITING")

    async def test_an_answer_is_taken_once(self, any_desk: Desk) -> None:
        task = await any_desk.asking()
        body = {"message": "x"}
        answers = await asyncio.gather(*(any_desk.ask("POST", f"/tasks/{task}/respond", json=body) for _ in range(10)))
        assert sorted(answer.status_code for answer in answers) == [200, *[400] * 9]
        assert {answer.json()["error"]["code"] for answer in answers if answer.status_code == 400} == {
            "TASK_NOT_WAITING"
        }

    async def test_of_several_questions_the_oldest_is_answered(self, desk: Desk) -> None:
        task = await desk.asking("curious")
        for left, message in ((2, "one"), (1, "two")):
            await desk.site.floor.asks(await desk.run(task), left)
            await desk.comes_to(task, RunStatus.WAITING)
            await desk.site.post(f"/tasks/{task}/respond", {"message": message}, expect=200)
            await desk.site.floor.until(await desk.run(task), partial(_is_result, message))
        await desk.comes_to(task, *ENDS)
        asked = await desk.site.store.interrupts.of_run(SPACE, run_of(task))
        assert [(each.message, each.response) for each in asked] == [("first?", "one"), ("second?", "two")]

    async def test_an_answer_that_the_question_does_not_take_is_refused(self, desk: Desk) -> None:
        task = await desk.asking("chooser")
        answer = await desk.ask("POST", f"/tasks/{task}/respond", json={"message": "green"})
        error = refused(answer, 400, "VALIDATION_ERROR")
        assert error["details"] == {"field": "message", "schema": {"type": "string", "enum": ["red", "blue"]}}
        assert (await desk.read(task))["status"] == "waiting"
        await desk.site.post(f"/tasks/{task}/respond", {"message": "blue"}, expect=200)
        await desk.comes_to(task, *ENDS)
        assert (await desk.read(task))["output"] == "it is blue"

    async def test_a_question_of_a_child_is_answered_at_its_parent(self, any_desk: Desk) -> None:
        parent = await any_desk.passing_on()
        (child,) = await any_desk.site.store.runs.children(SPACE, run_of(parent))
        await any_desk.site.post(f"/tasks/{parent}/respond", {"message": "x"}, expect=200)
        await any_desk.comes_to(parent, *ENDS)
        assert (await any_desk.read(parent))["status"] == "finished"
        (asked,) = await any_desk.site.store.interrupts.of_run(SPACE, child.id)
        assert (asked.status, asked.response) == (InterruptStatus.ANSWERED, "x")

    async def test_a_question_of_a_child_may_be_answered_at_the_child(self, desk: Desk) -> None:
        parent = await desk.passing_on()
        (child,) = await desk.site.store.runs.children(SPACE, run_of(parent))
        await desk.site.post(f"/tasks/{child.id}/respond", {"message": "x"}, expect=200)
        await desk.comes_to(parent, *ENDS)
        assert (await desk.read(parent))["status"] == "finished"

    async def test_a_question_that_a_task_does_not_wait_for_is_answered_where_it_is_asked(self, desk: Desk) -> None:
        parent = await desk.ended("leaver")
        await desk.site.floor.asks(await desk.run(parent))
        (child,) = await desk.site.store.runs.children(SPACE, run_of(parent))
        answer = await desk.ask("POST", f"/tasks/{parent}/respond", json={"message": "x"})
        task = child.id.replace("run_", "task_")
        assert refused(answer, 400, "TASK_NOT_WAITING")["details"] == {"id": parent, "asking": [task]}
        await desk.site.post(f"/tasks/{task}/respond", {"message": "x"}, expect=200)

    @pytest.mark.parametrize(
        ("message", "output"),
        [
            ("approve", '{"items":1,"done":0}'),
            ("deny: too risky", "refused: a person said no: too risky"),
        ],
    )
    async def test_a_call_that_a_person_must_approve_runs_or_does_not(
        self, any_desk: Desk, message: str, output: str
    ) -> None:
        task = await any_desk.asking("guarded")
        refused(await any_desk.ask("POST", f"/tasks/{task}/respond", json={"message": "yes"}), 400, "VALIDATION_ERROR")
        await any_desk.site.post(f"/tasks/{task}/respond", {"message": message}, expect=200)
        await any_desk.comes_to(task, *ENDS)
        assert (await any_desk.read(task))["output"] == output
        assert (await any_desk.events(task))[-2]["data"]["success"] == (message == "approve")

    @pytest.mark.parametrize(
        ("message", "response"),
        [
            ("approve", {"decision": "approve"}),
            (" Approve ", {"decision": "approve"}),
            ("deny: too risky: really", {"decision": "deny", "reason": "too risky: really"}),
            ("deny", {"decision": "deny"}),
        ],
    )
    async def test_an_approval_is_answered_in_words(self, still_desk: Desk, message: str, response: Json) -> None:
        task = await still_desk.create()
        commit = Commit(lease=await still_desk.claimed(task), interrupts=[APPROVAL], move=ASKING)
        await still_desk.site.store.journal.commit(commit)
        for bad in ("yes", "approved", "approve: it", "", "denied: x"):
            answer = await still_desk.ask("POST", f"/tasks/{task}/respond", json={"message": bad})
            refused(answer, 400, "VALIDATION_ERROR")
        assert (await still_desk.read(task))["status"] == "waiting"
        await still_desk.site.post(f"/tasks/{task}/respond", {"message": message}, expect=200)
        (asked,) = await still_desk.site.store.interrupts.of_run(SPACE, run_of(task))
        assert (asked.status, asked.response) == (InterruptStatus.ANSWERED, response)
        assert (await still_desk.read(task))["status"] == "processing"


@pytest.mark.parametrize(
    ("schema", "message", "answer"),
    [
        (None, "42", "42"),
        ({"type": "string"}, "42", "42"),
        ({"type": "integer"}, "42", 42),
        ({"type": ["string", "integer"]}, "42", "42"),
        ({"enum": [1, 2]}, "2", 2),
        ({"type": "object", "required": ["outcome"]}, '{"outcome": "happened"}', {"outcome": "happened"}),
        ({"type": "null"}, "null", None),
    ],
)
def test_a_message_is_text_or_the_json_that_the_question_wants(schema: Json, message: str, answer: Json) -> None:
    assert parse_response(_question(schema), message) == answer


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "integer"}, "forty"),
        ({"type": "object"}, "[" * 100_000),
        ({"type": "object", "required": ["outcome"]}, "{}"),
        ({"enum": ["a"]}, '"b"'),
    ],
)
def test_what_is_neither_is_no_answer(schema: Json, message: str) -> None:
    with pytest.raises(ContractInvalid) as error:
        parse_response(_question(schema), message)
    assert error.value.details == {"field": "message", "schema": schema}


def _question(schema: Json) -> Interrupt:
    fields: dict[str, Any] = dict.fromkeys(Interrupt.__struct_fields__)
    return Interrupt(**fields | {"id": InterruptId("int_x"), "kind": InterruptKind.INPUT, "response_schema": schema})


class TestCancel:
    """`POST /tasks/:id/cancel`."""

    @pytest.mark.parametrize("agent", ["staller", "asker", "sleeper", "proxy"])
    async def test_a_task_that_has_not_ended_is_canceled(self, any_desk: Desk, agent: str) -> None:
        task = await any_desk.create(agent)
        await any_desk.site.floor.comes_to(await any_desk.run(task), RunStatus.RUNNING, *ASKS)
        assert await any_desk.site.post(f"/tasks/{task}/cancel", expect=200) == {"taskId": task, "status": "canceled"}
        read = await any_desk.read(task)
        assert (read["status"], read["output"], read["error"]) == ("canceled", None, None)
        assert read["finished_at"] is not None
        assert (await any_desk.events(task))[-1]["data"]["to"] == "canceled"
        for child in await any_desk.site.store.runs.children(SPACE, run_of(task)):
            assert child.status.terminal

    async def test_a_pending_task_is_canceled_before_it_began(self, still_desk: Desk) -> None:
        task = await still_desk.create()
        await still_desk.site.post(f"/tasks/{task}/cancel", expect=200)
        assert [event["data"] for event in await still_desk.events(task)] == [{"from": "pending", "to": "canceled"}]

    async def test_a_task_that_has_ended_is_refused(self, desk: Desk) -> None:
        canceled = await desk.asking()
        await desk.site.post(f"/tasks/{canceled}/cancel", expect=200)
        for task in (await desk.ended(), await desk.ended("failing"), canceled):
            before = await desk.read(task)
            refused(await desk.ask("POST", f"/tasks/{task}/cancel"), 400, "TASK_ALREADY_TERMINAL")
            assert await desk.read(task) == before

    async def test_whatever_body_it_has_is_left_unread(self, desk: Desk) -> None:
        for body in (b"", b"{}", b"no json"):
            task = await desk.asking()
            answer = await desk.ask("POST", f"/tasks/{task}/cancel", content=body)
            assert answer.status_code == 200


class TestDelete:
    """`DELETE /tasks/:id`."""

    async def test_a_task_that_has_ended_goes_with_all_that_it_had(self, any_desk: Desk) -> None:
        task = await any_desk.ended("worker", tags=["gone"])
        thread = (await any_desk.read(task))["session_id"]
        assert await any_desk.site.delete(f"/tasks/{task}", expect=200) == {"deleted": True, "taskId": task}
        for path in ("", "/events", "/context", "/stream"):
            refused(await any_desk.ask("GET", f"/tasks/{task}{path}"), 404, "TASK_NOT_FOUND")
        refused(await any_desk.ask("DELETE", f"/tasks/{task}"), 404, "TASK_NOT_FOUND")
        await any_desk.site.get(f"/api/threads/{thread}", expect=404)
        assert task not in await any_desk.listed(limit=1000)

    async def test_an_active_task_is_refused_without_force(self, desk: Desk) -> None:
        running = await desk.begun(await desk.create("staller"))
        waiting = await desk.asking()
        sleeping = await desk.comes_to(await desk.create("sleeper"), RunStatus.WAITING)
        for task in (running, waiting, sleeping):
            for query in ("", "?force=false"):
                refused(await desk.ask("DELETE", f"/tasks/{task}{query}"), 409, "TASK_ACTIVE")
            assert (await desk.read(task))["finished_at"] is None
            assert await desk.site.delete(f"/tasks/{task}?force=true", expect=200) == {"deleted": True, "taskId": task}
            refused(await desk.ask("GET", f"/tasks/{task}"), 404, "TASK_NOT_FOUND")

    async def test_a_pending_task_is_active(self, still_desk: Desk) -> None:
        task = await still_desk.create()
        refused(await still_desk.ask("DELETE", f"/tasks/{task}"), 409, "TASK_ACTIVE")
        await still_desk.site.delete(f"/tasks/{task}?force=true", expect=200)

    async def test_what_it_spawned_goes_with_it(self, any_desk: Desk) -> None:
        task = await any_desk.ended("starter")
        (child,) = await any_desk.site.store.runs.children(SPACE, run_of(task))
        error = refused(await any_desk.ask("DELETE", f"/tasks/{task}"), 409, "TASK_ACTIVE")
        assert error["details"] == {"id": task, "active": child.id.replace("run_", "task_")}, "what has not ended"
        await any_desk.site.delete(f"/tasks/{task}?force=true", expect=200)
        for name in (task, child.id):
            refused(await any_desk.ask("GET", f"/tasks/{name}"), 404, "TASK_NOT_FOUND")

    async def test_a_task_that_others_stand_on_is_gone_for_all_who_ask(self, any_desk: Desk) -> None:
        task = await any_desk.ended()
        thread = (await any_desk.read(task))["session_id"]
        later = await any_desk.site.play(thread, "and then?")
        assert later["base_run_id"] == run_of(task)
        await any_desk.site.delete(f"/tasks/{task}", expect=200)
        refused(await any_desk.ask("GET", f"/tasks/{task}"), 404, "TASK_NOT_FOUND")
        assert task not in await any_desk.listed(agentName="bot", limit=1000)

    async def test_of_many_that_delete_it_one_does(self, any_desk: Desk) -> None:
        task = await any_desk.asking()
        answers = await asyncio.gather(*(any_desk.ask("DELETE", f"/tasks/{task}?force=true") for _ in range(8)))
        assert sorted(answer.status_code for answer in answers) == [200, *[404] * 7]
