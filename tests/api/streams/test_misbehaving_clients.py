"""Clients that stall, send garbage or speak HTTP/1.0: they use bounded memory and cause no logged error."""

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
    MAX_FRAMES_PER_READ,
    MAX_UNFINISHED_HEAD_BYTES,
    HttpProtocol,
    WebSocketProtocol,
)
from holdfast.control.streams.live_streams import StreamLimits
from tests.api.site import TIMEOUT_SECONDS, Site, serve
from tests.api.streams.manual_run import ManualRun, start_manual_run, with_timeout
from tests.api.streams.readers import sse, ws
from tests.api.streams.test_handshakes import VALID_HEADERS
from tests.scenario.agents.agent_workspace import AgentWorkspace

PING: Final = b"\x89\xfd" + 4 * b"\0" + 125 * b"x"
"""A WebSocket ping frame of the maximum size."""
FLOOD_BYTES: Final = 16 * 1024 * 1024
"""More bytes than the buffers between server and client hold."""


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, by polling."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def open_stalled(site: Site, path: str, *, headers: str = "") -> socket.socket:
    """Open a stream, and read nothing of it."""
    address, port = site.host.split(":")
    before = site.streams.open_count
    stalled = socket.create_connection((address, int(port)))
    stalled.sendall(f"GET {path} HTTP/1.1\r\nHost: {site.host}\r\n{headers}\r\n".encode())
    stalled.setblocking(False)
    await until(lambda: site.streams.open_count > before)
    return stalled


async def write_flood(manual_run: ManualRun) -> None:
    """Append more events than the buffers between server and client hold."""
    for _ in range(20):
        await manual_run.say(*10 * ["x" * 50_000])


def transports() -> list[asyncio.Transport]:
    """Return the transports of all connections of the servers in this process."""
    connections = [
        each for each in gc.get_objects() if type(each) in (HttpProtocol, WebSocketProtocol)
    ]  # type() does not follow weak references, isinstance() would
    return [each.transport for each in connections if each in each.connections]


async def test_unread_pongs_are_not_buffered_without_limit(own_site: Site) -> None:
    manual_run = await start_manual_run(own_site.store)
    with closing(await open_stalled(own_site, f"/api/runs/{manual_run.id}/ws", headers=VALID_HEADERS)) as flood:
        loop = asyncio.get_running_loop()
        pings = PING * 100
        with suppress(TimeoutError):  # the server may read nothing more
            async with asyncio.timeout(2):
                for _ in range(FLOOD_BYTES // len(pings)):
                    await loop.sock_sendall(flood, pings)
                    await asyncio.sleep(0)  # the server reads them: more at once would close the socket
        assert max(each.get_write_buffer_size() for each in transports()) < 1024 * 1024


async def test_a_client_that_pings_and_reads_nothing_is_disconnected(workshop: AgentWorkspace) -> None:
    limits = StreamLimits(keepalive_seconds=0.3, stall_timeout_seconds=0.1)
    async with serve(workshop, workers=0, limits=limits) as site:
        manual_run = await start_manual_run(site.store)
        with closing(await open_stalled(site, f"/api/runs/{manual_run.id}/ws", headers=VALID_HEADERS)) as flood:
            loop = asyncio.get_running_loop()
            with pytest.raises(ConnectionError):
                while True:
                    await with_timeout(loop.sock_sendall(flood, PING * 100))
                    await asyncio.sleep(0)
        await until(lambda: site.streams.open_count == 0)


@pytest.mark.parametrize(("kind", "headers"), [("sse", ""), ("ws", VALID_HEADERS)])
async def test_the_connection_of_a_disconnected_reader_is_closed(
    workshop: AgentWorkspace, kind: str, headers: str
) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(stall_timeout_seconds=0.1)) as site:
        manual_run = await start_manual_run(site.store)
        await write_flood(manual_run)
        with closing(await open_stalled(site, f"/api/runs/{manual_run.id}/{kind}", headers=headers)):
            connections = transports()
            await until(lambda: site.streams.open_count == 0)
            await until(lambda: not any(each.get_write_buffer_size() for each in connections))


