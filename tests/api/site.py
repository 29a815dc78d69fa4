"""A server in the hands of a test: real HTTP, over a workspace whose model follows a script."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
import uvicorn

from holdfast.api.app import create_app
from holdfast.api.auth.middleware import AuthMiddleware
from holdfast.api.auth.rate_limit import RequestRateLimiter
from holdfast.api.middleware import HostOriginMiddleware
from holdfast.api.uvicorn_protocols import uvicorn_config
from holdfast.bootstrap.holdfast import PrincipalUseCases, make_live_streams
from holdfast.bootstrap.server import open_listener
from holdfast.control.principal import LOCAL_PRINCIPAL
from holdfast.control.streams.live_streams import LiveStreams, StreamLimits
from holdfast.domain.content import Json
from holdfast.domain.ids import RunId
from holdfast.ports.log import LoggedEvent
from holdfast.ports.runtime import Clock
from holdfast.store.store import Store
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace

LIMIT: Final = 30.0
"""Seconds after which something hangs."""


class Site:
    """A server that is up, and a client of it."""

    def __init__(
        self, *, url: str, client: httpx2.AsyncClient, workshop: AgentWorkspace, floor: AgentRuntime, feeds: LiveStreams
    ) -> None:
        self.url = url
        self.host = url.removeprefix("http://")
        self.client = client
        self.workshop = workshop
        self.floor = floor
        self.feeds = feeds

    @property
    def store(self) -> Store:
        """What is kept."""
        return self.floor.store

    async def log(self, run: RunId) -> list[tuple[int, bytes]]:
        """Return the whole log of a run."""
        events: list[LoggedEvent] = []
        while page := await self.store.events.after(SPACE, run, seq=len(events), limit=10_000):
            events += page
        return [(event.seq, event.data) for event in events]

    async def ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request."""
        return await self.client.request(method, path, **options)

    async def get(self, path: str, *, expect: int = 200, **query: Json) -> Json:
        """Read something, and check how it is answered."""
        return _checked(await self.ask("GET", path, params=query or None), expect)

    async def post(self, path: str, body: Json = None, *, expect: int = 201, **options: Any) -> Json:
        """Send something, and check how it is answered."""
        content = {} if body is None else {"json": body}
        return _checked(await self.ask("POST", path, **content, **options), expect)

    async def patch(self, path: str, body: Json, *, expect: int = 200) -> Json:
        """Change something, and check how it is answered."""
        return _checked(await self.ask("PATCH", path, json=body), expect)

    async def delete(self, path: str, *, expect: int = 204) -> Json:
        """Remove something, and check how it is answered."""
        return _checked(await self.ask("DELETE", path), expect)

    async def pages(self, path: str, *, limit: int) -> AsyncIterator[list[Json]]:
        """Go through a list, page by page."""
        query: dict[str, Json] = {"limit": limit}
        while True:
            page = _checked(await self.ask("GET", path, params=query), 200)
            assert set(page) == {"items", "next_cursor"}
            yield page["items"]
            if page["next_cursor"] is None:
                return
            query["cursor"] = page["next_cursor"]

    async def thread(self, **body: Json) -> str:
        """Make a thread of the agent `bot` and return its id."""
        made: str = (await self.post("/api/threads", {"agent_type": "bot", **body}))["id"]
        return made

    async def play(self, thread: str, text: str = "go", **body: Json) -> Json:
        """Start a run, wait for its end, and return it."""
        return await self.post(f"/api/threads/{thread}/runs?wait=30", {"input": text, **body})


@asynccontextmanager
async def served(
    workshop: AgentWorkspace,
    *,
    origins: tuple[str, ...] = (),
    habits: StreamLimits | None = None,
    last_words: int = 1,
    **options: Any,
) -> AsyncIterator[Site]:
    """Serve a workspace while the block runs, to everybody."""
    async with workshop.open(**options) as floor, make_live_streams(floor.holdfast, habits) as feeds:
        control = PrincipalUseCases(floor.holdfast, feeds, version="0").as_principal(LOCAL_PRINCIPAL)
        app = HostOriginMiddleware(create_app(control), origins=origins, meters=floor.holdfast.meters)
        async with _visited(app, workshop, floor, feeds, last_words) as site:
            yield site


@asynccontextmanager
async def guarded(
    workshop: AgentWorkspace,
    *,
    clock: Clock | None = None,
    rates: RequestRateLimiter | None = None,
    most_queued: int | None = None,
    **door: Any,
) -> AsyncIterator[Site]:
    """Serve a workspace behind a door while the block runs: to everybody until there is a key."""
    async with workshop.open() as floor, make_live_streams(floor.holdfast) as feeds:
        controls = PrincipalUseCases(floor.holdfast, feeds, version="0", clock=clock, max_queued_runs=most_queued)
        async with AuthMiddleware(controls.as_principal, controls.authenticator, rate_limiter=rates, **door) as behind:
            app = HostOriginMiddleware(
                create_app(controls.as_principal(LOCAL_PRINCIPAL), auth=behind), meters=floor.holdfast.meters
            )
            async with _visited(app, workshop, floor, feeds) as site:
                yield site


@asynccontextmanager
async def _visited(
    app: HostOriginMiddleware, workshop: AgentWorkspace, floor: AgentRuntime, feeds: LiveStreams, last_words: int = 1
) -> AsyncIterator[Site]:
    async with (
        answering(app, last_words=last_words) as url,
        httpx2.AsyncClient(base_url=url, timeout=LIMIT, trust_env=False) as client,
    ):
        try:
            yield Site(url=url, client=client, workshop=workshop, floor=floor, feeds=feeds)
        finally:
            feeds.close()


@asynccontextmanager
async def answering(app: HostOriginMiddleware, *, last_words: int = 1) -> AsyncIterator[str]:
    """Answer on a free port while the block runs, and yield the address."""
    up = asyncio.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            up.set()

    server = Server(uvicorn_config(app, shutdown_grace_seconds=last_words))
    with open_listener("127.0.0.1", 0) as listener:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server._serve([listener]))
            await up.wait()
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                server.should_exit = True
                await serving  # a test that failed must not leave a server half up for the next


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds that another task brings about."""
    async with asyncio.timeout(LIMIT):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.01)


def _checked(answer: httpx2.Response, expect: int) -> Json:
    assert answer.status_code == expect, f"{answer.status_code} {answer.text}"
    return answer.json() if answer.content else None
