"""Revoked and expired keys: new requests are refused, and open connections end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from holdfast.api.auth.connections import RECHECK_INTERVAL_SECONDS
from holdfast.api.auth.middleware import REVOKED_COMMENT
from holdfast.control.api_keys import KEY_CACHE_SECONDS
from holdfast.domain.content import Json
from holdfast.domain.instant import Millis, instant
from holdfast.testing.clock import HeldClock
from tests.api.auth.conftest import ACME, AuthSite, bearer, check_status, create_keys
from tests.api.conftest import NewDatabase, write_agents
from tests.api.site import TIMEOUT_SECONDS, Site, serve_with_auth
from tests.scenario.agents.agent_workspace import AgentWorkspace

HOUR: Final = timedelta(hours=1)
USER_MESSAGE: Final = {"id": "m", "role": "user", "content": "go"}


async def start_stalled_run(auth_site: AuthSite, secret: str) -> str:
    """Start a run that does not end by itself, and return its id."""
    thread = (await auth_site.post(secret, "/api/threads", {"agent_type": "staller"}))["id"]
    run: str = (await auth_site.post(secret, f"/api/threads/{thread}/runs", {"input": "go"}))["id"]
    return run


async def revoke(auth_site: AuthSite, key: Json) -> None:
    """Revoke a key."""
    check_status(await auth_site.request(auth_site.root, "DELETE", f"/api/keys/{key['id']}"), 200)


@asynccontextmanager
async def stream(
    auth_site: AuthSite, secret: str, path: str, body: Json = None
) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """Open a stream, and yield a function that reads it to its end."""
    method, options = ("GET", {}) if body is None else ("POST", {"json": body})
    headers = {**bearer(secret), "Accept": "text/event-stream"}
    async with auth_site.site.client.stream(method, path, headers=headers, **options) as response:
        assert response.status_code == 200
        pieces = response.aiter_text()
        first_piece = await anext(pieces)

        async def rest() -> str:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return first_piece + "".join([piece async for piece in pieces])

        yield rest


def open_socket(site: Site, secret: str | None, path: str) -> connect:
    """Open a WebSocket with a key."""
    return connect(f"ws://{site.host}{path}", additional_headers=bearer(secret), proxy=None)


async def wait_until_closed(connection: ClientConnection) -> tuple[int, str]:
    """Read a WebSocket to its end, and return its close code and reason."""
    with pytest.raises(ConnectionClosed) as caught:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                await connection.recv()
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code, caught.value.rcvd.reason


def test_a_revocation_in_another_process_takes_effect_within_a_second() -> None:
    assert KEY_CACHE_SECONDS + RECHECK_INTERVAL_SECONDS < 1


async def test_a_revoked_key_is_refused_at_once_where_it_was_revoked(auth_site: AuthSite) -> None:
    key = await auth_site.key("run", ACME)
    await auth_site.get(key["secret"], "/api/threads")
    await revoke(auth_site, key)
    assert (await auth_site.request(key["secret"], "GET", "/api/threads")).status_code == 401


@pytest.mark.parametrize("path", ["/api/runs/{run}/sse", "/api/notifications/sse", "/api/spaces/acme/feed"])
async def test_a_stream_ends_with_a_reason_when_its_key_is_revoked(auth_site: AuthSite, path: str) -> None:
    key = await auth_site.key("run", ACME)
    run = await start_stalled_run(auth_site, key["secret"])
    async with stream(auth_site, key["secret"], path.format(run=run)) as rest:
        await revoke(auth_site, key)
        assert (await rest()).endswith(": revoked: the key of this stream is no longer valid\n\n")
    await auth_site.post(auth_site.root, f"/api/spaces/{ACME}/runs/{run}/cancel", expect=200)  # the run is still active


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"model": "staller", "messages": [{"role": "user", "content": "go"}], "stream": True}),
        ("/agents/staller/chat", {"message": "go"}),
        ("/api/agents/staller/run", {"threadId": "cut", "runId": "cut", "messages": [USER_MESSAGE]}),
        ("/api/threads/{thread}/runs", {"input": "go"}),
        ("/tasks/{task}/stream", None),
    ],
)
async def test_a_run_continues_after_the_key_of_its_stream_is_revoked(
    auth_site: AuthSite, path: str, body: Json
) -> None:
    key = await auth_site.key("run", ACME)
    thread = (await auth_site.post(key["secret"], "/api/threads", {"agent_type": "staller"}))["id"]
    task = (await auth_site.post(key["secret"], "/agents/staller/task", {"input": "go"}, expect=202))["taskId"]
    async with stream(auth_site, key["secret"], path.format(thread=thread, task=task), body) as rest:
        await revoke(auth_site, key)
        assert (await rest()).endswith(REVOKED_COMMENT.decode())
    live = [
        run
        for run in (await auth_site.get(auth_site.keys["acme run"], "/api/runs"))["items"]
        if run["completed_at"] is None
    ]
    assert {run["created_by"] for run in live} == {key["id"]}
    for run in live:
        await auth_site.post(auth_site.keys["acme run"], f"/api/runs/{run['id']}/cancel", expect=200)


async def test_a_stream_of_another_key_continues(auth_site: AuthSite, acme_key: str) -> None:
    key = await auth_site.key("run", ACME)
    run = await start_stalled_run(auth_site, acme_key)
    async with stream(auth_site, acme_key, f"/api/runs/{run}/sse") as rest:
        async with stream(auth_site, key["secret"], f"/api/runs/{run}/sse") as other:
            await revoke(auth_site, key)
            await other()
        await auth_site.post(acme_key, f"/api/runs/{run}/cancel", expect=200)
        assert '"cancelled"' in await rest()


@pytest.mark.parametrize("path", ["/api/runs/{run}/ws", "/ws"])
async def test_a_socket_is_closed_when_its_key_is_revoked(auth_site: AuthSite, path: str) -> None:
    key = await auth_site.key("run", ACME)
    run = await start_stalled_run(auth_site, key["secret"])
    async with open_socket(auth_site.site, key["secret"], path.format(run=run)) as connection:
        await revoke(auth_site, key)
        assert await wait_until_closed(connection) == (4401, "the key of this socket is no longer valid")
    await auth_site.post(auth_site.root, f"/api/spaces/{ACME}/runs/{run}/cancel", expect=200)


@pytest.mark.parametrize("path", ["/api/runs/{run}/ws", "/ws", "/api/spaces/acme/runs/{run}/ws"])
async def test_a_socket_needs_a_key_of_its_space(auth_site: AuthSite, acme_key: str, path: str) -> None:
    run = await start_stalled_run(auth_site, acme_key)
    for secret, status in ((None, 401), ("hf_wrong", 401)):
        with pytest.raises(InvalidStatus) as caught:
            await open_socket(auth_site.site, secret, path.format(run=run))
        assert caught.value.response.status_code == status
        assert b"UNAUTHENTICATED" in (caught.value.response.body or b"")
    if "{run}" in path:
        with pytest.raises(InvalidStatus) as caught:
            await open_socket(auth_site.site, auth_site.keys["globex admin"], path.format(run=run))
        assert caught.value.response.status_code == 404
    await auth_site.post(acme_key, f"/api/runs/{run}/cancel", expect=200)


async def test_a_waiting_request_gets_401_when_its_key_is_revoked(auth_site: AuthSite) -> None:
    key = await auth_site.key("run", ACME)
    thread = (await auth_site.post(key["secret"], "/api/threads", {"agent_type": "staller"}))["id"]
    path = f"/api/threads/{thread}/runs?wait=300"
    waiting = asyncio.ensure_future(auth_site.request(key["secret"], "POST", path, json={"input": "go"}))
    while not (runs := (await auth_site.get(auth_site.keys["acme read"], f"/api/threads/{thread}/runs"))["items"]):
        pass
    await revoke(auth_site, key)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        assert check_status(await waiting, 401)["error"]["code"] == "UNAUTHENTICATED"
    await auth_site.post(auth_site.root, f"/api/spaces/{ACME}/runs/{runs[0]['id']}/cancel", expect=200)


async def test_an_expired_key_is_refused_and_its_stream_ends(tmp_path: Path) -> None:
    clock = HeldClock()
    workshop = write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    async with serve_with_auth(workshop, clock=clock) as site:
        auth_site = await create_keys(site)
        soon = instant(Millis(clock.now() + HOUR // timedelta(milliseconds=1)))
        key = await auth_site.key("run", ACME, expires_at=soon)
        async with stream(auth_site, key["secret"], "/api/notifications/sse") as rest:
            clock.tick(HOUR)
            assert (await rest()).endswith("is no longer valid\n\n")
        assert (await auth_site.request(key["secret"], "GET", "/api/threads")).status_code == 401


async def test_a_key_revoked_in_another_process_is_refused_and_its_stream_ends(
    tmp_path: Path, new_database: NewDatabase
) -> None:
    url = await new_database()
    async with (
        serve_with_auth(write_agents(AgentWorkspace(tmp_path / "one", url))) as one,
        serve_with_auth(write_agents(AgentWorkspace(tmp_path / "two", url))) as two,
    ):
        await two.get("/api/threads")
        auth_site = await create_keys(one)
        other_site = AuthSite(two, auth_site.root)
        key = await auth_site.key("run", ACME)
        async with stream(other_site, key["secret"], "/api/notifications/sse") as rest:
            await revoke(auth_site, key)
            assert (await rest()).endswith("is no longer valid\n\n")
        assert (await other_site.request(key["secret"], "GET", "/api/threads")).status_code == 401
        assert (await other_site.request(None, "GET", "/api/threads")).status_code == 401


async def test_connections_opened_without_a_key_end_when_the_first_key_is_created(tmp_path: Path) -> None:
    workshop = write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    async with serve_with_auth(workshop) as site:
        open_site = AuthSite(site, "")
        async with (
            stream(open_site, "none needed", "/api/notifications/sse") as rest,
            open_socket(site, None, "/ws") as connection,
        ):
            await create_keys(site)
            assert (await rest()).endswith("is no longer valid\n\n")
            assert (await wait_until_closed(connection))[0] == 4401
