"""Responding to, cancelling and deleting tasks."""

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
from tests.api.task_contract.task_client import SETTLED_STATUSES, TERMINAL_STATUSES, TaskClient, check_error, run_of
from tests.scenario.agents.agent_workspace import SPACE

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
WAIT_FOR_PERSON: Final = Move(to=RunStatus.WAITING, reason=WaitsFor.PERSON)


def _is_result(content: str, event: Event) -> bool:
    return isinstance(event, ToolCallResult) and event.content == content


class TestRespond:
    """`POST /tasks/:id/respond`."""

    @pytest.mark.parametrize(
        ("agent", "output"), [("asker", "it is The answer is 42"), ("responder", "The answer is 42")]
    )
    async def test_the_agent_continues_with_the_message(self, client: TaskClient, agent: str, output: str) -> None:
        task = await client.run_to_interrupt(agent)
        answer = await client.site.post(f"/tasks/{task}/respond", {"message": "The answer is 42"}, expect=200)
        assert answer == {"taskId": task, "status": "processing"}
        await client.wait_for_status(task, *TERMINAL_STATUSES)
        assert (await client.read(task))["output"] == output
        changes = [event["data"] for event in await client.events(task) if event["type"] == "status.change"]
        assert [(each["from"], each["to"]) for each in changes] == [
            ("pending", "processing"),
            ("processing", "waiting"),
            ("waiting", "processing"),
            ("processing", "finished"),
        ]
        assert changes[1]["reason"] in ("which?", "done?"), "the message of the interrupt"

    async def test_a_task_that_does_not_wait_rejects_responses(self, client: TaskClient) -> None:
        running = await client.wait_for_text(await client.create("staller"))
        sleeping = await client.wait_for_status(await client.create("sleeper"), RunStatus.WAITING)
        cancelled = await client.run_to_interrupt()
        await client.site.post(f"/tasks/{cancelled}/cancel", expect=200)
        for task in (await client.run_to_end(), await client.run_to_end("failing"), running, sleeping, cancelled):
            answer = await client.request("POST", f"/tasks/{task}/respond", json={"message": "x"})
            assert check_error(answer, 400, "TASK_NOT_WAITING")["details"] == {"id": task, "asking": []}
        for task in (running, sleeping):
            await client.site.delete(f"/tasks/{task}?force=true", expect=200)

    async def test_a_pending_task_rejects_responses(self, idle_client: TaskClient) -> None:
        task = await idle_client.create()
        check_error(
            await idle_client.request("POST", f"/tasks/{task}/respond", json={"message": "x"}), 400, "TASK_NOT_WAITING"
        )

    async def test_only_one_of_concurrent_responses_is_accepted(self, any_client: TaskClient) -> None:
        task = await any_client.run_to_interrupt()
        body = {"message": "x"}
        answers = await asyncio.gather(
            *(any_client.request("POST", f"/tasks/{task}/respond", json=body) for _ in range(10))
        )
        assert sorted(answer.status_code for answer in answers) == [200, *[400] * 9]
        assert {answer.json()["error"]["code"] for answer in answers if answer.status_code == 400} == {
            "TASK_NOT_WAITING"
        }

    async def test_a_message_responds_to_the_oldest_open_interrupt(self, client: TaskClient) -> None:
        task = await client.run_to_interrupt("curious")
        for open_count, message in ((2, "one"), (1, "two")):
            await client.site.floor.wait_for_interrupts(await client.run(task), open_count)
            await client.wait_for_status(task, RunStatus.WAITING)
            await client.site.post(f"/tasks/{task}/respond", {"message": message}, expect=200)
            await client.site.floor.wait_for_event(await client.run(task), partial(_is_result, message))
        await client.wait_for_status(task, *TERMINAL_STATUSES)
        interrupts = await client.site.store.interrupts.of_run(SPACE, run_of(task))
        assert [(each.message, each.response) for each in interrupts] == [("first?", "one"), ("second?", "two")]

    async def test_a_response_that_does_not_fit_the_schema_is_rejected(self, client: TaskClient) -> None:
        task = await client.run_to_interrupt("chooser")
        answer = await client.request("POST", f"/tasks/{task}/respond", json={"message": "green"})
        error = check_error(answer, 400, "VALIDATION_ERROR")
        assert error["details"] == {"field": "message", "schema": {"type": "string", "enum": ["red", "blue"]}}
        assert (await client.read(task))["status"] == "waiting"
        await client.site.post(f"/tasks/{task}/respond", {"message": "blue"}, expect=200)
        await client.wait_for_status(task, *TERMINAL_STATUSES)
        assert (await client.read(task))["output"] == "it is blue"

    async def test_the_parent_accepts_the_response_to_an_interrupt_of_its_child(self, any_client: TaskClient) -> None:
        parent = await any_client.run_to_child_interrupt()
        (child,) = await any_client.site.store.runs.children(SPACE, run_of(parent))
        await any_client.site.post(f"/tasks/{parent}/respond", {"message": "x"}, expect=200)
        await any_client.wait_for_status(parent, *TERMINAL_STATUSES)
        assert (await any_client.read(parent))["status"] == "finished"
        (interrupt,) = await any_client.site.store.interrupts.of_run(SPACE, child.id)
        assert (interrupt.status, interrupt.response) == (InterruptStatus.ANSWERED, "x")

    async def test_the_child_accepts_the_response_to_its_own_interrupt(self, client: TaskClient) -> None:
        parent = await client.run_to_child_interrupt()
        (child,) = await client.site.store.runs.children(SPACE, run_of(parent))
        await client.site.post(f"/tasks/{child.id}/respond", {"message": "x"}, expect=200)
        await client.wait_for_status(parent, *TERMINAL_STATUSES)
        assert (await client.read(parent))["status"] == "finished"

    async def test_a_parent_that_does_not_wait_names_the_child_with_the_interrupt(self, client: TaskClient) -> None:
        parent = await client.run_to_end("leaver")
        await client.site.floor.wait_for_interrupts(await client.run(parent))
        (child,) = await client.site.store.runs.children(SPACE, run_of(parent))
        answer = await client.request("POST", f"/tasks/{parent}/respond", json={"message": "x"})
        task = child.id.replace("run_", "task_")
        assert check_error(answer, 400, "TASK_NOT_WAITING")["details"] == {"id": parent, "asking": [task]}
        await client.site.post(f"/tasks/{task}/respond", {"message": "x"}, expect=200)

    @pytest.mark.parametrize(
        ("message", "output"),
        [
            ("approve", '{"items":1,"done":0}'),
            ("deny: too risky", "refused: a person said no: too risky"),
        ],
    )
    async def test_an_approval_decides_whether_the_call_runs(
        self, any_client: TaskClient, message: str, output: str
    ) -> None:
        task = await any_client.run_to_interrupt("guarded")
        check_error(
            await any_client.request("POST", f"/tasks/{task}/respond", json={"message": "yes"}), 400, "VALIDATION_ERROR"
        )
        await any_client.site.post(f"/tasks/{task}/respond", {"message": message}, expect=200)
        await any_client.wait_for_status(task, *TERMINAL_STATUSES)
        assert (await any_client.read(task))["output"] == output
        assert (await any_client.events(task))[-2]["data"]["success"] == (message == "approve")

    @pytest.mark.parametrize(
        ("message", "response"),
        [
            ("approve", {"decision": "approve"}),
            (" Approve ", {"decision": "approve"}),
            ("deny: too risky: really", {"decision": "deny", "reason": "too risky: really"}),
            ("deny", {"decision": "deny"}),
        ],
    )
    async def test_an_approval_takes_approve_or_deny_with_a_reason(
        self, idle_client: TaskClient, message: str, response: Json
    ) -> None:
        task = await idle_client.create()
        commit = Commit(lease=await idle_client.claim(task), interrupts=[APPROVAL], move=WAIT_FOR_PERSON)
        await idle_client.site.store.journal.commit(commit)
        for bad in ("yes", "approved", "approve: it", "", "denied: x"):
            answer = await idle_client.request("POST", f"/tasks/{task}/respond", json={"message": bad})
            check_error(answer, 400, "VALIDATION_ERROR")
        assert (await idle_client.read(task))["status"] == "waiting"
        await idle_client.site.post(f"/tasks/{task}/respond", {"message": message}, expect=200)
        (interrupt,) = await idle_client.site.store.interrupts.of_run(SPACE, run_of(task))
        assert (interrupt.status, interrupt.response) == (InterruptStatus.ANSWERED, response)
        assert (await idle_client.read(task))["status"] == "processing"


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
async def test_a_message_is_read_as_text_or_as_json_by_the_schema(schema: Json, message: str, answer: Json) -> None:
    assert await parse_response(_interrupt(schema), message) == answer


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "integer"}, "forty"),
        ({"type": "object"}, "[" * 100_000),
        ({"type": "object", "required": ["outcome"]}, "{}"),
        ({"enum": ["a"]}, '"b"'),
    ],
)
async def test_a_message_that_fits_neither_way_is_rejected(schema: Json, message: str) -> None:
    with pytest.raises(ContractInvalid) as error:
        await parse_response(_interrupt(schema), message)
    assert error.value.details == {"field": "message", "schema": schema}


