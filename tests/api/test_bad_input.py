"""Whatever is wrong with a request, the answer says what, in one shape, and nothing has changed."""

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
from tests.api.site import Site

JSON: Final = {"Content-Type": "application/json"}
IDS: Final = {
    "thread_id": "thr_none",
    "run_id": "run_none",
    "key_id": "key_none",
    "artifact_id": "art_none",
    "file_id": "fil_none",
    "session_id": "thr_none",
}
CONTRACT: Final = ("/tasks", "/agents", "/sessions", "/models", "/completions", "/settings")
"""How addresses begin that are of the tasks contract or in its style: they have pages of their own."""
FOREIGN: Final = "/v1/"
"""How addresses begin whose errors have a shape of their own; `tests/api/openai` has the same for them."""


def operations(method: str | None = None) -> list[tuple[str, str, Json]]:
    """Return every route once: its method, its path and what is documented of it."""
    return [
        (each, path, operation)
        for path, item in openapi_document()["paths"].items()
        for each, operation in item.items()
        if method in (None, each)
        and not operation["operationId"].endswith("_in_space")
        and not path.startswith(FOREIGN)
    ]


def bodies() -> list[tuple[str, str]]:
    """Return every route that reads JSON."""
    return [
        (method, path)
        for method, path, operation in operations()
        if "application/json" in operation.get("requestBody", {}).get("content", {})
    ]


def filled(path: str) -> str:
    """Return a path with ids of things that are not there."""
    task = "task_none" if path.startswith(CONTRACT) else "1"  # elsewhere it is the number of a plan's item
    return path.format(space_id="default", name="nobody", task_id=task, **IDS)


def code_at(path: str, code: str) -> str:
    """Return what `code` is called at an address: the tasks contract has one word for all that does not fit."""
    if not path.startswith(CONTRACT):
        return code
    missing = "SESSION_NOT_FOUND" if path.startswith("/sessions") else "TASK_NOT_FOUND"
    return {"NOT_FOUND": missing}.get(code, "VALIDATION_ERROR")


def refused(response: Any, status: int, code: str) -> Json:
    """Check that an answer is an error of ours, and return it."""
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json"), response.text
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "details"}
    assert body["error"]["code"] == code, body
    message = body["error"]["message"]
    assert message and message[0] == message[0].lower()
    return body["error"]


@pytest.mark.parametrize(("method", "path"), bodies())
class TestBodies:
    """Every route that reads JSON."""

    @pytest.mark.parametrize("body", [b"[]", b"7", b'"x"', b"null", b'{"no_such_field": 1}'])
    async def test_a_body_of_another_shape_is_refused(self, site: Site, method: str, path: str, body: bytes) -> None:
        response = await site.request(method.upper(), filled(path), content=body, headers=JSON)
        refused(response, 400, code_at(path, "INVALID"))

    @pytest.mark.parametrize("body", [b"{", b"nope", b"'x'", b'{"a": "\xff"}', "{}".encode("utf-16")])
    async def test_what_is_no_json_is_refused(self, site: Site, method: str, path: str, body: bytes) -> None:
        response = await site.request(method.upper(), filled(path), content=body, headers=JSON)
        refused(response, 400, code_at(path, "BAD_JSON"))

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=x"])
    async def test_another_kind_of_body_is_refused(self, site: Site, method: str, path: str, kind: str) -> None:
        response = await site.request(method.upper(), filled(path), content=b"{}", headers={"Content-Type": kind})
        refused(response, 415, "UNSUPPORTED_MEDIA_TYPE")

    async def test_a_body_without_a_kind_is_refused(self, site: Site, method: str, path: str) -> None:
        refused(await site.request(method.upper(), filled(path), content=b"{}"), 415, "UNSUPPORTED_MEDIA_TYPE")

    async def test_a_deep_body_is_refused(self, site: Site, method: str, path: str) -> None:
        deep = b"[" * 200_000
        response = await site.request(method.upper(), filled(path), content=deep, headers=JSON)
        refused(response, 400, "TOO_DEEP")


@pytest.mark.parametrize(("method", "path", "operation"), operations())
class TestEveryRoute:
    """Every route there is."""

    async def test_an_unknown_parameter_is_refused(self, site: Site, method: str, path: str, operation: Json) -> None:
        response = await site.request(method.upper(), f"{filled(path)}?no_such_parameter=1")
        error = refused(response, 400, code_at(path, "INVALID"))
        assert error["details"] == {"field": "no_such_parameter"}

    async def test_each_parameter_is_held_to_its_type(
        self, site: Site, method: str, path: str, operation: Json
    ) -> None:
        for parameter in operation["parameters"]:
            kind = parameter["schema"].get("type")
            if parameter["in"] != "query" or ("$ref" not in parameter["schema"] and kind not in ("integer", "number")):
                continue
            for value in ("", "x", "-1", "null", "1e999", "%00"):
                response = await site.request(method.upper(), f"{filled(path)}?{parameter['name']}={value}")
                refused(response, 400, code_at(path, "INVALID"))

    async def test_an_id_that_can_be_none_is_not_found(
        self, site: Site, method: str, path: str, operation: Json
    ) -> None:
        for name in ("space_id", "task_id", *IDS):
            for bad in ("%00", "a%20b", "%2e%2e", "x" * 129, "%ff", "%F0%9F%92%A9", "a%2Fb"):
                if f"{{{name}}}" in path:
                    address = filled(path.replace(f"{{{name}}}", "@")).replace("@", bad)
                    assert (await site.request(method.upper(), address)).status_code in (404, 405), address

    async def test_what_is_not_there_is_not_found(self, site: Site, method: str, path: str, operation: Json) -> None:
        if method == "get" and any(f"{{{name}}}" in path for name in ("task_id", *IDS)):
            refused(await site.request("GET", filled(path)), 404, code_at(path, "NOT_FOUND"))


