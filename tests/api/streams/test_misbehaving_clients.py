"""Readers that take nothing, send what nobody wants, or know less than others: they cost nothing and leave no error."""

import asyncio
import gc
import logging
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final

import pytest

from holdfast.api.streams.websocket import MAX_CLIENT_MESSAGE_BYTES, WebSocketCloseCode
from holdfast.api.uvicorn_protocols import (
    DRAIN_CHECK_SECONDS,
    MAX_UNFINISHED_HEAD_BYTES,
    HttpProtocol,
    WebSocketProtocol,
)
from holdfast.control.streams.live_streams import StreamLimits
from tests.api.site import TIMEOUT_SECONDS, Site, serve
from tests.api.streams.manual_run import ManualRun, start_manual_run, with_timeout
from tests.api.streams.readers import sse, ws
from tests.api.streams.test_handshakes import RIGHT
from tests.scenario.agents.agent_workspace import AgentWorkspace

PING: Final = b"\x89\xfd" + 4 * b"\0" + 125 * b"x"
"""A ping of the protocol itself, as large as one may be."""
FLOOD: Final = 16 * 1024 * 1024
"""Bytes, more than anything between the two ends holds."""


async def until(true: Callable[[], bool]) -> None:
    """Wait until the server has done something of which it tells nobody."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def stuck(site: Site, path: str, *, headers: str = "") -> socket.socket:
    """Ask for a stream, and read nothing of it."""
    address, port = site.host.split(":")
    before = site.streams.open_count
    taking_nothing = socket.create_connection((address, int(port)))
    taking_nothing.sendall(f"GET {path} HTTP/1.1\r\nHost: {site.host}\r\n{headers}\r\n".encode())
    taking_nothing.setblocking(False)
    await until(lambda: site.streams.open_count > before)
    return taking_nothing


async def fill(manual_run: ManualRun) -> None:
    """Say more than anything between the two ends holds."""
    for _ in range(20):
        await manual_run.say(*10 * ["x" * 50_000])


def transports() -> list[asyncio.Transport]:
    """Return the connections that the servers in this process hold."""
    held = [
        each for each in gc.get_objects() if type(each) in (HttpProtocol, WebSocketProtocol)
    ]  # which asks no weak reference
    return [each.transport for each in held if each in each.connections]


async def test_pings_that_nobody_reads_the_answers_of_are_not_kept(own_site: Site) -> None:
    manual_run = await start_manual_run(own_site.store)
    with closing(await stuck(own_site, f"/api/runs/{manual_run.id}/ws", headers=RIGHT)) as flood:
        loop = asyncio.get_running_loop()
        pings = PING * 1000
        with suppress(TimeoutError):  # the server may read nothing more
            async with asyncio.timeout(2):
                for _ in range(FLOOD // len(pings)):
                    await loop.sock_sendall(flood, pings)
        assert max(each.get_write_buffer_size() for each in transports()) < 1024 * 1024


async def test_who_pings_and_reads_nothing_is_cut_off(workshop: Workshop) -> None:
    limits = StreamLimits(keepalive_seconds=0.3, stall_timeout_seconds=0.1)
    async with serve(workshop, workers=0, limits=limits) as site:
        manual_run = await start_manual_run(site.store)
        with closing(await stuck(site, f"/api/runs/{manual_run.id}/ws", headers=RIGHT)) as flood:
            loop = asyncio.get_running_loop()
            with pytest.raises(ConnectionError):
                while True:
                    await with_timeout(loop.sock_sendall(flood, PING * 1000))
        await until(lambda: site.streams.open_count == 0)


@pytest.mark.parametrize(("kind", "headers"), [("sse", ""), ("ws", RIGHT)])
async def test_a_reader_that_is_cut_off_loses_its_connection(workshop: Workshop, kind: str, headers: str) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(stall_timeout_seconds=0.1)) as site:
        manual_run = await start_manual_run(site.store)
        await fill(manual_run)
        with closing(await stuck(site, f"/api/runs/{manual_run.id}/{kind}", headers=headers)):
            held = transports()
            await until(lambda: site.streams.open_count == 0)
            async with asyncio.timeout(3 * DRAIN_CHECK_SECONDS):
                await until(lambda: not any(each.get_write_buffer_size() for each in held))


@pytest.mark.parametrize(("kind", "headers"), [("sse", ""), ("ws", RIGHT)])
async def test_readers_that_take_nothing_do_not_hold_up_a_server_that_stops(
    workshop: AgentWorkspace, caplog: pytest.LogCaptureFixture, kind: str, headers: str
) -> None:
    async with serve(workshop, workers=0, shutdown_grace_seconds=10) as site:
        manual_run = await start_manual_run(site.store)
        await fill(manual_run)
        taking_nothing = [await stuck(site, f"/api/runs/{manual_run.id}/{kind}", headers=headers) for _ in range(5)]
        held = transports()
        await until(lambda: sum(each.get_write_buffer_size() > 0 for each in held) == len(taking_nothing))
        begun_at = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - begun_at < 5
    for each in taking_nothing:
        each.close()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_message_that_is_too_large_to_be_a_ping_is_not_read(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    async with ws(site.host, f"/api/runs/{manual_run.id}/ws?last_event_id=1") as stream:
        await stream.send("x" * (MAX_CLIENT_MESSAGE_BYTES + 1))
        await with_timeout(stream.wait_closed())
        assert stream.close_code == WebSocketCloseCode.TOO_LARGE


async def test_text_that_is_none_closes_the_socket(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    async with ws(site.host, f"/api/runs/{manual_run.id}/ws?last_event_id=1") as stream:
        await stream.send(b"\xff\xfe", text=True)
        await with_timeout(stream.wait_closed())
        assert stream.close_code == WebSocketCloseCode.MALFORMED


@pytest.mark.parametrize(
    "garbage", [b"\x00garbage\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * MAX_UNFINISHED_HEAD_BYTES]
)
async def test_garbage_behind_a_stream_ends_it_and_is_not_answered_in_its_midst(site: Site, garbage: bytes) -> None:
    manual_run = await start_manual_run(site.store)
    address, port = site.host.split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    writer.write(f"GET /api/runs/{manual_run.id}/sse HTTP/1.1\r\nHost: {site.host}\r\n\r\n".encode())
    head = await with_timeout(reader.readuntil(b"\r\n\r\n"))
    writer.write(garbage)
    rest = await with_timeout(reader.read())
    writer.close()
    assert b" 200 " in head
    assert b"HTTP/1.1" not in rest


async def test_a_client_of_http_1_0_gets_no_chunks(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    await manual_run.finish()
    address, port = site.host.split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    writer.write(f"GET /api/runs/{manual_run.id}/sse HTTP/1.0\r\nHost: {site.host}\r\n\r\n".encode())
    head, _, body = (await with_timeout(reader.read())).partition(b"\r\n\r\n")
    writer.close()
    assert b"transfer-encoding" not in head.lower()
    assert body.startswith(b"retry: 1000\n\nid: 1\ndata: {")
    assert body.endswith(b"retry: 86400000\n\n")


async def test_a_client_of_http_1_0_gets_an_answer_of_known_length(site: Site) -> None:
    address, port = site.host.split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    writer.write(f"GET /health HTTP/1.0\r\nHost: {site.host}\r\n\r\n".encode())
    head, _, body = (await with_timeout(reader.read())).partition(b"\r\n\r\n")
    writer.close()
    assert b"content-length: 15" in head.lower()
    assert body == b'{"status":"ok"}'


async def test_a_cursor_that_says_null_is_none_of_ours(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    response = await site.request("GET", f"/api/runs/{manual_run.id}/sse?last_event_id=null")
    assert (response.status_code, response.json()["error"]["code"]) == (400, "BAD_CURSOR")


async def test_streams_that_are_one_too_many_are_no_error_of_ours(
    workshop: AgentWorkspace, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(max_streams=1)) as site:
        path = f"/api/runs/{(await start_manual_run(site.store)).id}/sse"
        async with sse(site.host, path):
            assert (await site.request("GET", path)).status_code == 503
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
