"""Invalid requests get errors in the shape of OpenAI's API and change nothing."""

import json
from typing import Any, Final

import pytest
from openai import APIError, APIStatusError, AsyncOpenAI

from holdfast.api.json_body import MAX_BODY_BYTES
from holdfast.api.openai.requests import UNSUPPORTED_PARAMETERS
from holdfast.domain.content import Json
from tests.api.openai.clients import WEATHER, user
from tests.api.site import Site
from tests.scenario.agents.agent_workspace import SPACE

JSON: Final = {"Content-Type": "application/json"}
PATH: Final = "/v1/chat/completions"
CALL: Final[Json] = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
CALLS: Final[Json] = {"role": "assistant", "tool_calls": [CALL]}
RESULT: Final[Json] = {"role": "tool", "tool_call_id": "c", "content": "x"}


def check_error(response: Any, status: int) -> Json:
    """Check that a response is an OpenAI error, and return the error."""
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json"), response.text
    assert response.headers["x-should-retry"] == "false"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"] and error["message"][0] == error["message"][0].lower()
    return error


async def count_threads(site: Site) -> int:
    """Return the number of threads."""
    return len((await site.store.threads.page(SPACE, limit=200)).items)


BODIES: Final[list[tuple[Json, str | None]]] = [
    ([], "body"),
    ({}, "model"),
    ({"messages": []}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": [{"role": "person", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": [user(7)]}, "messages[0].content"),
    ({"messages": [user([{"type": "film"}])]}, "messages[0].content[0].type"),
    ({"messages": [user([{"type": "image_url", "image_url": {"url": "x"}}])]}, "messages[0].content[0].image_url.url"),
    ({"messages": [user([{"type": "file", "file": {}}])]}, "messages[0].content[0].file"),
    (
        {"messages": [user([{"type": "input_audio", "input_audio": {"data": "", "format": "ogg"}}])]},
        "messages[0].content[0].input_audio.format",
    ),
    ({"messages": [user("x"), CALLS]}, "messages"),
    ({"messages": [user("x"), CALLS, user("y")]}, "messages"),
    ({"messages": [user("x"), RESULT]}, "messages"),
    ({"messages": [user("x"), CALLS, RESULT, RESULT]}, "messages"),
    ({"messages": [user("x")] * 1001}, "messages"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "a", "arguments": "["}}]}]},
        "messages[0].tool_calls[0].function.arguments",
    ),
    ({"messages": [user("x")], "model": 7}, "model"),
    ({"messages": [user("x")], "stream": "yes"}, "stream"),
    ({"messages": [user("x")], "n": 2}, "n"),
    ({"messages": [user("x")], "logprobs": True}, "logprobs"),
    ({"messages": [user("x")], "top_logprobs": 3}, "top_logprobs"),
    ({"messages": [user("x")], "response_format": {"type": "xml"}}, "response_format.type"),
    ({"messages": [user("x")], "response_format": {"type": "json_schema"}}, "response_format"),
    (
        {"messages": [user("x")], "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 7}}}},
        "output_schema",
    ),
    ({"messages": [user("x")], "modalities": ["text", "audio"]}, "modalities"),
    ({"messages": [user("x")], "audio": {"voice": "x"}}, "audio"),
    ({"messages": [user("x")], "tool_choice": "required"}, "tool_choice"),
    ({"messages": [user("x")], "parallel_tool_calls": False}, "parallel_tool_calls"),
    ({"messages": [user("x")], "functions": []}, "functions"),
    ({"messages": [user("x")], "function_call": "auto"}, "function_call"),
    ({"messages": [user("x")], "tools": [{"type": "custom", "custom": {}}]}, "tools[0].type"),
    ({"messages": [user("x")], "tools": [{"type": "function", "function": {"name": "a b"}}]}, "name"),
    ({"messages": [user("x")], "tools": [WEATHER, WEATHER]}, "tools"),
    ({"messages": [user("x")], "tools": [WEATHER] * 200}, "tools"),
]