@pytest.mark.parametrize("limit", ["0", "10001", "-1", "1.5", "9" * 30, "true"])
async def test_a_page_is_not_empty_and_not_endless(site: Site, limit: str) -> None:
    for method, path, operation in operations("get"):
        if "limit" in [parameter["name"] for parameter in operation["parameters"]]:
            response = await site.request(method.upper(), f"{filled(path)}?limit={limit}")
            refused(response, 400, code_at(path, "INVALID"))


async def test_a_page_has_at_most_200_items(site: Site) -> None:
    for method, path, operation in operations("get"):
        if path.startswith("/api") and "limit" in [parameter["name"] for parameter in operation["parameters"]]:
            refused(await site.request(method.upper(), f"{filled(path)}?limit=201"), 400, "INVALID")


@pytest.mark.parametrize("cursor", ["", "%00", "a b", "x" * 300, "%F0%9F%92%A9", "'; --"])
async def test_a_cursor_that_is_none_of_ours_is_refused(site: Site, cursor: str) -> None:
    for method, path, operation in operations("get"):
        if "cursor" in [parameter["name"] for parameter in operation["parameters"]]:
            response = await site.request(method.upper(), f"{filled(path)}?cursor={cursor}")
            refused(response, 400, code_at(path, "INVALID"))


@pytest.mark.parametrize(
    "path", ["/api/threads", "/api/artifacts", "/api/files", "/api/interrupts", "/api/notifications", "/api/spaces"]
)
async def test_a_cursor_of_another_list_is_refused(site: Site, path: str) -> None:
    for cursor in ("run_x", "1.2.3", "-1", "9" * 30):
        refused(await site.request("GET", f"{path}?cursor={cursor}"), 400, "INVALID")


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
async def test_a_run_that_can_never_be_is_refused_and_leaves_nothing(site: Site, body: Json, field: str) -> None:
    thread = await site.thread()
    path = f"/api/threads/{thread}/runs"
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    error = refused(await site.request("POST", path, content=content, headers=JSON), 400, "INVALID")
    assert error["details"]["field"] == field
    assert (await site.get(path))["items"] == []
    assert (await site.get(f"/api/threads/{thread}"))["next_sequence"] == 0


async def test_an_idempotency_key_is_printable_and_short(site: Site) -> None:
    path = f"/api/threads/{await site.thread()}/runs"
    for key in (b"x" * 256, b"\xe9", b""):
        response = await site.request("POST", path, json={"input": "x"}, headers={"Idempotency-Key": key})
        refused(response, 400, "INVALID")
    assert (await site.get(path))["items"] == []


async def test_a_body_is_too_large_whether_it_says_so_or_not(site: Site) -> None:
    large = b'{"title": "' + b"x" * MAX_BODY_BYTES + b'"}'

    async def chunks() -> Any:
        for start in range(0, len(large), 1 << 16):
            yield large[start : start + (1 << 16)]

    for content in (large, chunks()):
        response = await site.request("POST", "/api/threads", content=content, headers=JSON)
        error = refused(response, 413, "BODY_TOO_LARGE")
        assert error["details"] == {"limit": MAX_BODY_BYTES}


async def test_text_of_any_language_and_any_json_come_back_as_they_were_sent(shared_backend_site: Site) -> None:
    site = shared_backend_site
    odd = {"日本語": ["\U0001f4a9", "a\u2028b", "", 0, -1, 1.5, 2**53, None, True, {"": {}}], "nul": "a\x00b"}
    thread = await site.thread(title="\u202eeltit \U0001f4a9", metadata=odd)
    found = await site.get(f"/api/threads/{thread}")
    assert (found["title"], found["metadata"]) == ("\u202eeltit \U0001f4a9", odd)


@given(st.integers(min_value=1, max_value=300), st.text(alphabet='[]{}"\\ a', max_size=20))
def test_depth_counts_brackets_outside_of_strings(depth: int, text: str) -> None:
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
async def test_who_asks_for_what_is_not_there_is_told_what_is(site: Site, address: str, message: str) -> None:
    assert (await site.get(address, expect=400))["error"]["message"] == message


