"""Invalid requests get an error in one format that names the problem, and change nothing."""

import json
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.errors import TooDeep
from holdfast.api.json_body import MAX_BODY_BYTES, MAX_JSON_DEPTH, check_depth
from holdfast.api.openapi import openapi_document
from holdfast.domain.content import Json
from holdfast.domain.validation import MAX_EXTREME_NUMBERS, MAX_JSON_VALUES
from tests.api.site import Site

JSON: Final = {"Content-Type": "application/json"}
IDS: Final = {
    "thread_id": "thr_none",
    "run_id": "run_none",
    "key_id": "key_none",
    "artifact_id": "art_none",
    "file_id": "fil_none",
    "grant_id": "grt_none",
    "interrupt_id": "int_none",
    "message_id": "msg_none",
    "session_id": "thr_none",
    "memory_id": "mem_none",
    "schedule_id": "sch_none",
    "reminder_id": "rem_none",
    "webhook_id": "whk_none",
    "delivery_id": "msg_none",
    "skill_id": "skl_none",
    "token": "none",
}
TASK_CONTRACT_PREFIXES: Final = ("/tasks", "/agents", "/sessions", "/models", "/completions", "/settings")
"""Prefixes of the paths that use the error codes of the tasks contract."""
OPENAI_PREFIX: Final = "/v1/"
"""Prefix of the paths with errors in the OpenAI format; `tests/api/openai` tests them."""


def list_operations(method: str | None = None) -> list[tuple[str, str, Json]]:
    """Return the method, path and OpenAPI operation of every route."""
    return [
        (each, path, operation)
        for path, item in openapi_document()["paths"].items()
        for each, operation in item.items()
        if method in (None, each)
        and not operation["operationId"].endswith("_in_space")
        and not path.startswith(OPENAI_PREFIX)
    ]


def json_routes() -> list[tuple[str, str]]:
    """Return the method and path of every route with a JSON body."""
    return [
        (method, path)
        for method, path, operation in list_operations()
        if "application/json" in operation.get("requestBody", {}).get("content", {})
    ]


def with_missing_ids(path: str) -> str:
    """Return a path with ids of objects that do not exist."""
    task = (
        "task_none" if path.startswith(TASK_CONTRACT_PREFIXES) else "1"
    )  # in the native API it is the number of a plan item
    return path.format(
        space_id="default", name="nobody", agent="nobody", path="none.md", digest="0" * 64, task_id=task, **IDS
    )


def expected_code(path: str, code: str) -> str:
    """Return the error code at a path: the tasks contract has one code for all invalid input."""
    if not path.startswith(TASK_CONTRACT_PREFIXES):
        return code
    missing = "SESSION_NOT_FOUND" if path.startswith("/sessions") else "TASK_NOT_FOUND"
    return {"NOT_FOUND": missing}.get(code, "VALIDATION_ERROR")


def check_error(response: Any, status: int, code: str) -> Json:
    """Check that a response is an error with this status and code, and return the error."""
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json"), response.text
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "details"}
    assert body["error"]["code"] == code, body
    message = body["error"]["message"]
    assert message and message[0] == message[0].lower()
    return body["error"]


@pytest.mark.parametrize(("method", "path"), json_routes())
class TestBodies:
    """Every route with a JSON body."""

    async def test_a_body_of_another_shape_is_refused(self, site: Site, method: str, path: str) -> None:
        for body in (b"[]", b"7", b'"x"', b"null", b'{"no_such_field": 1}'):
            response = await site.request(method.upper(), with_missing_ids(path), content=body, headers=JSON)
            check_error(response, 400, expected_code(path, "INVALID"))

    async def test_a_body_that_is_not_json_is_refused(self, site: Site, method: str, path: str) -> None:
        for body in (b"{", b"nope", b"'x'", b'{"a": "\xff"}', "{}".encode("utf-16")):
            response = await site.request(method.upper(), with_missing_ids(path), content=body, headers=JSON)
            check_error(response, 400, expected_code(path, "BAD_JSON"))

    async def test_another_content_type_is_refused(self, site: Site, method: str, path: str) -> None:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=x"):
            response = await site.request(
                method.upper(), with_missing_ids(path), content=b"{}", headers={"Content-Type": kind}
            )
            check_error(response, 415, "UNSUPPORTED_MEDIA_TYPE")

    async def test_a_body_without_a_content_type_is_refused(self, site: Site, method: str, path: str) -> None:
        check_error(
            await site.request(method.upper(), with_missing_ids(path), content=b"{}"), 415, "UNSUPPORTED_MEDIA_TYPE"
        )

    async def test_a_deeply_nested_body_is_refused(self, site: Site, method: str, path: str) -> None:
        deep_body = b"[" * 200_000
        response = await site.request(method.upper(), with_missing_ids(path), content=deep_body, headers=JSON)
        check_error(response, 400, "TOO_DEEP")


