"""HTTP responses of a server are bounded."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from holdfast.mcp import transports as http
from holdfast.mcp.transports import limited_http_client


@asynccontextmanager
async def serving(body: bytes, *headers: str) -> AsyncIterator[str]:
    """Yield the URL of a server that responds with a body."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.mark.parametrize(("max_bytes", "whole"), [(1000, True), (999, False)])
async def test_a_response_that_is_too_long_is_an_error(
    monkeypatch: pytest.MonkeyPatch, max_bytes: int, whole: bool
) -> None:
    monkeypatch.setattr(http, "MAX_RESPONSE_BYTES", max_bytes)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # a closed port: the proxy is not used
    async with serving(b"x" * 1000) as url, limited_http_client({"X-A": "b"}) as client:
        if whole:
            assert len((await client.get(url)).content) == 1000
            return
        with pytest.raises(httpx2.StreamError, match="longer than 999 bytes"):
            await client.get(url)


async def test_a_compressed_response_is_an_error_because_it_may_have_any_length() -> None:
    bomb = gzip.compress(b"x" * 10_000_000)
    async with serving(bomb, "Content-Encoding: gzip") as url, limited_http_client({}) as client:
        with pytest.raises(httpx2.StreamError, match="compressed"):
            await client.get(url)


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("kind", "body", "whole"),
    [
        ("application/json", '["a,b,c\\\\", "[[[[[[[[\\"", 1]', True),
        ("application/json", "[1,2,3,4,5,6,7]", False),
        ("application/json", "[1,2,3,~~4,5,6,7]", False),
        ("application/json", '["\\\\",[],[],[],[]]', False),
        ("text/event-stream", "data: [1,2,3,4]~~data: [1,2,3,4]~~", True),
        ("text/event-stream", ': "~data: [1,2,3,~data: 4,5,6,7]~~', False),
    ],
)
async def test_a_message_with_too_many_values_is_an_error(
    monkeypatch: pytest.MonkeyPatch, kind: str, body: str, whole: bool, line_end: str
) -> None:
    monkeypatch.setattr(http, "MAX_MESSAGE_VALUES", 5)
    encoded = body.replace("~", line_end).encode()
    async with serving(encoded, f"Content-Type: {kind}") as url, limited_http_client({}) as client:
        if whole:
            assert (await client.get(url)).content == encoded
            return
        with pytest.raises(httpx2.StreamError, match="more than 5 values"):
            await client.get(url)
