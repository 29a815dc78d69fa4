"""A server that is an address: streamable HTTP, with an end to what it may answer."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

LARGEST: Final = 16 * 1024 * 1024
"""Bytes of one answer, or of all that comes on one stream."""
CONNECTING: Final = 15.0
"""Seconds."""


class _Counted(httpx2.AsyncByteStream):
    """A body that ends in an error when it is too long."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._body:
            size += len(piece)
            if size > LARGEST:
                raise httpx2.StreamError(f"the answer is longer than {LARGEST} bytes")
            yield piece

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._body.aclose()


class _Bounded(httpx2.AsyncHTTPTransport):
    """Requests whose answers have an end. No proxy of the environment is used."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Counted(response.stream)
        return response


@asynccontextmanager
async def address_transport(url: str, headers: Mapping[str, str]) -> AsyncIterator[TransportStreams]:
    """Talk with a server while the block runs."""
    async with (
        bounded_client(headers) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=LARGEST) as streams,
    ):
        yield streams


def bounded_client(headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """Return what makes requests. A server may stay silent: how long is a matter of each call."""
    timeout = httpx2.Timeout(CONNECTING, read=None)
    return httpx2.AsyncClient(headers=dict(headers), timeout=timeout, transport=_Bounded())
