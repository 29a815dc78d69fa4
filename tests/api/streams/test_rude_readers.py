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
from tests.api.site import LIMIT, Site, served
from tests.api.streams.readers import sse, ws
from tests.api.streams.stage import Hand, begun, soon
from tests.api.streams.test_handshakes import RIGHT
from tests.scenario.agents.agent_workspace import AgentWorkspace

PING: Final = b"\x89\xfd" + 4 * b"\0" + 125 * b"x"
"""A ping of the protocol itself, as large as one may be."""
FLOOD: Final = 16 * 1024 * 1024
"""Bytes, more than anything between the two ends holds."""


async def until(true: Callable[[], bool]) -> None:
    """Wait until the server has done something of which it tells nobody."""
    async with asyncio.timeout(LIMIT):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def stuck(stage: Site, path: str, *, headers: str = "") -> socket.socket:
    """Ask for a stream, and read nothing of it."""
    address, port = stage.host.split(":")
    before = stage.feeds.open_count
    taking_nothing = socket.create_connection((address, int(port)))
    taking_nothing.sendall(f"GET {path} HTTP/1.1\r\nHost: {stage.host}\r\n{headers}\r\n".encode())
    taking_nothing.setblocking(False)
    await until(lambda: stage.feeds.open_count > before)
    return taking_nothing


async def fill(hand: Hand) -> None:
    """Say more than anything between the two ends holds."""
    for _ in range(20):
        await hand.say(*10 * ["x" * 50_000])


def transports() -> list[asyncio.Transport]:
    """Return the connections that the servers in this process hold."""
    held = [
        each for each in gc.get_objects() if type(each) in (HttpProtocol, WebSocketProtocol)
    ]  # which asks no weak reference
    return [each.transport for each in held if each in each.connections]


