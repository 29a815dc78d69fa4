"""Creating tasks: fields, limits, idempotency and errors."""

import asyncio
import re

import pytest

from holdfast.domain.content import Json
from holdfast.domain.limits import Limits
from holdfast.domain.run import Mode, Priority
from tests.api.task_contract.task_client import TaskClient, check_error, run_of


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
    assert run.limits == Limits(max_iterations=15, max_duration_seconds=60, token_budget=1000)


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
    assert task["error"]["iteration"] == task["iterations"] == 1


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


async def test_an_agent_without_task_mode_is_rejected(client: TaskClient) -> None:
    check_error(await client.request("POST", "/agents/talker/task", json={"input": "go"}), 400, "MODE_NOT_SUPPORTED")
    assert await client.list_ids(agentName="talker") == []


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