@pytest.mark.parametrize(("method", "path", "operation"), list_operations())
class TestEveryRoute:
    """Every route."""

    async def test_an_unknown_parameter_is_refused(self, site: Site, method: str, path: str, operation: Json) -> None:
        response = await site.request(method.upper(), f"{with_missing_ids(path)}?no_such_parameter=1")
        error = check_error(response, 400, expected_code(path, "INVALID"))
        assert error["details"] == {"field": "no_such_parameter"}

    async def test_each_parameter_is_checked_against_its_type(
        self, site: Site, method: str, path: str, operation: Json
    ) -> None:
        for parameter in operation["parameters"]:
            kind = parameter["schema"].get("type")
            if parameter["in"] != "query" or ("$ref" not in parameter["schema"] and kind not in ("integer", "number")):
                continue
            for value in ("", "x", "-1", "null", "1e999", "%00"):
                response = await site.request(method.upper(), f"{with_missing_ids(path)}?{parameter['name']}={value}")
                check_error(response, 400, expected_code(path, "INVALID"))

    async def test_an_invalid_id_is_not_found(self, site: Site, method: str, path: str, operation: Json) -> None:
        for name in ("space_id", "task_id", *IDS):
            for bad in ("%00", "a%20b", "%2e%2e", "x" * 129, "%ff", "%F0%9F%92%A9", "a%2Fb"):
                if f"{{{name}}}" in path:
                    address = with_missing_ids(path.replace(f"{{{name}}}", "@")).replace("@", bad)
                    assert (await site.request(method.upper(), address)).status_code in (404, 405), address

    async def test_a_missing_object_is_not_found(self, site: Site, method: str, path: str, operation: Json) -> None:
        if method == "get" and any(f"{{{name}}}" in path for name in ("task_id", *IDS)):
            wanted = [
                each["name"] for each in operation["parameters"] if each["in"] == "query" and each.get("required")
            ]
            query = "&".join(f"{name}=x" for name in wanted)
            found = await site.request("GET", f"{with_missing_ids(path)}?{query}")
            check_error(found, 404, expected_code(path, "NOT_FOUND"))


@pytest.mark.parametrize("limit", ["0", "10001", "-1", "1.5", "9" * 30, "true"])
async def test_an_invalid_page_limit_is_refused(site: Site, limit: str) -> None:
    for method, path, operation in list_operations("get"):
        if "limit" in [parameter["name"] for parameter in operation["parameters"]]:
            response = await site.request(method.upper(), f"{with_missing_ids(path)}?limit={limit}")
            check_error(response, 400, expected_code(path, "INVALID"))


async def test_a_page_has_at_most_200_items(site: Site) -> None:
    for method, path, operation in list_operations("get"):
        if path.startswith("/api") and "limit" in [parameter["name"] for parameter in operation["parameters"]]:
            check_error(await site.request(method.upper(), f"{with_missing_ids(path)}?limit=201"), 400, "INVALID")


@pytest.mark.parametrize("cursor", ["", "%00", "a b", "x" * 300, "%F0%9F%92%A9", "'; --"])
async def test_an_invalid_cursor_is_refused(site: Site, cursor: str) -> None:
    for method, path, operation in list_operations("get"):
        if "cursor" in [parameter["name"] for parameter in operation["parameters"]]:
            response = await site.request(method.upper(), f"{with_missing_ids(path)}?cursor={cursor}")
            check_error(response, 400, expected_code(path, "INVALID"))


