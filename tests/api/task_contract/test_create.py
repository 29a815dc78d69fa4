"""Creating tasks: fields, limits, idempotency and errors."""

import asyncio
import re

import msgspec
import pytest

from holdfast.domain.content import Json
from holdfast.domain.limits import Limits
from holdfast.domain.run import Mode, Priority
from tests.api.site import serve
from tests.api.task_contract.task_client import TaskClient, check_error, run_of
from tests.scenario.agents.agent_workspace import AgentWorkspace


async def test_a_task_is_accepted_and_pending(any_client: TaskClient) -> None:
    response = await any_client.request("POST", "/agents/bot/task", json={"input": "go"})
    task = response.json()["taskId"]
    assert (response.status_code, response.json()) == (202, {"taskId": task, "status": "pending"})
    assert re.fullmatch(r"task_[0-9a-f]{16,}", task)
    run = await any_client.run(task)
    assert (run.mode, run.agent_type, run.input) == (Mode.TASK, "bot", "go")


async def test_omitted_fields_have_defaults(client: TaskClient) -> None:
    run = await client.run(await client.run_to_end())
    assert (run.priority, run.tags, run.limits) == (Priority.NORMAL, [], Limits())


async def test_all_fields_are_stored(client: TaskClient) -> None:
    task = await client.run_to_end(
        priority="high", tags=["audit", "deps"], maxIterations=15, maxDurationSeconds=60, tokenBudget=1000
    )
    run = await client.run(task)
    assert (run.priority, run.tags) == (Priority.HIGH, ["audit", "deps"])
    limits = {"max_iterations": 15, "max_duration_seconds": 60, "token_budget": 1000, "strict_token_budget": True}
    assert run.limits == msgspec.convert(limits, Limits)


@pytest.mark.parametrize("input", ["", " ", "ü\n", "a\0b\0", "x" * 100_000])
async def test_any_text_is_a_valid_input(any_client: TaskClient, input: str) -> None:
    task = await any_client.run_to_end(input=input)
    assert (await any_client.read(task))["input"] == input


async def test_each_task_has_a_thread_of_its_own_with_a_title(client: TaskClient) -> None:
    one, other = [await client.read(await client.run_to_end(input="first line\nsecond")) for _ in range(2)]
    assert one["session_id"] != other["session_id"]
    thread = await client.site.get(f"/api/threads/{one['session_id']}")
    assert (thread["title"], thread["agent_type"]) == ("first line", "bot")
    assert [run["id"] for run in thread["runs"]] == [run_of(one["id"])]


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ({"maxIterations": 1}, "ITERATION_LIMIT"),
        ({"tokenBudget": 12}, "BUDGET_EXCEEDED"),
    ],
)
async def test_a_task_that_exceeds_its_limits_fails_with_a_code(
    client: TaskClient, limit: dict[str, Json], code: str
) -> None:
    task = await client.read(await client.run_to_end("worker", **limit))
    assert (task["status"], task["output"], task["error"]["code"]) == ("failed", None, code)
    assert (task["iterations"], task["token_input"], task["token_output"]) == (1, 10, 5)


async def test_a_task_that_takes_too_long_fails_with_a_code(client: TaskClient) -> None:
    task = await client.read(await client.run_to_end("staller", maxDurationSeconds=1))
    assert (task["status"], task["error"]["code"]) == ("failed", "DEADLINE_EXCEEDED")
    assert task["error"]["iteration"] == task["iterations"] == 0


async def test_a_task_overrides_the_iteration_and_duration_limits_of_its_agent(client: TaskClient) -> None:
    requested: list[dict[str, Json]] = [{"maxIterations": 9}, {"maxIterations": 2}, {"maxDurationSeconds": 90}, {}]
    limits_of_runs = [(await client.run(await client.run_to_end("bounded", **limits))).limits for limits in requested]
    assert [limits.max_iterations for limits in limits_of_runs] == [9, 2, 3, 3]
    assert [limits.max_duration_seconds for limits in limits_of_runs] == [60, 60, 90, 60]


async def test_a_task_cannot_raise_the_token_budget_of_its_agent(client: TaskClient) -> None:
    loose, tight = [await client.run(await client.run_to_end("bounded", tokenBudget=budget)) for budget in (9000, 500)]
    assert (loose.limits.token_budget, tight.limits.token_budget) == (1000, 500)


async def test_requests_with_one_idempotency_key_create_one_task(any_client: TaskClient) -> None:
    async def create(**body: Json) -> tuple[int, Json, str | None]:
        headers = {"Idempotency-Key": f"once-{any_client.site.url}"}
        response = await any_client.request("POST", "/agents/bot/task", json={"input": "go", **body}, headers=headers)
        return response.status_code, response.json(), response.headers.get("idempotency-replayed")

    responses = await asyncio.gather(*(create() for _ in range(8)))
    assert {status for status, _, _ in responses} == {202}
    assert len({body["taskId"] for _, body, _ in responses}) == 1
    assert sorted(replayed or "" for _, _, replayed in responses) == ["", *["true"] * 7]
    status, body, _ = await create(priority="low")
    assert (status, body["error"]["code"]) == (409, "IDEMPOTENCY_MISMATCH")


