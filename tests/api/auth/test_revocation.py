"""A key that is revoked, or has expired, opens nothing: not the next request, and not what is open already."""

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
from tests.api.auth.conftest import OURS, House, bearer, checked, furnish
from tests.api.conftest import NewDatabase, fill
from tests.api.site import LIMIT, Site, guarded
from tests.scenario.agents.agent_workspace import AgentWorkspace

HOUR: Final = timedelta(hours=1)
SAID: Final = {"id": "m", "role": "user", "content": "go"}


async def busy(house: House, secret: str) -> str:
    """Start a run that goes on until somebody ends it, and return its id."""
    thread = (await house.post(secret, "/api/threads", {"agent_type": "staller"}))["id"]
    run: str = (await house.post(secret, f"/api/threads/{thread}/runs", {"input": "go"}))["id"]
    return run


async def revoke(house: House, key: Json) -> None:
    """Revoke a key."""
    checked(await house.ask(house.root, "DELETE", f"/api/keys/{key['id']}"), 200)


@asynccontextmanager
async def stream(
    house: House, secret: str, path: str, body: Json = None
) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """Open a stream, and yield what reads it to its end."""
    method, sent = ("GET", {}) if body is None else ("POST", {"json": body})
    headers = {**bearer(secret), "Accept": "text/event-stream"}
    async with house.site.client.stream(method, path, headers=headers, **sent) as answer:
        assert answer.status_code == 200
        pieces = answer.aiter_text()
        begun = await anext(pieces)

        async def rest() -> str:
            async with asyncio.timeout(LIMIT):
                return begun + "".join([piece async for piece in pieces])

        yield rest


def socket(site: Site, secret: str | None, path: str) -> connect:
    """Dial a socket with a key."""
    return connect(f"ws://{site.host}{path}", additional_headers=bearer(secret), proxy=None)


async def closed(connection: ClientConnection) -> tuple[int, str]:
    """Read a socket to its end, and return why it ended."""
    with pytest.raises(ConnectionClosed) as caught:
        async with asyncio.timeout(LIMIT):
            while True:
                await connection.recv()
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code, caught.value.rcvd.reason


def test_a_key_that_is_revoked_elsewhere_and_what_it_has_open_are_over_within_a_second() -> None:
    assert KEY_CACHE_SECONDS + RECHECK_INTERVAL_SECONDS < 1


async def test_a_revoked_key_is_refused_at_once_where_it_was_revoked(house: House) -> None:
    key = await house.key("run", OURS)
    await house.get(key["secret"], "/api/threads")
    await revoke(house, key)
    assert (await house.ask(key["secret"], "GET", "/api/threads")).status_code == 401


@pytest.mark.parametrize("path", ["/api/runs/{run}/sse", "/api/notifications/sse", "/api/spaces/acme/feed"])
async def test_a_stream_ends_when_its_key_is_revoked_and_says_why(house: House, path: str) -> None:
    key = await house.key("run", OURS)
    run = await busy(house, key["secret"])
    async with stream(house, key["secret"], path.format(run=run)) as rest:
        await revoke(house, key)
        assert (await rest()).endswith(": revoked: the key of this stream is no longer valid\n\n")
    await house.post(house.root, f"/api/spaces/{OURS}/runs/{run}/cancel", expect=200)  # it went on


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"model": "staller", "messages": [{"role": "user", "content": "go"}], "stream": True}),
        ("/agents/staller/chat", {"message": "go"}),
        ("/api/agents/staller/run", {"threadId": "cut", "runId": "cut", "messages": [SAID]}),
        ("/api/threads/{thread}/runs", {"input": "go"}),
        ("/tasks/{task}/stream", None),
    ],
)
async def test_a_run_that_is_streamed_to_a_key_goes_on_without_it(house: House, path: str, body: Json) -> None:
    key = await house.key("run", OURS)
    thread = (await house.post(key["secret"], "/api/threads", {"agent_type": "staller"}))["id"]
    task = (await house.post(key["secret"], "/agents/staller/task", {"input": "go"}, expect=202))["taskId"]
    async with stream(house, key["secret"], path.format(thread=thread, task=task), body) as rest:
        await revoke(house, key)
        assert (await rest()).endswith(REVOKED_COMMENT.decode())
    live = [
        run for run in (await house.get(house.keys["acme run"], "/api/runs"))["items"] if run["completed_at"] is None
    ]
    assert {run["created_by"] for run in live} == {key["id"]}
    for run in live:
        await house.post(house.keys["acme run"], f"/api/runs/{run['id']}/cancel", expect=200)


