"""How streams end that do not end with their run, and what they outlive."""

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed

from holdfast.api.streams.sse import PING
from holdfast.api.streams.websocket import WebSocketCloseCode
from holdfast.bootstrap import open_store
from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import RunId
from holdfast.domain.run import RunStatus
from tests.api.conftest import write_agents
from tests.api.server_process import Server, run_server
from tests.api.site import Site, eventually, serve
from tests.api.streams.manual_run import ManualRun, start_manual_run, with_timeout
from tests.api.streams.readers import Frame, SseReader, event_of, post, sse, ws
from tests.api.streams.test_handshakes import RIGHT
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
from tests.support.postgres import PostgresServer

OUTAGE: Final = 60.0
"""Seconds after which something hangs that waits for a database."""

LINE: Final = "X: y\r\n"

Seen = list[tuple[int, bytes]]


async def test_a_run_that_is_deleted_while_it_is_replayed_ends_its_stream(site: Site) -> None:
    manual_run = await _long(site)
    async with sse(site.host, f"/api/runs/{manual_run.id}/sse") as stream:
        await site.store.runs.delete(SPACE, manual_run.id)
        frames = await _all(stream)
    assert [frame.id for frame in frames if frame.data] == list(range(1, len(frames) - 2))
    assert [frame.comment for frame in frames[-2:]] == ["gone: the subject of this stream was deleted", None]
    assert (await site.request("GET", f"/api/runs/{manual_run.id}/sse")).status_code == 404


async def test_a_run_that_is_deleted_while_it_is_replayed_closes_its_socket(site: Site) -> None:
    manual_run = await _long(site)
    async with ws(site.host, f"/api/runs/{manual_run.id}/ws") as reader:
        await site.store.runs.delete(SPACE, manual_run.id)
        with pytest.raises(ConnectionClosed):
            while True:
                await with_timeout(reader.recv())
        assert reader.close_code == WebSocketCloseCode.GONE


async def test_streams_outlive_a_restart_of_the_database(own_postgres: PostgresServer, tmp_path: Path) -> None:
    url = await own_postgres.create_database("streams")
    async with serve(write_agents(Workshop(tmp_path / "workspace", url)), workers=0) as site:
        manual_run = await start_manual_run(site.store)
        await manual_run.say("before")
        async with (
            sse(site.host, f"/api/runs/{manual_run.id}/sse") as by_sse,
            ws(site.host, f"/api/runs/{manual_run.id}/ws") as by_ws,
        ):
            await own_postgres.stop()
            await _check_not_ready(site)
            await own_postgres.start()
            await _until_it_answers(lambda: manual_run.say("after"))
            await _until_it_answers(manual_run.finish)
            async with asyncio.timeout(OUTAGE):
                told = [event_of(text) async for text in by_ws if text != PING]
            assert _events(await _all(by_sse)) == told == await site.log(manual_run.id)
        assert await site.get("/ready") == {"status": "ready"}


async def test_a_server_that_is_stopped_lets_readers_go_and_the_next_one_takes_them(tmp_path: Path) -> None:
    database = tmp_path / "holdfast.db"
    steps = [calling(call("log_write", message=f"{n}"), say="and on ", delay_ms=20) for n in range(20)]
    AgentWorkspace(tmp_path / "workspace", database).agent(*steps, say("done"), tools=["log_write"])
    run, seen = RunId("run_1"), Seen()
    with run_server(tmp_path, "--database", str(database)) as server:
        last = await _follow_until_stopped(server, run, seen)
        assert last.comment == "closing: the server is shutting down, reconnect in a moment"
    with run_server(tmp_path, "--database", str(database)) as server:
        async with sse(_host(server), f"/api/runs/{run}/sse", after=len(seen)) as stream:
            seen += _events(await _all(stream))
    async with open_store(database) as store:
        assert (await store.runs.get(SPACE, run)).status is RunStatus.COMPLETED
        assert seen == [(event.seq, event.data) for event in await store.events.after(SPACE, run, limit=10_000)]


