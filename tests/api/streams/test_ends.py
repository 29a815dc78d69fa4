"""Streams that end before their run, and streams that survive a restart."""

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
from tests.api.streams.test_handshakes import VALID_HEADERS
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
from tests.support.postgres import PostgresServer

OUTAGE_TIMEOUT_SECONDS: Final = 60.0
"""Seconds after which waiting for a database counts as hanging."""

LINE: Final = "X: y\r\n"

Events = list[tuple[int, bytes]]


async def test_deleting_a_run_during_its_replay_ends_its_stream(site: Site) -> None:
    manual_run = await _long_run(site)
    async with sse(site.host, f"/api/runs/{manual_run.id}/sse") as stream:
        await site.store.runs.delete(SPACE, manual_run.id)
        frames = await _all_frames(stream)
    assert [frame.id for frame in frames if frame.data] == list(range(1, len(frames) - 2))
    assert [frame.comment for frame in frames[-2:]] == ["gone: the subject of this stream was deleted", None]
    assert (await site.request("GET", f"/api/runs/{manual_run.id}/sse")).status_code == 404


async def test_deleting_a_run_during_its_replay_closes_its_socket(site: Site) -> None:
    manual_run = await _long_run(site)
    async with ws(site.host, f"/api/runs/{manual_run.id}/ws") as reader:
        await site.store.runs.delete(SPACE, manual_run.id)
        with pytest.raises(ConnectionClosed):
            while True:
                await with_timeout(reader.recv())
        assert reader.close_code == WebSocketCloseCode.GONE


async def test_streams_survive_a_restart_of_the_database(own_postgres: PostgresServer, tmp_path: Path) -> None:
    url = await own_postgres.create_database("streams")
    async with serve(write_agents(AgentWorkspace(tmp_path / "workspace", url)), workers=0) as site:
        manual_run = await start_manual_run(site.store)
        await manual_run.say("before")
        async with (
            sse(site.host, f"/api/runs/{manual_run.id}/sse") as by_sse,
            ws(site.host, f"/api/runs/{manual_run.id}/ws") as by_ws,
        ):
            await own_postgres.stop()
            await _check_not_ready(site)
            await own_postgres.start()
            await _retry_until_available(lambda: manual_run.say("after"))
            await _retry_until_available(manual_run.finish)
            async with asyncio.timeout(OUTAGE_TIMEOUT_SECONDS):
                received = [event_of(text) async for text in by_ws if text != PING]
            assert _events_of(await _all_frames(by_sse)) == received == await site.log(manual_run.id)

        async def ready() -> bool:  # a failed check is remembered for a moment
            return (await site.request("GET", "/ready")).status_code == 200

        await eventually(ready)


async def test_a_stopping_server_ends_its_streams_and_the_next_one_resumes_them(tmp_path: Path) -> None:
    database = tmp_path / "holdfast.db"
    steps = [calling(call("log_write", message=f"{n}"), say="and on ", delay_ms=20) for n in range(20)]
    AgentWorkspace(tmp_path / "workspace", database).agent(*steps, say("done"), tools=["log_write"])
    run, events = RunId("run_1"), Events()
    with run_server(tmp_path, "--database", str(database)) as server:
        last = await _follow_until_stopped(server, run, events)
        assert last.comment == "closing: the server is shutting down, reconnect in a moment"
    with run_server(tmp_path, "--database", str(database)) as server:
        async with sse(_host(server), f"/api/runs/{run}/sse", after=len(events)) as stream:
            events += _events_of(await _all_frames(stream))
    async with open_store(database) as store:
        assert (await store.runs.get(SPACE, run)).status is RunStatus.COMPLETED
        assert events == [(event.seq, event.data) for event in await store.events.after(SPACE, run, limit=10_000)]