@pytest.mark.parametrize(
    "path", ["/api/threads", "/api/artifacts", "/api/files", "/api/interrupts", "/api/notifications", "/api/spaces"]
)
async def test_a_cursor_of_another_list_is_refused(site: Site, path: str) -> None:
    for cursor in ("run_x", "1.2.3", "-1", "9" * 30):
        check_error(await site.request("GET", f"{path}?cursor={cursor}"), 400, "INVALID")


RUN: Final[list[tuple[Json, str]]] = [
    ({}, "messages"),
    ({"input": "x", "messages": []}, "messages"),
    ({"messages": "x"}, "messages"),
    ({"messages": [{"content": 7}]}, "messages[0].content"),
    ({"messages": [{"content": "x", "role": "tool"}]}, "messages[0].role"),
    ({"messages": [{"content": "x", "tool_calls": []}]}, "messages[0].tool_calls"),
    ({"messages": [{"content": [{"type": "film"}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"content": "x", "id": "a b"}]}, "messages.id"),
    ({"messages": [{"content": "x", "id": "a"}, {"content": "y", "id": "a"}]}, "messages.id"),
    ({"messages": [{"content": "x"}] * 1001}, "messages"),
    ({"input": "x", "id": "a b"}, "id"),
    ({"input": "x", "id": ""}, "id"),
    ({"input": "x", "base_sequence": 1}, "base_sequence"),
    ({"input": "x", "base_run_id": "r", "base_sequence": -1}, "base_sequence"),
    ({"input": "x", "on_busy": "wait"}, "on_busy"),
    ({"input": "x", "priority": "urgent"}, "priority"),
    ({"input": "x", "tags": ["a"] * 51}, "tags"),
    ({"input": "x", "tags": ["a\x00"]}, "tags"),
    ({"input": "x", "limits": {"max_iterations": 0}}, "limits.max_iterations"),
    ({"input": "x", "limits": {"max_iteratoins": 1}}, "limits.max_iteratoins"),
    (b'{"input": "x", "limits": {"cost_budget_usd": 1e400}}', "limits.cost_budget_usd"),
    ({"input": "x", "created_by": "me"}, "created_by"),
    ({"input": "x", "mode": "task"}, "mode"),
]


@pytest.mark.parametrize(("body", "field"), RUN)
async def test_an_invalid_run_is_refused_and_changes_nothing(site: Site, body: Json, field: str) -> None:
    thread = await site.thread()
    path = f"/api/threads/{thread}/runs"
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    error = check_error(await site.request("POST", path, content=content, headers=JSON), 400, "INVALID")
    assert error["details"]["field"] == field
    assert (await site.get(path))["items"] == []
    assert (await site.get(f"/api/threads/{thread}"))["next_sequence"] == 0


async def test_an_idempotency_key_is_printable_and_short(site: Site) -> None:
    path = f"/api/threads/{await site.thread()}/runs"
    for key in (b"x" * 256, b"\xe9", b""):
        response = await site.request("POST", path, json={"input": "x"}, headers={"Idempotency-Key": key})
        check_error(response, 400, "INVALID")
    assert (await site.get(path))["items"] == []


async def test_a_body_is_too_large_with_and_without_a_content_length(site: Site) -> None:
    large_body = b'{"title": "' + b"x" * MAX_BODY_BYTES + b'"}'

    async def chunks() -> Any:
        for start in range(0, len(large_body), 1 << 16):
            yield large_body[start : start + (1 << 16)]

    for content in (large_body, chunks()):
        response = await site.request("POST", "/api/threads", content=content, headers=JSON)
        error = check_error(response, 413, "BODY_TOO_LARGE")
        assert error["details"] == {"limit": MAX_BODY_BYTES}


async def test_any_text_and_any_json_are_returned_unchanged(shared_backend_site: Site) -> None:
    site = shared_backend_site
    odd_json = {"日本語": ["\U0001f4a9", "a\u2028b", "", 0, -1, 1.5, 2**53, None, True, {"": {}}], "nul": "a\x00b"}
    thread = await site.thread(title="\u202eeltit \U0001f4a9", metadata=odd_json)
    thread_row = await site.get(f"/api/threads/{thread}")
    assert (thread_row["title"], thread_row["metadata"]) == ("\u202eeltit \U0001f4a9", odd_json)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 70 + b'"' + rb"\"" * 32_000,
        b"[" * 70 + b'"' + rb"\"" * 32_000 + b"\\",
        b"[" * 70 + b'"' + b"\\" * 5_000_001,
        b"[" * 70 + b'""' * 5_000_000,
        b"[" * 70 + b'"]"[' * 100_000,
        b"[" * 400_000 + b"]" * 400_000,
    ],
)
def test_a_body_with_many_quotes_or_brackets_is_refused_in_linear_time(body: bytes) -> None:
    with pytest.raises(TooDeep):
        check_depth(body)


