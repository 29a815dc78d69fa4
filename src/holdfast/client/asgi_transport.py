"""Requests to an ASGI app in the same process, with responses that stream: no socket, no server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import httpx2

from holdfast.concurrency import cancel_and_wait, start_background

MAX_QUEUED_MESSAGES: Final = 64
"""Parts of a response that the app may send before the client reads them."""


class AsgiTransport(httpx2.AsyncBaseTransport):
    """Calls an app for each request; closing a response disconnects it."""

    def __init__(self, app: Callable[[Any, Any, Any], Awaitable[None]]) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Call the app, and return the response as soon as it starts."""
        exchange = _Exchange(await request.aread())
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.url.scheme,
            "path": request.url.path,
            "raw_path": request.url.raw_path.partition(b"?")[0],
            "query_string": request.url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "server": (request.url.host, request.url.port),
            "client": ("127.0.0.1", 0),
            "state": {},
        }
        exchange.start(self._app(scope, exchange.receive, exchange.send))
        try:
            start = await exchange.next()
        except BaseException:
            await exchange.aclose()
            raise
        if start is None or start["type"] != "http.response.start":
            raise httpx2.RemoteProtocolError("the app sent no response")
        return httpx2.Response(start["status"], headers=start["headers"], stream=_ResponseBody(exchange))


class _Exchange:
    """One request to the app, and the messages of its response."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(MAX_QUEUED_MESSAGES)
        self._disconnected = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, call: Awaitable[None]) -> None:
        """Start the app; its error ends the response."""

        async def run() -> None:
            try:
                await call
            finally:
                await self._messages.put(None)

        self._task = start_background(run(), name="holdfast-embedded-request", ended_by="_Exchange.aclose")

    async def receive(self) -> dict[str, Any]:
        """Give the app the request, then nothing until the client is gone."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        """Take a message of the app."""
        await self._messages.put(message)

    async def next(self) -> dict[str, Any] | None:
        """Return the next message; null when the app has ended. Its error is raised."""
        message = await self._messages.get()
        if message is None and self._task is not None:
            await self._task
        return message

    async def aclose(self) -> None:
        """Disconnect, and end the app's call."""
        self._disconnected.set()
        if self._task is not None and not self._task.done():
            await cancel_and_wait([self._task])


class _ResponseBody(httpx2.AsyncByteStream):
    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self._exchange.next()) is not None:
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                return

    async def aclose(self) -> None:
        await self._exchange.aclose()