def _interrupt(schema: Json) -> Interrupt:
    fields: dict[str, Any] = dict.fromkeys(Interrupt.__struct_fields__)
    return Interrupt(**fields | {"id": InterruptId("int_x"), "kind": InterruptKind.INPUT, "response_schema": schema})


class TestCancel:
    """`POST /tasks/:id/cancel`."""

    @pytest.mark.parametrize("agent", ["staller", "asker", "sleeper", "proxy"])
    async def test_an_active_task_is_canceled(self, any_client: TaskClient, agent: str) -> None:
        task = await any_client.create(agent)
        await any_client.site.floor.wait_for_status(await any_client.run(task), RunStatus.RUNNING, *SETTLED_STATUSES)
        assert await any_client.site.post(f"/tasks/{task}/cancel", expect=200) == {"taskId": task, "status": "canceled"}
        read = await any_client.read(task)
        assert (read["status"], read["output"], read["error"]) == ("canceled", None, None)
        assert read["finished_at"] is not None
        assert (await any_client.events(task))[-1]["data"]["to"] == "canceled"
        for child in await any_client.site.store.runs.children(SPACE, run_of(task)):
            assert child.status.terminal

    async def test_a_pending_task_is_canceled_before_it_starts(self, idle_client: TaskClient) -> None:
        task = await idle_client.create()
        await idle_client.site.post(f"/tasks/{task}/cancel", expect=200)
        assert [event["data"] for event in await idle_client.events(task)] == [{"from": "pending", "to": "canceled"}]

    async def test_an_ended_task_cannot_be_canceled(self, client: TaskClient) -> None:
        canceled = await client.run_to_interrupt()
        await client.site.post(f"/tasks/{canceled}/cancel", expect=200)
        for task in (await client.run_to_end(), await client.run_to_end("failing"), canceled):
            before = await client.read(task)
            check_error(await client.request("POST", f"/tasks/{task}/cancel"), 400, "TASK_ALREADY_TERMINAL")
            assert await client.read(task) == before

    async def test_the_body_of_a_cancel_request_is_ignored(self, client: TaskClient) -> None:
        for body in (b"", b"{}", b"no json"):
            task = await client.run_to_interrupt()
            answer = await client.request("POST", f"/tasks/{task}/cancel", content=body)
            assert answer.status_code == 200


