import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI

from holdfast.testing.openai_server import StubFault, StubOpenAIServer, StubReply, StubToolCall

HELLO: Any = {"model": "any", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def server() -> AsyncIterator[StubOpenAIServer]:
    async with StubOpenAIServer() as stub:
        yield stub


@pytest.fixture
async def client(server: StubOpenAIServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key="k", base_url=server.url, max_retries=0) as openai:
        yield openai


async def test_it_responds_whole_or_streamed_to_the_openai_client(
    server: StubOpenAIServer, client: AsyncOpenAI
) -> None:
    reply = StubReply(text="hello world", chunks=3, calls=[StubToolCall(name="look", arguments={"at": 1})])
    server.add_replies(reply, reply)
    completion = await client.chat.completions.create(**HELLO)
    assert completion.choices[0].message.content == "hello world"
    assert completion.choices[0].finish_reason == "tool_calls"
    assert completion.usage is not None
    pieces = [chunk async for chunk in await client.chat.completions.create(**HELLO, stream=True)]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in pieces if chunk.choices) == "hello world"
    assert pieces[-1].usage == completion.usage
    assert [request.get("stream") for request in server.requests] == [None, True]


async def test_it_lists_its_model(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["stand-in"]


async def test_replies_are_sent_in_order_and_then_the_default_one() -> None:
    async with StubOpenAIServer(
        StubReply(text="one"), StubReply(text="two"), default_reply=StubReply(text="more")
    ) as server:
        assert [await _ask(server) for _ in range(4)] == ["one", "two", "more", "more"]


async def test_without_a_reply_left_it_returns_an_error(server: StubOpenAIServer) -> None:
    async with httpx2.AsyncClient() as http:
        response = await http.post(f"{server.url}/chat/completions", json=HELLO)
    assert response.status_code == 400
    assert "no reply left" in response.json()["error"]["message"]


async def test_an_invalid_request_is_refused(server: StubOpenAIServer) -> None:
    async with httpx2.AsyncClient() as http:
        garbage, other = [
            await http.post(f"{server.url}/chat/completions", content=content) for content in (b"{", b"[]")
        ]
        nowhere = await http.get(f"{server.url}/nowhere")
    assert (garbage.status_code, other.status_code, nowhere.status_code) == (400, 400, 404)
    assert server.requests == []


async def test_it_counts_open_connections(server: StubOpenAIServer) -> None:
    server.add_replies(StubReply(text="x", fault=StubFault.STALL))
    async with asyncio.timeout(60), httpx2.AsyncClient() as http:
        body = {**HELLO, "stream": True}
        async with http.stream("POST", f"{server.url}/chat/completions", json=body) as response:
            await anext(response.aiter_bytes())
            assert server.open_connections == 1
        await server.wait_until(lambda it: it.open_connections == 0)


async def test_it_stops_while_a_client_is_connected() -> None:
    async with (
        asyncio.timeout(60),
        httpx2.AsyncClient() as http,
        StubOpenAIServer(StubReply(fault=StubFault.STALL)) as server,
    ):
        request = asyncio.ensure_future(http.post(f"{server.url}/chat/completions", json={**HELLO, "stream": True}))
        await server.wait_until(lambda it: len(it.requests) == 1)
        await server.__aexit__(None, None, None)
        with pytest.raises(httpx2.HTTPError):
            await request
    assert server.open_connections == 0


def test_it_runs_as_a_separate_process(tmp_path: Path) -> None:
    replies = tmp_path / "replies.json"
    replies.write_text(json.dumps([{"text": "first"}]))
    command = [sys.executable, "-m", "holdfast.testing.openai_server", "--replies", str(replies), "--text", "then this"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, httpx2.Client() as http:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            responses = [http.post(f"{url}/chat/completions", json=HELLO) for _ in range(2)]
        finally:
            process.terminate()
    assert [response.json()["choices"][0]["message"]["content"] for response in responses] == ["first", "then this"]


async def test_a_connection_that_is_not_http_is_closed(server: StubOpenAIServer) -> None:
    host, port = server.url.removeprefix("http://").removesuffix("/v1").split(":")
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"hello\r\n\r\n")
        assert await reader.read() == b""
        writer.close()


async def _ask(server: StubOpenAIServer) -> str:
    async with httpx2.AsyncClient() as http:
        response = await http.post(f"{server.url}/chat/completions", json=HELLO)
    text: str = response.json()["choices"][0]["message"]["content"]
    return text
