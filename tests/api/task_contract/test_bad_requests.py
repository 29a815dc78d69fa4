"""Invalid requests get the contract's error codes and change nothing."""

from collections.abc import AsyncIterator
from typing import Final

import pytest

from holdfast.api.json_body import MAX_BODY_BYTES
from holdfast.domain.content import Json
from tests.api.task_contract.task_client import TaskClient, check_error

JSON: Final = {"Content-Type": "application/json"}


@pytest.fixture
async def unchanged(idle_client: TaskClient) -> AsyncIterator[str]:
    """Yield a task, and check that no request changes it or creates another."""
    task = await idle_client.create(tags=["unchanged"])
    before = await idle_client.site.get("/tasks", limit=1000)
    yield task
    assert await idle_client.site.get("/tasks", limit=1000) == before
    await idle_client.site.delete(f"/tasks/{task}?force=true", expect=200)


BODIES: Final[list[tuple[Json, str]]] = [
    ({}, "input"),
    ([], "body"),
    (None, "body"),
    ("x", "body"),
    ({"input": 7}, "input"),
    ({"input": None}, "input"),
    ({"input": ["x"]}, "input"),
    ({"input": "x", "priority": "urgent"}, "priority"),
    ({"input": "x", "priority": None}, "priority"),
    ({"input": "x", "tags": ["a\0b"]}, "tags"),
    ({"input": "x", "tags": "audit"}, "tags"),
    ({"input": "x", "tags": [7]}, "tags[0]"),
    ({"input": "x", "tags": ["a"] * 51}, "tags"),
    ({"input": "x", "tags": ["a" * 129]}, "tags[0]"),
    *(
        ({"input": "x", name: value}, name)
        for name in ("maxIterations", "maxDurationSeconds", "tokenBudget")
        for value in (0, -1, 1.5, "3", True, 2**53)
    ),
]


@pytest.mark.usefixtures("unchanged")
class TestCreate:
    """`POST /agents/:name/task`."""

    async def test_an_invalid_body_is_rejected_with_its_field(self, idle_client: TaskClient) -> None:
        for body, field in BODIES:
            response = await idle_client.request("POST", "/agents/bot/task", json=body)
            assert check_error(response, 400, "VALIDATION_ERROR")["details"].get("field") == field, body

    async def test_a_missing_body_is_rejected(self, idle_client: TaskClient) -> None:
        for options in ({}, {"headers": JSON}, {"content": b""}):
            check_error(await idle_client.request("POST", "/agents/bot/task", **options), 400, "VALIDATION_ERROR")

    async def test_invalid_json_is_rejected(self, idle_client: TaskClient) -> None:
        for body in (b"{", b"nope", b'{"input": "\xff"}', "{}".encode("utf-16")):
            response = await idle_client.request("POST", "/agents/bot/task", content=body, headers=JSON)
            check_error(response, 400, "VALIDATION_ERROR")

    async def test_a_too_deeply_nested_body_keeps_its_error_code(self, idle_client: TaskClient) -> None:
        response = await idle_client.request("POST", "/agents/bot/task", content=b"[" * 200_000, headers=JSON)
        check_error(response, 400, "TOO_DEEP")

    async def test_an_unsupported_media_type_keeps_its_error_code(self, idle_client: TaskClient) -> None:
        response = await idle_client.request("POST", "/agents/bot/task", data={"input": "x"})
        check_error(response, 415, "UNSUPPORTED_MEDIA_TYPE")

    async def test_a_too_large_body_keeps_its_error_code(self, idle_client: TaskClient) -> None:
        response = await idle_client.request("POST", "/agents/bot/task", json={"input": "x" * MAX_BODY_BYTES})
        check_error(response, 413, "BODY_TOO_LARGE")

    async def test_a_bad_idempotency_key_or_parameter_is_rejected(self, idle_client: TaskClient) -> None:
        for options in ({"headers": {"Idempotency-Key": "x" * 256}}, {"params": {"wait": "1"}}):
            response = await idle_client.request("POST", "/agents/bot/task", json={"input": "x"}, **options)
            check_error(response, 400, "VALIDATION_ERROR")

    async def test_the_body_is_validated_before_the_agent_is_looked_up(self, idle_client: TaskClient) -> None:
        check_error(await idle_client.request("POST", "/agents/nobody/task", json={}), 400, "VALIDATION_ERROR")
        check_error(
            await idle_client.request("POST", "/agents/nobody/task", json={"input": "x"}), 404, "AGENT_NOT_FOUND"
        )


