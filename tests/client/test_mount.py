"""`holdfast.asgi`: the API mounted into other frameworks, with its lifespan, its streams and its keys."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from litestar import Litestar
from litestar import asgi as asgi_handler
from litestar.types import Receive, Scope, Send
from starlette.applications import Starlette
from starlette.routing import Mount

import holdfast
from holdfast import AsgiWorkspace, Client, Unavailable
from holdfast.bootstrap.workspace import open_keys
from holdfast.control.api_keys import KeyRequest
from holdfast.control.errors import Unauthenticated
from holdfast.domain.errors import StoreOwned
from holdfast.domain.space import Scope as KeyScope
from holdfast.workspace.folder import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return Workspace.create(tmp_path / "workspace").path


@asynccontextmanager
async def served(app: Any, *, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Serve an app as its user would; yield its URL."""
    with socket.socket() as listener:
        listener.bind((host, 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on"))
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started and not serving.done():  # noqa: ASYNC110  # uvicorn has no event for it
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


def in_starlette(agents: AsgiWorkspace) -> Any:
    return Starlette(routes=[Mount("/agents", app=agents)], lifespan=agents.lifespan)


def in_fastapi(agents: AsgiWorkspace) -> Any:
    app = FastAPI(lifespan=agents.lifespan)
    app.mount("/agents", agents)
    return app


def in_litestar(agents: AsgiWorkspace) -> Any:
    @asgi_handler("/agents", is_mount=True, copy_scope=True)
    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        await agents(scope, receive, send)

    return Litestar([mounted], lifespan=[agents.lifespan])


def alone(agents: AsgiWorkspace) -> Any:
    return agents


@pytest.mark.parametrize("mount", [in_starlette, in_fastapi, in_litestar, alone])
async def test_a_client_uses_a_mounted_workspace(workspace: Path, mount: Any) -> None:
    path = "" if mount is alone else "/agents"
    async with served(mount(holdfast.asgi(workspace))) as url, Client(f"{url}{path}") as hf:
        assert "good morning" in str(await hf.ask("hello", "good morning"))
        run = await hf.start("hello", "and a stream")
        assert [event.type async for event in run.stream()][-1] == "RUN_FINISHED"
        with pytest.raises(holdfast.NotFound):
            await hf.threads.get("thr_none")


async def test_the_outer_app_uses_the_python_api(workspace: Path) -> None:
    agents = holdfast.asgi(workspace)
    app = FastAPI(lifespan=agents.lifespan)

    @app.get("/ask")
    async def ask(question: str) -> str:
        return str(await agents.client.ask("hello", question))

    async with served(app) as url, httpx2.AsyncClient() as http:
        assert "what now" in (await http.get(f"{url}/ask", params={"question": "what now"})).text
    with pytest.raises(Unavailable, match="lifespan=agents.lifespan"):
        _ = agents.client


async def test_a_workspace_that_is_not_open_says_what_is_missing(workspace: Path) -> None:
    app = Starlette(routes=[Mount("/agents", app=holdfast.asgi(workspace))])
    async with served(app) as url, httpx2.AsyncClient() as http:
        response = await http.get(f"{url}/agents/api/agents")
    assert response.status_code == 503
    assert "pass `lifespan=agents.lifespan`" in response.json()["error"]["message"]


async def test_a_second_process_on_sqlite_is_told_what_to_do(workspace: Path) -> None:
    async with holdfast.asgi(workspace).lifespan():
        with pytest.raises(StoreOwned, match="one worker process, or pass a PostgreSQL `database`"):
            async with holdfast.asgi(workspace).lifespan():
                pass


async def test_hosts_must_be_allowed(workspace: Path) -> None:
    async with (
        served(holdfast.asgi(workspace, allow_hosts=["agents.example.org"])) as url,
        httpx2.AsyncClient() as http,
    ):
        named = {
            name: (await http.get(f"{url}/api/agents", headers={"Host": name})).status_code
            for name in ("agents.example.org", "evil.example")
        }
    assert named == {"agents.example.org": 200, "evil.example": 403}


async def get_agents(agents: AsgiWorkspace, *, server: str, key: str | None = None) -> int:
    """Request the agents at an address of this machine; return the status."""
    started: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            started.append(message["status"])

    headers = [(b"host", b"localhost")] + ([] if key is None else [(b"authorization", f"Bearer {key}".encode())])
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/api/agents",
        "query_string": b"",
        "headers": headers,
        "server": (server, 80),
        "client": ("192.0.2.7", 1),
    }
    await agents(scope, receive, send)
    return started[0]


async def test_beyond_this_machine_a_key_is_needed(workspace: Path) -> None:
    agents = holdfast.asgi(workspace)
    async with agents.lifespan():
        assert await get_agents(agents, server="127.0.0.1") == 200
        assert await get_agents(agents, server="192.0.2.1") == 401
    open_to_all = holdfast.asgi(workspace, require_key=False)
    async with open_to_all.lifespan():
        assert await get_agents(open_to_all, server="192.0.2.1") == 200
    async with open_keys(workspace) as admin:
        key = (await admin.create(KeyRequest(name="app", scope=KeyScope.RUN))).secret
    agents = holdfast.asgi(workspace)
    async with agents.lifespan():
        assert await get_agents(agents, server="127.0.0.1") == 401
        assert await get_agents(agents, server="192.0.2.1", key=key) == 200
        assert [agent.name async for agent in agents.client.agents.list()] == [
            "analyst",
            "assistant",
            "coder",
            "hello",
            "monitor",
            "researcher",
            "writer",
        ]


async def test_a_key_can_be_required_on_this_machine_too(workspace: Path) -> None:
    async with served(holdfast.asgi(workspace, require_key=True)) as url, Client(url) as hf:
        with pytest.raises(Unauthenticated):
            await hf.ask("hello", "let me in")