@pytest.mark.parametrize("body", [b"[" + b"[]," * MAX_JSON_VALUES + b"0]", b"[" + b"0," * MAX_JSON_VALUES + b"0]"])
async def test_a_body_with_too_many_values_is_refused(shared_backend_site: Site, body: bytes) -> None:
    response = await shared_backend_site.request("POST", "/api/threads", content=body, headers=JSON)
    assert check_error(response, 413, "TOO_LARGE")["details"] == {"limit": MAX_JSON_VALUES}


@pytest.mark.parametrize("number", ["1e300", "-1E+300", "4.9e-324", "1.7976931348623157e308", "1e0300"])
@pytest.mark.parametrize("separator", [",", ", ", ",\n"])
async def test_a_body_with_too_many_numbers_that_are_slow_to_decode_is_refused(
    shared_backend_site: Site, number: str, separator: str
) -> None:
    body = '{"metadata": {"a": [' + separator.join([number] * (MAX_EXTREME_NUMBERS + 1)) + "]}}"
    response = await shared_backend_site.request("POST", "/api/threads", content=body.encode(), headers=JSON)
    assert check_error(response, 413, "TOO_LARGE")["details"] == {"limit": MAX_EXTREME_NUMBERS}


def test_ordinary_numbers_and_texts_are_not_counted_as_slow_to_decode() -> None:
    check_depth(msgspec.json.encode([1e22, 1.5, "e300" * 20, "1e300" * 20] * 10_001))


def test_a_long_text_is_not_counted_as_values() -> None:
    check_depth(msgspec.json.encode({"input": "a" * 9_000_000, "tags": ["b"] * 1_000}))


@given(st.integers(min_value=1, max_value=300), st.text(alphabet='[]{}"\\ a', max_size=20))
def test_depth_counts_brackets_outside_strings(depth: int, text: str) -> None:
    body = b"[" * depth + msgspec.json.encode([text] * 70)[1:-1] + b"]" * depth
    if depth > MAX_JSON_DEPTH:
        with pytest.raises(TooDeep):
            check_depth(body)
    else:
        check_depth(body)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("/api/threads?status=gone", "`status`: expected one of `active`, `archived`, `deleted`"),
        ("/api/threads?limit=many", "`limit`: expected `integer`, got `string`"),
        ("/api/threads/thr_none/export?format=pdf", "`format`: expected one of `markdown`, `json`"),
    ],
)
async def test_the_message_for_an_invalid_parameter_names_the_valid_values(
    site: Site, address: str, message: str
) -> None:
    assert (await site.get(address, expect=400))["error"]["message"] == message


async def test_a_null_input_is_refused(site: Site) -> None:
    response = await site.request("POST", f"/api/threads/{await site.thread()}/runs", json={"input": None})
    assert check_error(response, 400, "INVALID")["details"] == {"field": "input"}


async def test_a_message_can_revise_only_a_message_of_its_thread(site: Site) -> None:
    thread = await site.thread()
    await site.post(f"/api/threads/{await site.thread()}/runs?wait=30", {"messages": [{"content": "a", "id": "m-far"}]})
    first = await site.post(f"/api/threads/{thread}/runs?wait=30", {"messages": [{"content": "a", "id": "m-near"}]})
    for name in ("nope", "m-far"):
        body = {"messages": [{"content": "b", "revises": name}]}
        response = await site.request("POST", f"/api/threads/{thread}/runs", json=body)
        assert check_error(response, 404, "NOT_FOUND")["details"] == {"field": "messages.revises"}
    revision = {"messages": [{"content": "b", "revises": "m-near"}], "base_run_id": None}
    assert (await site.post(f"/api/threads/{thread}/runs?wait=30", revision))["id"] != first["id"]


