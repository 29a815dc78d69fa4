"""The log of a run over a WebSocket."""

import asyncio
from contextlib import suppress

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, InvalidStatus

from holdfast.api.streams.sse import PING, PONG
from holdfast.api.streams.websocket import WebSocketCloseCode
from holdfast.control.streams.live_streams import StreamLimits
from tests.api.site import TIMEOUT_SECONDS, Site, serve
from tests.api.streams.manual_run import start_manual_run, with_timeout
from tests.api.streams.readers import ws
from tests.scenario.agents.agent_workspace import AgentWorkspace


async def test_each_event_is_a_message_and_the_end_of_the_run_closes_the_socket(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    async with ws(site.host, f"/api/runs/{manual_run.id}/ws") as stream:
        first = msgspec.json.decode(await with_timeout(stream.recv()))
        assert list(first) == ["type", "seq", "data"]
        assert (first["type"], first["seq"], first["data"]["type"]) == ("RUN_STARTED", 1, "RUN_STARTED")
        await manual_run.say(*"abc")
        await manual_run.finish()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            received = [msgspec.json.decode(text) async for text in stream]
        assert [each["seq"] for each in received] == list(range(2, len(received) + 2))
        assert (stream.close_code, stream.close_reason) == (WebSocketCloseCode.ENDED, "the run has ended")


@pytest.mark.parametrize("message", ["ping", PING, '{"type": "ping"}'])
async def test_a_ping_is_answered(site: Site, message: str) -> None:
    manual_run = await start_manual_run(site.store)
    async with ws(site.host, f"/api/runs/{manual_run.id}/ws?last_event_id=1") as stream:
        await stream.send(message)
        assert await with_timeout(stream.recv()) == PONG


@pytest.mark.parametrize("message", ["hello", '{"type":"subscribe"}', b"ping", ""])
async def test_anything_else_closes_the_socket(site: Site, message: str | bytes) -> None:
    manual_run = await start_manual_run(site.store)
    async with ws(site.host, f"/api/runs/{manual_run.id}/ws?last_event_id=1") as stream:
        await stream.send(message)
        with pytest.raises(ConnectionClosed):
            await with_timeout(stream.recv())
        assert stream.close_code == WebSocketCloseCode.UNSUPPORTED


async def test_a_silent_socket_is_pinged(workshop: AgentWorkspace) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(keepalive_seconds=0.03)) as site:
        manual_run = await start_manual_run(site.store)
        async with ws(site.host, f"/api/runs/{manual_run.id}/ws?last_event_id=1") as stream:
            assert [await with_timeout(stream.recv()) for _ in range(3)] == 3 * [PING]


@pytest.mark.parametrize("cursor", ["999", "-1", "abc", "1.5"])
async def test_an_invalid_cursor_is_refused_before_the_socket_opens(site: Site, cursor: str) -> None:
    manual_run = await start_manual_run(site.store)
    assert await _refusal(site, f"/api/runs/{manual_run.id}/ws?last_event_id={cursor}") == (400, "BAD_CURSOR")


async def test_a_refused_socket_gets_the_matching_error(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    assert await _refusal(site, "/api/runs/run_none/ws") == (404, "NOT_FOUND")
    assert await _refusal(site, f"/api/runs/{manual_run.id}/ws?nonsense=1") == (400, "INVALID")
    assert await _refusal(site, "/api/runs/run%20none/ws") == (404, "NOT_FOUND")


async def test_a_stream_above_the_limit_is_refused(workshop: AgentWorkspace) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(max_streams=1)) as site:
        path = f"/api/runs/{(await start_manual_run(site.store)).id}/ws"
        async with ws(site.host, path):
            assert await _refusal(site, path) == (503, "TOO_MANY_STREAMS")


async def test_a_stopping_server_closes_its_sockets(own_site: Site) -> None:
    manual_run = await start_manual_run(own_site.store)
    async with ws(own_site.host, f"/api/runs/{manual_run.id}/ws?last_event_id=1") as stream:
        own_site.streams.close()
        with pytest.raises(ConnectionClosed):
            await with_timeout(stream.recv())
        assert stream.close_code == WebSocketCloseCode.CLOSING


async def test_a_stalled_reader_is_disconnected_with_its_own_close_code(workshop: AgentWorkspace) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(stall_timeout_seconds=0.1)) as site:
        manual_run = await start_manual_run(site.store)
        async with ws(site.host, f"/api/runs/{manual_run.id}/ws") as stream:
            stream.transport.pause_reading()
            while site.streams.open_count:
                await manual_run.say("x" * 100_000)
            stream.transport.resume_reading()
            seqs = await _rest(stream)
            assert stream.close_code == WebSocketCloseCode.TOO_SLOW
        await manual_run.finish()
        async with ws(site.host, f"/api/runs/{manual_run.id}/ws?last_event_id={seqs[-1]}") as stream:
            seqs += await _rest(stream)
        assert seqs == [seq for seq, _ in await site.log(manual_run.id)]


async def test_a_plain_request_to_a_socket_is_refused(site: Site) -> None:
    response = await site.request("GET", "/api/runs/run_any/ws")
    assert (response.status_code, response.json()["error"]["code"]) == (405, "METHOD_NOT_ALLOWED")


async def _rest(stream: ClientConnection) -> list[int]:
    """Return the sequence numbers of the remaining events, until the socket is closed for any reason."""
    seqs = []
    async with asyncio.timeout(TIMEOUT_SECONDS):
        with suppress(ConnectionClosedError):
            async for text in stream:
                if text != PING:
                    seqs.append(msgspec.json.decode(text)["seq"])
    return seqs


async def _refusal(site: Site, path: str) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as refused:
        async with ws(site.host, path):
            pass
    response = refused.value.response
    return response.status_code, msgspec.json.decode(response.body or b"")["error"]["code"]