class TestDelete:
    """`DELETE /tasks/:id`."""

    async def test_deleting_an_ended_task_removes_all_its_data(self, any_client: TaskClient) -> None:
        task = await any_client.run_to_end("worker", tags=["gone"])
        thread = (await any_client.read(task))["session_id"]
        assert await any_client.site.delete(f"/tasks/{task}", expect=200) == {"deleted": True, "taskId": task}
        for path in ("", "/events", "/context", "/stream"):
            check_error(await any_client.request("GET", f"/tasks/{task}{path}"), 404, "TASK_NOT_FOUND")
        check_error(await any_client.request("DELETE", f"/tasks/{task}"), 404, "TASK_NOT_FOUND")
        await any_client.site.get(f"/api/threads/{thread}", expect=404)
        assert task not in await any_client.list_ids(limit=1000)

    async def test_an_active_task_is_deleted_only_with_force(self, client: TaskClient) -> None:
        running = await client.wait_for_text(await client.create("staller"))
        waiting = await client.run_to_interrupt()
        sleeping = await client.wait_for_status(await client.create("sleeper"), RunStatus.WAITING)
        for task in (running, waiting, sleeping):
            for query in ("", "?force=false"):
                check_error(await client.request("DELETE", f"/tasks/{task}{query}"), 409, "TASK_ACTIVE")
            assert (await client.read(task))["finished_at"] is None
            assert await client.site.delete(f"/tasks/{task}?force=true", expect=200) == {
                "deleted": True,
                "taskId": task,
            }
            check_error(await client.request("GET", f"/tasks/{task}"), 404, "TASK_NOT_FOUND")

    async def test_a_pending_task_is_active(self, idle_client: TaskClient) -> None:
        task = await idle_client.create()
        check_error(await idle_client.request("DELETE", f"/tasks/{task}"), 409, "TASK_ACTIVE")
        await idle_client.site.delete(f"/tasks/{task}?force=true", expect=200)

    async def test_deleting_a_task_deletes_the_tasks_it_spawned(self, any_client: TaskClient) -> None:
        task = await any_client.run_to_end("starter")
        (child,) = await any_client.site.store.runs.children(SPACE, run_of(task))
        error = check_error(await any_client.request("DELETE", f"/tasks/{task}"), 409, "TASK_ACTIVE")
        assert error["details"] == {"id": task, "active": child.id.replace("run_", "task_")}, "the active child"
        await any_client.site.delete(f"/tasks/{task}?force=true", expect=200)
        for name in (task, child.id):
            check_error(await any_client.request("GET", f"/tasks/{name}"), 404, "TASK_NOT_FOUND")

    async def test_a_deleted_task_that_is_the_base_of_another_run_is_not_found(self, any_client: TaskClient) -> None:
        task = await any_client.run_to_end()
        thread = (await any_client.read(task))["session_id"]
        later = await any_client.site.play(thread, "and then?")
        assert later["base_run_id"] == run_of(task)
        await any_client.site.delete(f"/tasks/{task}", expect=200)
        check_error(await any_client.request("GET", f"/tasks/{task}"), 404, "TASK_NOT_FOUND")
        assert task not in await any_client.list_ids(agentName="bot", limit=1000)

    async def test_only_one_of_concurrent_deletes_succeeds(self, any_client: TaskClient) -> None:
        task = await any_client.run_to_interrupt()
        answers = await asyncio.gather(*(any_client.request("DELETE", f"/tasks/{task}?force=true") for _ in range(8)))
        assert sorted(answer.status_code for answer in answers) == [200, *[404] * 7]