async def test_a_route_without_a_body_refuses_one(site: Site) -> None:
    thread = await site.thread()
    for method, path in (("POST", f"/api/threads/{thread}/archive"), ("DELETE", f"/api/threads/{thread}")):
        for body in (b'{"x":1}', b"[]", b"null", b"x"):
            response = await site.request(method, path, content=body, headers=JSON)
            assert check_error(response, 400, "INVALID")["details"] == {"field": "body"}
    assert (await site.get(f"/api/threads/{thread}"))["status"] == "active"
    await site.post(f"/api/threads/{thread}/archive", {}, expect=200)


@pytest.mark.parametrize(
    "media_type", ["bad\r\nx: y", "text", "", "text/", "/plain", "text/plain;", "text /plain", "a/é"]
)
async def test_an_invalid_media_type_of_an_artifact_is_refused(site: Site, media_type: str) -> None:
    run = await site.play(await site.thread())
    body = {"type": "doc", "title": "x", "content": "y", "media_type": media_type}
    response = await site.request("POST", f"/api/runs/{run['id']}/artifacts", json=body)
    assert check_error(response, 400, "INVALID")["details"] == {"field": "media_type"}
    await site.post(f"/api/runs/{run['id']}/artifacts", {**body, "media_type": 'text/plain; charset="utf-8"'})


async def test_an_error_about_an_idempotency_key_names_the_header(site: Site) -> None:
    thread = await site.thread()
    path = f"/api/threads/{thread}/runs"
    for key in ("x" * 256, "", "\u00e9".encode("latin-1")):
        response = await site.request("POST", path, json={"input": "x"}, headers=[("Idempotency-Key", key)])
        error = check_error(response, 400, "INVALID")
        assert error["details"]["field"] == "Idempotency-Key", error
    twice = await site.request("POST", path, json={"input": "x"}, headers=[("Idempotency-Key", "a")] * 2)
    assert check_error(twice, 400, "HEADER_REPEATED")["details"] == {"field": "Idempotency-Key"}


async def test_a_missing_parameter_is_named(site: Site) -> None:
    response = await site.request("POST", "/api/files", content=b"x")
    error = check_error(response, 400, "INVALID")
    assert (error["message"], error["details"]) == ("`name`: missing", {"field": "name"})


@pytest.mark.parametrize("escape", [r"\ud800", r"\udc00", r"\uD83Dx", r"\\\ud800"])
async def test_a_lone_surrogate_is_refused_by_name(site: Site, escape: str) -> None:
    content = f'{{"agent_type":"bot","title":"{escape}"}}'
    response = await site.request("POST", "/api/threads", content=content, headers=JSON)
    assert "is a lone surrogate" in check_error(response, 400, "BAD_JSON")["message"]
    valid = r'{"agent_type":"bot","title":"\ud83d\ude00 \\ud800"}'
    created = await site.request("POST", "/api/threads", content=valid, headers=JSON)
    assert created.json()["title"] == "\U0001f600 \\ud800"


async def test_malformed_json_is_reported_as_such(site: Site) -> None:
    response = await site.request("POST", "/api/threads", content=b'{"title":x}', headers=JSON)
    assert "JSON is malformed" in check_error(response, 400, "BAD_JSON")["message"]


async def test_no_error_shows_a_path_of_the_server(site: Site) -> None:
    response = await site.request(
        "POST", f"/api/threads/{await site.thread()}/runs", json={"input": "x", "model": "scripted:none.json"}
    )
    assert "`none.json`" in check_error(response, 400, "SCRIPT_ERROR")["message"]
    assert str(site.workshop.folder) not in response.text


async def test_null_in_a_query_is_a_plain_string(site: Site) -> None:
    for path in ("/tasks?agentName=null", "/sessions?agentName=null", "/api/runs?agent_type=null"):
        response = await site.request("GET", path)
        assert response.status_code == 200, response.text
        assert [*response.json().values()][0] == [], response.text
