"""HTTP responses of a server are bounded."""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from holdfast.mcp import transports as http
from holdfast.mcp.transports import limited_http_client


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """Yield the URL of a server that responds with a thousand bytes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n" + b"x" * 1000)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.mark.parametrize(("max_bytes", "whole"), [(1000, True), (999, False)])
async def test_a_response_that_is_too_long_is_an_error(
    url: str, monkeypatch: pytest.MonkeyPatch, max_bytes: int, whole: bool
) -> None:
    monkeypatch.setattr(http, "MAX_RESPONSE_BYTES", max_bytes)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # a closed port: the proxy is not used
    async with limited_http_client({"X-A": "b"}) as client:
        if whole:
            assert len((await client.get(url)).content) == 1000
            return
        with pytest.raises(httpx2.StreamError, match="longer than 999 bytes"):
            await client.get(url)