async def test_a_server_that_is_stopped_is_held_up_by_nobody_and_leaves_no_errors(tmp_path: Path) -> None:
    async with open_store(tmp_path / "holdfast.db") as store:
        await store.spaces.create(SPACE, name="default")
        manual_run = await start_manual_run(store)
        for _ in range(20):
            await manual_run.say(*10 * ["x" * 50_000])
    with (
        run_server(tmp_path, "--database", str(tmp_path / "holdfast.db"), "--workers", "0") as server,
        ExitStack() as open_,
    ):
        for head in (
            f"GET /api/runs/{manual_run.id}/sse HTTP/1.1\r\n",
            f"GET /api/runs/{manual_run.id}/ws HTTP/1.1\r\n{RIGHT}",
            f"GET /api/runs/{manual_run.id}/ws HTTP/1.1\r\nX: {'x' * 9_000}\r\n{RIGHT}",
            f"GET /api/runs/{manual_run.id}/ws HTTP/1.1\r\n{300 * LINE}{RIGHT}",
            f"POST /api/runs/{manual_run.id}/ws HTTP/1.1\r\nContent-Length: 9\r\n{RIGHT}",
        ):
            asking = open_.enter_context(socket.create_connection(("127.0.0.1", int(server.port))))
            asking.sendall(f"{head}Host: {_host(server)}\r\n\r\n".encode())
            asking.recv(1)  # it is answered, and reads no more of that
        code, log = await asyncio.to_thread(server.stop)
    assert (code, "Traceback" in log, " ERROR " in log) == (0, False, False), log


async def test_who_waits_for_a_run_and_who_is_interrupted_by_a_stop_are_told_so(tmp_path: Path) -> None:
    with run_server(tmp_path, "--workers", "0") as server:
        thread = server.request("/api/threads", {})["id"]
        async with httpx2.AsyncClient(base_url=server.url, timeout=30, trust_env=False) as client:
            asking = asyncio.ensure_future(client.post(f"/api/threads/{thread}/runs?wait=30", json={"input": "hi"}))
            await eventually(lambda: _has_runs(client, thread))
            reader, writer = await asyncio.open_connection(*_host(server).split(":"))
            writer.write(_HALF % _host(server).encode())
            code, log = await asyncio.to_thread(server.stop)
            response = await asking
            interrupted = await with_timeout(reader.read())
            writer.close()
    assert (code, "Traceback" in log) == (0, False), log
    assert (response.status_code, response.json()["status"]) == (201, "queued")
    assert interrupted.startswith(b"HTTP/1.1 503 ") and b'"code":"UNAVAILABLE"' in interrupted


_HALF: Final = b"POST /api/threads HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"


async def _has_runs(client: httpx2.AsyncClient, thread: str) -> bool:
    return bool((await client.get(f"/api/threads/{thread}/runs")).json()["items"])


async def _check_not_ready(site: Site) -> None:
    """Check that a server without its database lives, and says that it can do no work."""
    assert await site.get("/health") == {"status": "ok"}
    assert (await site.get("/ready", expect=503))["error"]["code"] == "UNAVAILABLE"


async def _follow_until_stopped(server: Server, run: RunId, seen: Seen) -> Frame:
    """Start a run, stop the server as soon as it is under way, and return the last that a stream said."""
    host = _host(server)
    assert await post(host, "/api/threads", {"id": "thr_1", "agent_type": "bot"}) == 201
    assert await post(host, "/api/threads/thr_1/runs", {"id": run, "input": "go"}) == 201
    async with sse(host, f"/api/runs/{run}/sse") as by_sse, ws(host, f"/api/runs/{run}/ws") as by_ws:
        await with_timeout(by_ws.recv())
        server.process.send_signal(signal.SIGTERM)
        frames = await _all(by_sse)
        with pytest.raises(ConnectionClosed):
            while True:
                await with_timeout(by_ws.recv())
        assert by_ws.close_code in (WebSocketCloseCode.CLOSING, WebSocketCloseCode.RESTARTING)
    seen += _events(frames)
    return frames[-1]


async def _long(site: Site) -> ManualRun:
    """Complete a run whose log is more than the ways to a reader hold, so that it cannot all be sent at once."""
    manual_run = await start_manual_run(site.store)
    for _ in range(30):
        await manual_run.say(*10 * ["x" * 50_000])
    await manual_run.finish()
    return manual_run


async def _until_it_answers(action: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(OUTAGE):
        while True:
            try:
                return await action()
            except Unavailable:
                await asyncio.sleep(0.05)


async def _all(stream: SseReader) -> list[Frame]:
    """Return all frames to the end of the stream."""
    frames = []
    async with asyncio.timeout(OUTAGE):
        while (frame := await stream.frame()) is not None:
            frames.append(frame)
    return frames


def _events(frames: list[Frame]) -> Seen:
    return [(frame.id or 0, frame.data) for frame in frames if frame.data is not None]


def _host(server: Server) -> str:
    return server.url.removeprefix("http://")
