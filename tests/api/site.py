"""A server that a test controls: real HTTP over a workspace whose model follows a script."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import httpx2
import uvicorn

from holdfast.api.app import create_app
from holdfast.api.auth.middleware import AuthMiddleware
from holdfast.api.auth.rate_limit import RequestRateLimiter
from holdfast.api.middleware import HostOriginMiddleware
from holdfast.api.uvicorn_protocols import uvicorn_config
from holdfast.bootstrap.server import open_listener
from holdfast.bootstrap.use_cases import PrincipalUseCases, make_live_streams
from holdfast.control.principal import LOCAL_PRINCIPAL
from holdfast.control.streams.live_streams import LiveStreams, StreamLimits
from holdfast.domain.content import Json
from holdfast.domain.ids import RunId
from holdfast.ports.log import LoggedEvent
from holdfast.ports.runtime import Clock
from holdfast.store.store import Store
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace

TIMEOUT_SECONDS: Final = 30.0
CLOSING_TURNS: Final = 10
"""Turns of the event loop in which a server notices the connections that its clients have closed."""
DRAIN: Final = timedelta(seconds=1)
"""Tests leave runs behind that would go on for minutes."""
"""Seconds after which a test counts as hanging."""


class Site:
    """A running server and an HTTP client for it."""

    def __init__(
        self,
        *,
        url: str,
        client: httpx2.AsyncClient,
        workshop: AgentWorkspace,
        floor: AgentRuntime,
        streams: LiveStreams,
    ) -> None:
        self.url = url
        self.host = url.removeprefix("http://")
        self.client = client
        self.workshop = workshop
        self.floor = floor
        self.streams = streams

    @property
    def store(self) -> Store:
        """The store of the server."""
        return self.floor.store

    async def log(self, run: RunId) -> list[tuple[int, bytes]]:
        """Return the whole log of a run."""
        events: list[LoggedEvent] = []
        while page := await self.store.events.after(SPACE, run, seq=len(events), limit=10_000):
            events += page
        return [(event.seq, event.data) for event in events]

    async def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request."""
        return await self.client.request(method, path, **options)

    async def get(self, path: str, *, expect: int = 200, **query: Json) -> Json:
        """Send a GET request, check the status and return the body."""
        return _check_status(await self.request("GET", path, params=query or None), expect)

    async def post(self, path: str, body: Json = None, *, expect: int = 201, **options: Any) -> Json:
        """Send a POST request, check the status and return the body."""
        content = {} if body is None else {"json": body}
        return _check_status(await self.request("POST", path, **content, **options), expect)

    async def patch(self, path: str, body: Json, *, expect: int = 200) -> Json:
        """Send a PATCH request, check the status and return the body."""
        return _check_status(await self.request("PATCH", path, json=body), expect)

    async def delete(self, path: str, *, expect: int = 204) -> Json:
        """Send a DELETE request, check the status and return the body."""
        return _check_status(await self.request("DELETE", path), expect)

    async def pages(self, path: str, *, limit: int) -> AsyncIterator[list[Json]]:
        """Yield the items of each page of a list."""
        query: dict[str, Json] = {"limit": limit}
        while True:
            page = _check_status(await self.request("GET", path, params=query), 200)
            assert set(page) == {"items", "next_cursor"}
            yield page["items"]
            if page["next_cursor"] is None:
                return
            query["cursor"] = page["next_cursor"]

    async def thread(self, **body: Json) -> str:
        """Create a thread of the agent `bot` and return its id."""
        thread: str = (await self.post("/api/threads", {"agent_type": "bot", **body}))["id"]
        return thread

    async def play(self, thread: str, text: str = "go", **body: Json) -> Json:
        """Start a run, wait until it ends or waits, and return it."""
        return await self.post(f"/api/threads/{thread}/runs?wait=30", {"input": text, **body})


@asynccontextmanager
async def serve(
    workshop: AgentWorkspace,
    *,
    origins: tuple[str, ...] = (),
    limits: StreamLimits | None = None,
    shutdown_grace_seconds: int = 1,
    **options: Any,
) -> AsyncIterator[Site]:
    """Serve a workspace without authentication while the block runs."""
    async with (
        workshop.open(**{"drain": DRAIN, **options}) as floor,
        make_live_streams(floor.holdfast, limits) as streams,
    ):
        control = PrincipalUseCases(floor.holdfast, streams, version="0").as_principal(LOCAL_PRINCIPAL)
        app = HostOriginMiddleware(create_app(control), origins=origins, meters=floor.holdfast.meters)
        async with _open_site(app, workshop, floor, streams, shutdown_grace_seconds) as site:
            yield site


@asynccontextmanager
async def serve_with_auth(
    workshop: AgentWorkspace,
    *,
    clock: Clock | None = None,
    rate_limiter: RequestRateLimiter | None = None,
    max_queued_runs: int | None = None,
    **auth_options: Any,
) -> AsyncIterator[Site]:
    """Serve a workspace with authentication while the block runs; no key is needed until one exists."""
    async with workshop.open(drain=DRAIN) as floor, make_live_streams(floor.holdfast) as streams:
        use_cases = PrincipalUseCases(
            floor.holdfast, streams, version="0", clock=clock, max_queued_runs=max_queued_runs
        )
        async with AuthMiddleware(
            use_cases.as_principal,
            use_cases.authenticator,
            use_cases.ticket_authenticator,
            rate_limiter=rate_limiter,
            **auth_options,
        ) as auth:
            app = HostOriginMiddleware(
                create_app(use_cases.as_principal(LOCAL_PRINCIPAL), auth=auth), meters=floor.holdfast.meters
            )
            async with _open_site(app, workshop, floor, streams) as site:
                yield site


@asynccontextmanager
async def _open_site(
    app: HostOriginMiddleware,
    workshop: AgentWorkspace,
    floor: AgentRuntime,
    streams: LiveStreams,
    shutdown_grace_seconds: int = 1,
) -> AsyncIterator[Site]:
    async with (
        serve_app(app, shutdown_grace_seconds=shutdown_grace_seconds) as url,
        httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_SECONDS, trust_env=False) as client,
    ):
        try:
            yield Site(url=url, client=client, workshop=workshop, floor=floor, streams=streams)
        finally:
            streams.close()


@asynccontextmanager
async def serve_app(app: HostOriginMiddleware, *, shutdown_grace_seconds: int = 1) -> AsyncIterator[str]:
    """Serve an app on a free port while the block runs, and yield its URL."""
    up = asyncio.Event()

    leave = asyncio.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            up.set()

        async def main_loop(self) -> None:
            """End at once: uvicorn's own loop looks ten times a second whether it should."""
            ticks = tasks.create_task(super().main_loop())
            await leave.wait()
            ticks.cancel()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Leave out the pauses of uvicorn's shutdown if nobody is connected."""
            for _ in range(CLOSING_TURNS):
                await asyncio.sleep(0)
            if self.server_state.connections or self.server_state.tasks:
                await super().shutdown(sockets)
            for listening in self.servers:
                listening.close()

    server = Server(uvicorn_config(app, shutdown_grace_seconds=shutdown_grace_seconds))
    with open_listener("127.0.0.1", 0) as listener:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server._serve([listener]))
            await up.wait()
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                leave.set()
                await serving  # a test that failed must not leave a server half up for the next


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds that another task brings about."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.01)


def _check_status(response: httpx2.Response, expect: int) -> Json:
    assert response.status_code == expect, f"{response.status_code} {response.text}"
    return response.json() if response.content else None