async def test_an_agent_that_does_not_enable_tasks_is_rejected(any_client: TaskClient) -> None:
    for agent in ("talker", "unsaid"):
        response = await any_client.request("POST", f"/agents/{agent}/task", json={"input": "go"})
        error = check_error(response, 400, "MODE_NOT_SUPPORTED")
        assert '{"task": {"enabled": true}}' in error["message"]
    assert await any_client.list_ids(agentName="talker") == []


async def test_only_the_contract_asks_an_agent_to_enable_tasks(client: TaskClient) -> None:
    site = client.site
    task = await client.read(await client.run_to_end("lender"))
    assert (task["status"], task["output"]) == ("finished", "ok")
    thread = await site.thread(agent_type="unsaid")
    run = await site.play(thread)
    assert (run["status"], run["output"]) == ("completed", "helped anyway")
    (child,) = [
        each for each in await client.list_ids(agentName="unsaid") if each != run["id"].replace("run_", "task_")
    ]
    assert (await client.read(child))["parent_task_id"] == task["id"]


async def test_a_repeated_request_succeeds_after_its_agent_disabled_tasks(workshop: AgentWorkspace) -> None:
    async with serve(workshop) as site:
        client, headers = TaskClient(site), {"Idempotency-Key": "once"}
        first = await client.request("POST", "/agents/bot/task", json={"input": "go"}, headers=headers)
        workshop.configure("bot", task={})
        site.floor.holdfast.agents.refresh()
        again = await client.request("POST", "/agents/bot/task", json={"input": "go"}, headers=headers)
        assert (again.status_code, again.json()["taskId"]) == (202, first.json()["taskId"])
        other = await client.request("POST", "/agents/bot/task", json={"input": "go"})
        check_error(other, 400, "MODE_NOT_SUPPORTED")


async def test_a_single_call_beyond_the_token_budget_fails_the_task_and_keeps_its_answer(
    any_client: TaskClient,
) -> None:
    task = await any_client.read(await any_client.run_to_end(tokenBudget=8))
    assert (task["status"], task["output"], task["error"]["code"]) == ("failed", None, "BUDGET_EXCEEDED")
    assert (task["token_input"], task["token_output"], task["error"]["iteration"]) == (7, 2, 1)
    messages = (await any_client.site.get(f"/api/threads/{task['session_id']}/messages"))["items"]
    assert [(each["role"], each["content"]) for each in messages] == [("user", "go"), ("assistant", "hello you")]
    assert (await any_client.events(task["id"]))[-1]["data"] == {
        "from": "processing",
        "to": "failed",
        "reason": "BUDGET_EXCEEDED",
    }


async def test_a_task_that_uses_its_token_budget_exactly_is_finished(client: TaskClient) -> None:
    assert (await client.read(await client.run_to_end(tokenBudget=9)))["status"] == "finished"


async def test_the_token_budget_of_a_task_counts_its_children_at_the_end_too(client: TaskClient) -> None:
    statuses = [
        (await client.read(await client.run_to_end("spender", tokenBudget=each)))["status"] for each in (18, 19)
    ]
    assert statuses == ["failed", "finished"]


async def test_outside_the_contract_one_call_may_exceed_the_budget(client: TaskClient) -> None:
    thread = await client.site.thread()
    run = await client.site.play(thread, limits={"token_budget": 8})
    assert (run["status"], run["output"]) == ("completed", "hello you")


async def test_unknown_fields_are_ignored(client: TaskClient) -> None:
    task = await client.run_to_end(inputs="y", max_iterations=0, webhook={"url": None})
    assert (await client.read(task))["status"] == "finished"
    asking = await client.run_to_interrupt()
    await client.site.post(f"/tasks/{asking}/respond", {"message": "this", "from": "a person"}, expect=200)


@pytest.mark.parametrize("agent", ["checker", "subscriber"])
async def test_an_agent_reads_a_task_by_either_id(client: TaskClient, agent: str) -> None:
    task = await client.run_to_end()
    for name in (task, run_of(task)):
        read = await client.read(await client.run_to_end(agent, input=name))
        assert read["status"] == "finished" and "hello you" in read["output"]
    missing = await client.read(await client.run_to_end(agent, input="task_nothing"))
    assert "NOT_FOUND" in missing["output"]


async def test_an_agent_with_invalid_files_is_rejected_with_the_file_name(client: TaskClient) -> None:
    error = check_error(
        await client.request("POST", "/agents/broken/task", json={"input": "go"}), 400, "VALIDATION_ERROR"
    )
    assert "agents/broken/agent.json" in error["message"]


@pytest.mark.parametrize("name", ["nobody", "Bot", "%00", "..%2Fbot", "x" * 300, "b%20t", "%F0%9F%92%A9"])
async def test_a_missing_agent_is_not_found(client: TaskClient, name: str) -> None:
    response = await client.request("POST", f"/agents/{name}/task", json={"input": "go"})
    assert (response.status_code, response.json()["error"]["code"]) in [
        (404, "AGENT_NOT_FOUND"),
        (404, "NO_SUCH_ROUTE"),
    ]