async def test_a_stream_of_a_key_that_stays_goes_on(house: House, ours: str) -> None:
    key = await house.key("run", OURS)
    run = await busy(house, ours)
    async with stream(house, ours, f"/api/runs/{run}/sse") as rest:
        async with stream(house, key["secret"], f"/api/runs/{run}/sse") as other:
            await revoke(house, key)
            await other()
        await house.post(ours, f"/api/runs/{run}/cancel", expect=200)
        assert '"cancelled"' in await rest()


@pytest.mark.parametrize("path", ["/api/runs/{run}/ws", "/ws"])
async def test_a_socket_is_closed_when_its_key_is_revoked(house: House, path: str) -> None:
    key = await house.key("run", OURS)
    run = await busy(house, key["secret"])
    async with socket(house.site, key["secret"], path.format(run=run)) as connection:
        await revoke(house, key)
        assert await closed(connection) == (4401, "the key of this socket is no longer valid")
    await house.post(house.root, f"/api/spaces/{OURS}/runs/{run}/cancel", expect=200)


@pytest.mark.parametrize("path", ["/api/runs/{run}/ws", "/ws", "/api/spaces/acme/runs/{run}/ws"])
async def test_a_socket_needs_a_key_of_its_space_like_everything_else(house: House, ours: str, path: str) -> None:
    run = await busy(house, ours)
    for secret, status in ((None, 401), ("hf_wrong", 401)):
        with pytest.raises(InvalidStatus) as caught:
            await socket(house.site, secret, path.format(run=run))
        assert caught.value.response.status_code == status
        assert b"UNAUTHENTICATED" in (caught.value.response.body or b"")
    if "{run}" in path:
        with pytest.raises(InvalidStatus) as caught:
            await socket(house.site, house.keys["globex admin"], path.format(run=run))
        assert caught.value.response.status_code == 404
    await house.post(ours, f"/api/runs/{run}/cancel", expect=200)


async def test_who_waits_for_a_run_is_told_that_the_key_is_gone(house: House) -> None:
    key = await house.key("run", OURS)
    thread = (await house.post(key["secret"], "/api/threads", {"agent_type": "staller"}))["id"]
    path = f"/api/threads/{thread}/runs?wait=300"
    waiting = asyncio.ensure_future(house.ask(key["secret"], "POST", path, json={"input": "go"}))
    while not (runs := (await house.get(house.keys["acme read"], f"/api/threads/{thread}/runs"))["items"]):
        pass
    await revoke(house, key)
    async with asyncio.timeout(LIMIT):
        assert checked(await waiting, 401)["error"]["code"] == "UNAUTHENTICATED"
    await house.post(house.root, f"/api/spaces/{OURS}/runs/{runs[0]['id']}/cancel", expect=200)


async def test_a_key_that_expires_is_refused_and_cut_off(tmp_path: Path) -> None:
    clock = HeldClock()
    workshop = fill(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    async with guarded(workshop, clock=clock) as site:
        house = await furnish(site)
        soon = instant(Millis(clock.now() + HOUR // timedelta(milliseconds=1)))
        key = await house.key("run", OURS, expires_at=soon)
        async with stream(house, key["secret"], "/api/notifications/sse") as rest:
            clock.tick(HOUR)
            assert (await rest()).endswith("is no longer valid\n\n")
        assert (await house.ask(key["secret"], "GET", "/api/threads")).status_code == 401


async def test_a_key_that_another_process_revokes_is_refused_and_cut_off(
    tmp_path: Path, new_database: NewDatabase
) -> None:
    url = await new_database()
    async with (
        guarded(fill(AgentWorkspace(tmp_path / "one", url))) as one,
        guarded(fill(AgentWorkspace(tmp_path / "two", url))) as two,
    ):
        await two.get("/api/threads")
        house = await furnish(one)
        elsewhere = House(two, house.root)
        key = await house.key("run", OURS)
        async with stream(elsewhere, key["secret"], "/api/notifications/sse") as rest:
            await revoke(house, key)
            assert (await rest()).endswith("is no longer valid\n\n")
        assert (await elsewhere.ask(key["secret"], "GET", "/api/threads")).status_code == 401
        assert (await elsewhere.ask(None, "GET", "/api/threads")).status_code == 401


async def test_what_was_opened_without_a_key_ends_when_there_is_one(tmp_path: Path) -> None:
    workshop = fill(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    async with guarded(workshop) as site:
        early = House(site, "")
        async with (
            stream(early, "none needed", "/api/notifications/sse") as rest,
            socket(site, None, "/ws") as connection,
        ):
            await furnish(site)
            assert (await rest()).endswith("is no longer valid\n\n")
            assert (await closed(connection))[0] == 4401