async def test_pings_that_nobody_reads_the_answers_of_are_not_kept(own_stage: Site) -> None:
    hand = await begun(own_stage)
    with closing(await stuck(own_stage, f"/api/runs/{hand.id}/ws", headers=RIGHT)) as flood:
        loop = asyncio.get_running_loop()
        pings = PING * 1000
        with suppress(TimeoutError):  # the server may read nothing more
            async with asyncio.timeout(2):
                for _ in range(FLOOD // len(pings)):
                    await loop.sock_sendall(flood, pings)
        assert max(each.get_write_buffer_size() for each in transports()) < 1024 * 1024


async def test_who_pings_and_reads_nothing_is_cut_off(workshop: AgentWorkspace) -> None:
    habits = StreamLimits(keepalive_seconds=0.3, stall_timeout_seconds=0.1)
    async with served(workshop, workers=0, habits=habits) as stage:
        hand = await begun(stage)
        with closing(await stuck(stage, f"/api/runs/{hand.id}/ws", headers=RIGHT)) as flood:
            loop = asyncio.get_running_loop()
            with pytest.raises(ConnectionError):
                while True:
                    await soon(loop.sock_sendall(flood, PING * 1000))
        await until(lambda: stage.feeds.open_count == 0)


@pytest.mark.parametrize(("kind", "headers"), [("sse", ""), ("ws", RIGHT)])
async def test_a_reader_that_is_cut_off_loses_its_connection(workshop: AgentWorkspace, kind: str, headers: str) -> None:
    async with served(workshop, workers=0, habits=StreamLimits(stall_timeout_seconds=0.1)) as stage:
        hand = await begun(stage)
        await fill(hand)
        with closing(await stuck(stage, f"/api/runs/{hand.id}/{kind}", headers=headers)):
            held = transports()
            await until(lambda: stage.feeds.open_count == 0)
            async with asyncio.timeout(3 * DRAIN_CHECK_SECONDS):
                await until(lambda: not any(each.get_write_buffer_size() for each in held))


@pytest.mark.parametrize(("kind", "headers"), [("sse", ""), ("ws", RIGHT)])
async def test_readers_that_take_nothing_do_not_hold_up_a_server_that_stops(
    workshop: AgentWorkspace, caplog: pytest.LogCaptureFixture, kind: str, headers: str
) -> None:
    async with served(workshop, workers=0, last_words=10) as stage:
        hand = await begun(stage)
        await fill(hand)
        taking_nothing = [await stuck(stage, f"/api/runs/{hand.id}/{kind}", headers=headers) for _ in range(5)]
        held = transports()
        await until(lambda: sum(each.get_write_buffer_size() > 0 for each in held) == len(taking_nothing))
        begun_at = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - begun_at < 5
    for each in taking_nothing:
        each.close()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_message_that_is_too_large_to_be_a_ping_is_not_read(stage: Site) -> None:
    hand = await begun(stage)
    async with ws(stage.host, f"/api/runs/{hand.id}/ws?last_event_id=1") as stream:
        await stream.send("x" * (MAX_CLIENT_MESSAGE_BYTES + 1))
        await soon(stream.wait_closed())
        assert stream.close_code == WebSocketCloseCode.TOO_LARGE


async def test_text_that_is_none_closes_the_socket(stage: Site) -> None:
    hand = await begun(stage)
    async with ws(stage.host, f"/api/runs/{hand.id}/ws?last_event_id=1") as stream:
        await stream.send(b"\xff\xfe", text=True)
        await soon(stream.wait_closed())
        assert stream.close_code == WebSocketCloseCode.MALFORMED


@pytest.mark.parametrize(
    "garbage", [b"\x00garbage\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * MAX_UNFINISHED_HEAD_BYTES]
)
async def test_garbage_behind_a_stream_ends_it_and_is_not_answered_in_its_midst(stage: Site, garbage: bytes) -> None:
    hand = await begun(stage)
    address, port = stage.host.split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    writer.write(f"GET /api/runs/{hand.id}/sse HTTP/1.1\r\nHost: {stage.host}\r\n\r\n".encode())
    head = await soon(reader.readuntil(b"\r\n\r\n"))
    writer.write(garbage)
    rest = await soon(reader.read())
    writer.close()
    assert b" 200 " in head
    assert b"HTTP/1.1" not in rest


async def test_a_client_of_http_1_0_gets_no_chunks(stage: Site) -> None:
    hand = await begun(stage)
    await hand.finish()
    address, port = stage.host.split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    writer.write(f"GET /api/runs/{hand.id}/sse HTTP/1.0\r\nHost: {stage.host}\r\n\r\n".encode())
    head, _, body = (await soon(reader.read())).partition(b"\r\n\r\n")
    writer.close()
    assert b"transfer-encoding" not in head.lower()
    assert body.startswith(b"retry: 1000\n\nid: 1\ndata: {")
    assert body.endswith(b"retry: 86400000\n\n")


async def test_a_client_of_http_1_0_gets_an_answer_of_known_length(stage: Site) -> None:
    address, port = stage.host.split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    writer.write(f"GET /health HTTP/1.0\r\nHost: {stage.host}\r\n\r\n".encode())
    head, _, body = (await soon(reader.read())).partition(b"\r\n\r\n")
    writer.close()
    assert b"content-length: 15" in head.lower()
    assert body == b'{"status":"ok"}'


async def test_a_cursor_that_says_null_is_none_of_ours(stage: Site) -> None:
    hand = await begun(stage)
    answer = await stage.ask("GET", f"/api/runs/{hand.id}/sse?last_event_id=null")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BAD_CURSOR")


async def test_streams_that_are_one_too_many_are_no_error_of_ours(
    workshop: AgentWorkspace, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(workshop, workers=0, habits=StreamLimits(max_streams=1)) as stage:
        path = f"/api/runs/{(await begun(stage)).id}/sse"
        async with sse(stage.host, path):
            assert (await stage.ask("GET", path)).status_code == 503
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