async def test_no_connection_delays_a_stop_or_causes_an_error(tmp_path: Path) -> None:
    async with open_store(tmp_path / "holdfast.db") as store:
        await store.spaces.create(SPACE, name="default")
        manual_run = await start_manual_run(store)
        for _ in range(20):
            await manual_run.say(*10 * ["x" * 50_000])
    with (
        run_server(tmp_path, "--database", str(tmp_path / "holdfast.db"), "--workers", "0") as server,
        ExitStack() as connections,
    ):
        for head in (
            f"GET /api/runs/{manual_run.id}/sse HTTP/1.1\r\n",
            f"GET /api/runs/{manual_run.id}/ws HTTP/1.1\r\n{VALID_HEADERS}",
            f"GET /api/runs/{manual_run.id}/ws HTTP/1.1\r\nX: {'x' * 9_000}\r\n{VALID_HEADERS}",
            f"GET /api/runs/{manual_run.id}/ws HTTP/1.1\r\n{300 * LINE}{VALID_HEADERS}",
            f"POST /api/runs/{manual_run.id}/ws HTTP/1.1\r\nContent-Length: 9\r\n{VALID_HEADERS}",
        ):
            pending_request = connections.enter_context(socket.create_connection(("127.0.0.1", int(server.port))))
            pending_request.sendall(f"{head}Host: {_host(server)}\r\n\r\n".encode())
            pending_request.recv(1)  # the response has started; the client reads no further
        code, log = await asyncio.to_thread(server.stop)
    assert (code, "Traceback" in log, " ERROR " in log) == (0, False, False), log


async def test_waiting_and_incomplete_requests_get_a_response_when_the_server_stops(tmp_path: Path) -> None:
    with run_server(tmp_path, "--workers", "0") as server:
        thread = server.request("/api/threads", {})["id"]
        async with httpx2.AsyncClient(base_url=server.url, timeout=30, trust_env=False) as client:
            pending_request = asyncio.ensure_future(
                client.post(f"/api/threads/{thread}/runs?wait=30", json={"input": "hi"})
            )
            await eventually(lambda: _has_runs(client, thread))
            reader, writer = await asyncio.open_connection(*_host(server).split(":"))
            writer.write(_INCOMPLETE_REQUEST % _host(server).encode())
            code, log = await asyncio.to_thread(server.stop)
            response = await pending_request
            interrupted = await with_timeout(reader.read())
            writer.close()
    assert (code, "Traceback" in log) == (0, False), log
    assert (response.status_code, response.json()["status"]) == (201, "queued")
    assert interrupted.startswith(b"HTTP/1.1 503 ") and b'"code":"UNAVAILABLE"' in interrupted


_INCOMPLETE_REQUEST: Final = (
    b"POST /api/threads HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
)


async def _has_runs(client: httpx2.AsyncClient, thread: str) -> bool:
    return bool((await client.get(f"/api/threads/{thread}/runs")).json()["items"])


async def _check_not_ready(site: Site) -> None:
    """Check that a server without its database is alive but not ready."""
    assert await site.get("/health") == {"status": "ok"}
    assert (await site.get("/ready", expect=503))["error"]["code"] == "UNAVAILABLE"


async def _follow_until_stopped(server: Server, run: RunId, events: Events) -> Frame:
    """Start a run, stop the server as soon as the run has started, and return the last frame of the stream."""
    host = _host(server)
    assert await post(host, "/api/threads", {"id": "thr_1", "agent_type": "bot"}) == 201
    assert await post(host, "/api/threads/thr_1/runs", {"id": run, "input": "go"}) == 201
    async with sse(host, f"/api/runs/{run}/sse") as by_sse, ws(host, f"/api/runs/{run}/ws") as by_ws:
        await with_timeout(by_ws.recv())
        server.process.send_signal(signal.SIGTERM)
        frames = await _all_frames(by_sse)
        with pytest.raises(ConnectionClosed):
            while True:
                await with_timeout(by_ws.recv())
        assert by_ws.close_code in (WebSocketCloseCode.CLOSING, WebSocketCloseCode.RESTARTING)
    events += _events_of(frames)
    return frames[-1]


async def _long_run(site: Site) -> ManualRun:
    """Complete a run whose log is larger than the buffers between server and client, so that it is not sent at once."""
    manual_run = await start_manual_run(site.store)
    for _ in range(30):
        await manual_run.say(*10 * ["x" * 50_000])
    await manual_run.finish()
    return manual_run


async def _retry_until_available(action: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(OUTAGE_TIMEOUT_SECONDS):
        while True:
            try:
                return await action()
            except Unavailable:
                await asyncio.sleep(0.05)


async def _all_frames(stream: SseReader) -> list[Frame]:
    """Return all frames to the end of the stream."""
    frames = []
    async with asyncio.timeout(OUTAGE_TIMEOUT_SECONDS):
        while (frame := await stream.frame()) is not None:
            frames.append(frame)
    return frames


def _events_of(frames: list[Frame]) -> Events:
    return [(frame.id or 0, frame.data) for frame in frames if frame.data is not None]


def _host(server: Server) -> str:
    return server.url.removeprefix("http://")