async def test_a_run_is_not_told_null(site: Site) -> None:
    response = await site.request("POST", f"/api/threads/{await site.thread()}/runs", json={"input": None})
    assert refused(response, 400, "INVALID")["details"] == {"field": "input"}


async def test_only_a_message_of_the_thread_is_revised(site: Site) -> None:
    thread = await site.thread()
    await site.post(f"/api/threads/{await site.thread()}/runs?wait=30", {"messages": [{"content": "a", "id": "m-far"}]})
    first = await site.post(f"/api/threads/{thread}/runs?wait=30", {"messages": [{"content": "a", "id": "m-near"}]})
    for name in ("nope", "m-far"):
        body = {"messages": [{"content": "b", "revises": name}]}
        response = await site.request("POST", f"/api/threads/{thread}/runs", json=body)
        assert refused(response, 404, "NOT_FOUND")["details"] == {"field": "messages.revises"}
    revision = {"messages": [{"content": "b", "revises": "m-near"}], "base_run_id": None}
    assert (await site.post(f"/api/threads/{thread}/runs?wait=30", revision))["id"] != first["id"]


async def test_a_route_that_reads_no_body_takes_none(site: Site) -> None:
    thread = await site.thread()
    for method, path in (("POST", f"/api/threads/{thread}/archive"), ("DELETE", f"/api/threads/{thread}")):
        for body in (b'{"x":1}', b"[]", b"null", b"x"):
            response = await site.request(method, path, content=body, headers=JSON)
            assert refused(response, 400, "INVALID")["details"] == {"field": "body"}
    assert (await site.get(f"/api/threads/{thread}"))["status"] == "active"
    await site.post(f"/api/threads/{thread}/archive", {}, expect=200)


@pytest.mark.parametrize(
    "media_type", ["bad\r\nx: y", "text", "", "text/", "/plain", "text/plain;", "text /plain", "a/é"]
)
async def test_an_artifact_has_a_media_type_that_is_one(site: Site, media_type: str) -> None:
    run = await site.play(await site.thread())
    body = {"type": "doc", "title": "x", "content": "y", "media_type": media_type}
    response = await site.request("POST", f"/api/runs/{run['id']}/artifacts", json=body)
    assert refused(response, 400, "INVALID")["details"] == {"field": "media_type"}
    await site.post(f"/api/runs/{run['id']}/artifacts", {**body, "media_type": 'text/plain; charset="utf-8"'})


async def test_a_key_that_is_none_is_called_by_its_header(site: Site) -> None:
    thread = await site.thread()
    path = f"/api/threads/{thread}/runs"
    for key in ("x" * 256, "", "\u00e9".encode("latin-1")):
        response = await site.request("POST", path, json={"input": "x"}, headers=[("Idempotency-Key", key)])
        error = refused(response, 400, "INVALID")
        assert error["details"]["field"] == "Idempotency-Key", error
    twice = await site.request("POST", path, json={"input": "x"}, headers=[("Idempotency-Key", "a")] * 2)
    assert refused(twice, 400, "HEADER_REPEATED")["details"] == {"field": "Idempotency-Key"}


async def test_a_parameter_that_is_missing_is_named(site: Site) -> None:
    response = await site.request("POST", "/api/files", content=b"x")
    error = refused(response, 400, "INVALID")
    assert (error["message"], error["details"]) == ("`name`: missing", {"field": "name"})


@pytest.mark.parametrize("half", [r"\ud800", r"\udc00", r"\uD83Dx", r"\\\ud800"])
async def test_half_of_a_surrogate_pair_is_called_so(site: Site, half: str) -> None:
    content = f'{{"agent_type":"bot","title":"{half}"}}'
    response = await site.request("POST", "/api/threads", content=content, headers=JSON)
    assert "is a lone surrogate" in refused(response, 400, "BAD_JSON")["message"]
    whole = r'{"agent_type":"bot","title":"\ud83d\ude00 \\ud800"}'
    made = await site.request("POST", "/api/threads", content=whole, headers=JSON)
    assert made.json()["title"] == "\U0001f600 \\ud800"


async def test_broken_json_is_called_json(site: Site) -> None:
    response = await site.request("POST", "/api/threads", content=b'{"title":x}', headers=JSON)
    assert "JSON is malformed" in refused(response, 400, "BAD_JSON")["message"]


async def test_nobody_is_told_where_the_server_keeps_its_files(site: Site) -> None:
    response = await site.request(
        "POST", f"/api/threads/{await site.thread()}/runs", json={"input": "x", "model": "scripted:none.json"}
    )
    assert "`none.json`" in refused(response, 400, "SCRIPT_ERROR")["message"]
    assert str(site.workshop.folder) not in response.text


async def test_null_is_a_name_like_any_other(site: Site) -> None:
    for path in ("/tasks?agentName=null", "/sessions?agentName=null", "/api/runs?agent_type=null"):
        response = await site.request("GET", path)
        assert response.status_code == 200, response.text
        assert [*response.json().values()][0] == [], response.text