QUERIES: Final = [
    ("GET", "/tasks", "status=done"),
    ("GET", "/tasks", "status=cancelled"),
    ("GET", "/tasks", "status="),
    ("GET", "/tasks", "priority=urgent"),
    ("GET", "/tasks", "limit=0"),
    ("GET", "/tasks", "limit=1001"),
    ("GET", "/tasks", "limit=1.5"),
    ("GET", "/tasks", "limit=x"),
    ("GET", "/tasks", "limit=1&limit=2"),
    ("GET", "/tasks", "cursor=task_none"),
    ("GET", "/tasks", "cursor="),
    ("GET", "/tasks", "cursor=a%20b"),
    ("GET", "/tasks", "cursor=%00"),
    ("GET", "/tasks", "tags=audit"),
    ("GET", "/tasks", f"tag={'x' * 129}"),
    ("GET", "/tasks/{}", "x=1"),
    ("GET", "/tasks/{}/events", "since=-1"),
    ("GET", "/tasks/{}/events", "since=x"),
    ("GET", "/tasks/{}/events", f"since={2**53}"),
    ("GET", "/tasks/{}/events", "limit=0"),
    ("GET", "/tasks/{}/events", "limit=10001"),
    ("GET", "/tasks/{}/context", "iteration=1"),
    ("GET", "/tasks/{}/stream", "since=1"),
    ("DELETE", "/tasks/{}", "force=maybe"),
    ("DELETE", "/tasks/{}", "force="),
    ("DELETE", "/tasks/{}", "forced=true"),
    ("POST", "/tasks/{}/cancel", "reason=x"),
]


async def test_an_invalid_query_parameter_is_rejected(idle_client: TaskClient, unchanged: str) -> None:
    for method, path, query in QUERIES:
        check_error(await idle_client.request(method, f"{path.format(unchanged)}?{query}"), 400, "VALIDATION_ERROR")


MESSAGES: Final[list[Json]] = [{}, [], None, {"message": 7}, {"message": None}, {"msg": "x"}]


async def test_a_response_needs_a_text_message(idle_client: TaskClient, unchanged: str) -> None:
    path = f"/tasks/{unchanged}/respond"
    for body in MESSAGES:
        check_error(await idle_client.request("POST", path, json=body), 400, "VALIDATION_ERROR")
    for options in ({}, {"content": b"{", "headers": JSON}):
        check_error(await idle_client.request("POST", path, **options), 400, "VALIDATION_ERROR")


ROUTES: Final = [
    ("GET", "/tasks/{}"),
    ("GET", "/tasks/{}/events"),
    ("DELETE", "/tasks/{}"),
    ("DELETE", "/tasks/{}?force=true"),
    ("GET", "/tasks/{}/stream"),
    ("POST", "/tasks/{}/respond"),
    ("POST", "/tasks/{}/cancel"),
    ("GET", "/tasks/{}/context"),
]


NAMES: Final = ["task_none", "run_none", "task_", "x" * 129, "a%20b", "%00", "%F0%9F%92%A9", "thr_x"]


async def test_a_missing_task_is_not_found(idle_client: TaskClient, unchanged: str) -> None:
    for method, path in ROUTES:
        for name in NAMES:
            options = {"json": {"message": "x"}} if path.endswith("respond") else {}
            check_error(await idle_client.request(method, path.format(name), **options), 404, "TASK_NOT_FOUND")


async def test_other_methods_and_paths_are_rejected(idle_client: TaskClient, unchanged: str) -> None:
    for method, path in (
        ("PUT", "/tasks"),
        ("PATCH", "/tasks/{}"),
        ("GET", "/tasks/{}/cancel"),
        ("GET", "/agents/bot/task"),
    ):
        check_error(await idle_client.request(method, path.format(unchanged)), 405, "METHOD_NOT_ALLOWED")
    check_error(await idle_client.request("GET", f"/tasks/{unchanged}/nothing"), 404, "NO_SUCH_ROUTE")