@pytest.mark.parametrize(("body", "param"), BODIES)
async def test_an_invalid_request_is_rejected_and_creates_no_thread(site: Site, body: Json, param: str | None) -> None:
    before = await count_threads(site)
    sent = {"model": "bot", **body} if isinstance(body, dict) and body else body
    error = check_error(await site.request("POST", PATH, content=json.dumps(sent).encode(), headers=JSON), 400)
    assert (error["type"], error["param"]) == ("invalid_request_error", param), error
    assert await count_threads(site) == before


def test_every_unsupported_parameter_is_tested() -> None:
    assert set(UNSUPPORTED_PARAMETERS) <= {name for body, _ in BODIES if isinstance(body, dict) for name in body}


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"{", JSON, 400, "BAD_JSON"),
        (b'{"a": "\xff"}', JSON, 400, "BAD_JSON"),
        (b"[" * 100_000, JSON, 400, "TOO_DEEP"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        (b" " * (MAX_BODY_BYTES + 1), JSON, 413, "BODY_TOO_LARGE"),
        (b"", JSON, 400, "INVALID"),
        (b'{"model": "bot", "messages": []}', {**JSON, "X-Holdfast-Thread": "a b"}, 400, "INVALID"),
    ],
)
async def test_an_unreadable_body_is_rejected(
    site: Site, content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    assert check_error(await site.request("POST", PATH, content=content, headers=headers), status)["code"] == code


async def test_an_unknown_query_parameter_is_rejected(site: Site) -> None:
    for method, path in (("GET", "/v1/models"), ("GET", "/v1/models/bot"), ("POST", PATH)):
        assert check_error(await site.request(method, f"{path}?nothing=1"), 400)["param"] == "nothing"


@pytest.mark.parametrize("name", ["nobody", "silent", "../bot", ""])
async def test_an_unknown_model_is_not_found(site: Site, name: str) -> None:
    before = await count_threads(site)
    body = {"model": name, "messages": [user("x")]}
    error = check_error(await site.request("POST", PATH, json=body), 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert await count_threads(site) == before


async def test_an_agent_with_invalid_files_is_rejected(site: Site) -> None:
    assert "agent.json" in check_error(await site.request("GET", "/v1/models/broken"), 400)["message"]


async def test_a_closed_thread_accepts_no_chat(site: Site, openai: AsyncOpenAI) -> None:
    thread = await site.thread()
    await site.post(f"/api/threads/{thread}/archive", expect=200)
    with pytest.raises(APIStatusError, match="it accepts no new runs") as found:
        await openai.chat.completions.create(
            model="bot", messages=[user("x")], extra_headers={"X-Holdfast-Thread": thread}
        )
    assert (found.value.status_code, found.value.code) == (409, "THREAD_CLOSED")


async def test_a_thread_needs_a_new_message(site: Site) -> None:
    thread = await site.thread()
    body = {"model": "bot", "messages": [user("x"), {"role": "assistant", "content": "y"}]}
    response = await site.request("POST", PATH, json=body, headers={"X-Holdfast-Thread": thread})
    assert "there is no new message" in check_error(response, 400)["message"]


async def test_a_failed_run_is_an_error_with_and_without_a_stream(openai: AsyncOpenAI) -> None:
    with pytest.raises(APIStatusError, match="no") as plain:
        await openai.chat.completions.create(model="failing", messages=[user("x")])
    assert (plain.value.status_code, plain.value.code) == (400, "MODEL_REFUSED")
    stream = await openai.chat.completions.create(model="failing", messages=[user("x")], stream=True)
    with pytest.raises(APIError) as streamed:
        [each async for each in stream]
    assert streamed.value.code == "MODEL_REFUSED"


async def test_a_cancelled_run_is_an_error(site: Site, openai: AsyncOpenAI) -> None:
    stream = await openai.chat.completions.create(model="staller", messages=[user("x")], stream=True)
    chunks = aiter(stream)
    run = (await anext(chunks)).id.removeprefix("chatcmpl-")
    await site.post(f"/api/runs/{run}/cancel", expect=200)
    with pytest.raises(APIError) as found:
        [each async for each in chunks]
    assert found.value.code == "CANCELLED"