@pytest.mark.parametrize(("kind", "headers"), [("sse", ""), ("ws", VALID_HEADERS)])
async def test_stalled_readers_do_not_delay_a_stop(
    workshop: AgentWorkspace, caplog: pytest.LogCaptureFixture, kind: str, headers: str
) -> None:
    async with serve(workshop, workers=0, shutdown_grace_seconds=120) as site:
        manual_run = await start_manual_run(site.store)
        await write_flood(manual_run)
        stalled = [await open_stalled(site, f"/api/runs/{manual_run.id}/{kind}", headers=headers) for _ in range(5)]
        connections = transports()
        await until(lambda: sum(each.get_write_buffer_size() > 0 for each in connections) == len(stalled))
        stopped_at = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - stopped_at < 60
    for each in stalled:
        each.close()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_message_that_is_too_large_closes_the_socket(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    async with ws(site.host, f"/api/runs/{manual_run.id}/ws?last_event_id=1") as stream:
        await stream.send("x" * (MAX_CLIENT_MESSAGE_BYTES + 1))
        await with_timeout(stream.wait_closed())
        assert stream.close_code == WebSocketCloseCode.TOO_LARGE


@pytest.mark.parametrize("frame", [b"\x89\x80", b"\x8a\x80", b"\x01\x80", b"\x81\x81"], ids=lambda frame: frame.hex())
async def test_too_many_frames_at_once_close_the_socket(
    site: Site, frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    manual_run = await start_manual_run(site.store)
    reader, writer = await asyncio.open_connection(*site.host.split(":"))
    writer.write(f"GET /api/runs/{manual_run.id}/ws HTTP/1.1\r\nHost: {site.host}\r\n{VALID_HEADERS}\r\n".encode())
    await with_timeout(reader.readuntil(b"\r\n\r\n"))
    rest = (b"\x00\x80" if frame[0] == 1 else frame) + 4 * b"\0" + (b"x" if frame[1] == 0x81 else b"")
    writer.write(frame + 4 * b"\0" + (b"x" if frame[1] == 0x81 else b"") + rest * 20 * MAX_FRAMES_PER_READ)
    with suppress(ConnectionError):
        received = await with_timeout(reader.read(-1))
        assert b"too many frames at once" in received
    writer.close()
    await until(lambda: site.streams.open_count == 0)
    assert "Traceback" not in caplog.text


async def test_invalid_utf_8_closes_the_socket(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    async with ws(site.host, f"/api/runs/{manual_run.id}/ws?last_event_id=1") as stream:
        await stream.send(b"\xff\xfe", text=True)
        await with_timeout(stream.wait_closed())
        assert stream.close_code == WebSocketCloseCode.MALFORMED


@pytest.mark.parametrize(
    "garbage", [b"\x00garbage\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * MAX_UNFINISHED_HEAD_BYTES]
)
async def test_garbage_after_a_stream_request_ends_the_stream_without_a_second_response(
    site: Site, garbage: bytes
) -> None:
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


async def test_an_http_1_0_client_gets_no_chunked_encoding(site: Site) -> None:
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


async def test_an_http_1_0_client_gets_a_content_length(site: Site) -> None:
    address, port = site.host.split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    writer.write(f"GET /health HTTP/1.0\r\nHost: {site.host}\r\n\r\n".encode())
    head, _, body = (await with_timeout(reader.read())).partition(b"\r\n\r\n")
    writer.close()
    assert b"content-length: 15" in head.lower()
    assert body == b'{"status":"ok"}'


async def test_null_is_not_a_valid_cursor(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    response = await site.request("GET", f"/api/runs/{manual_run.id}/sse?last_event_id=null")
    assert (response.status_code, response.json()["error"]["code"]) == (400, "BAD_CURSOR")


async def test_a_stream_above_the_limit_is_not_logged_as_an_error(
    workshop: AgentWorkspace, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(max_streams=1)) as site:
        path = f"/api/runs/{(await start_manual_run(site.store)).id}/sse"
        async with sse(site.host, path):
            assert (await site.request("GET", path)).status_code == 503
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
