"""Handshakes: each is answered as the request that it is, whatever is wrong with it."""

import asyncio
import json
import logging
from typing import Final

import pytest

from holdfast.api.streams.websocket import WebSocketCloseCode
from tests.api.site import TIMEOUT_SECONDS, Site
from tests.api.streams.manual_run import start_manual_run, with_timeout

KEY: Final = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
VERSION: Final = "Sec-WebSocket-Version: 13\r\n"
UPGRADE: Final = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
RIGHT: Final = UPGRADE + KEY + VERSION
RUN: Final = "/api/runs/run_none/ws"

REFUSED: Final = [
    ("GET", RUN, RIGHT + f"X: {'x' * 9_000}\r\n", 404, "NOT_FOUND"),
    ("GET", RUN, RIGHT + "".join(f"X-{n}: y\r\n" for n in range(300)), 404, "NOT_FOUND"),
    ("GET", RUN, RIGHT + f"X: {'x' * 70_000}\r\n", 431, "HEADERS_TOO_LARGE"),
    ("GET", f"{RUN}?x={'x' * 20_000}", RIGHT, 414, "ADDRESS_TOO_LONG"),
    ("POST", RUN, RIGHT + "Content-Length: 2\r\n", 405, "METHOD_NOT_ALLOWED"),
    ("GET", RUN, RIGHT + "Content-Length: 2\r\n", 400, "BAD_HANDSHAKE"),
    ("GET", RUN, UPGRADE + VERSION, 400, "BAD_HANDSHAKE"),
    ("GET", RUN, UPGRADE + VERSION + "Sec-WebSocket-Key: short\r\n", 400, "BAD_HANDSHAKE"),
    ("GET", RUN, RIGHT + KEY, 400, "BAD_HANDSHAKE"),
    ("GET", RUN, UPGRADE + KEY + "Sec-WebSocket-Version: 8\r\n", 400, "BAD_HANDSHAKE"),
    ("GET", RUN, UPGRADE + "Host: evil.example\r\n", 403, "HOST_REFUSED"),
    ("GET", RUN, UPGRADE + "Origin: http://evil.example\r\n", 403, "ORIGIN_REFUSED"),
    ("GET", RUN, RIGHT + "Origin: http://a\r\nOrigin: http://b\r\n", 403, "ORIGIN_REFUSED"),
    ("GET", "/nowhere", RIGHT, 404, "NO_SUCH_ROUTE"),
    ("GET", "/health", RIGHT, 405, "METHOD_NOT_ALLOWED"),
    ("GET", "/api/runs/run_none/sse", RIGHT, 405, "METHOD_NOT_ALLOWED"),
    ("GET", "/ws?socket=1", RIGHT, 400, "INVALID"),
    ("GET", f"{RUN}?last_event_id=null", RIGHT, 400, "BAD_CURSOR"),
]


async def opened(site: Site, head: str, *, after: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection, and send the head of a request and what comes after it in a piece of its own."""
    host, port = site.host.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    method, path, headers = head.split(" ", 2)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: {site.host}\r\n{headers}\r\n".encode())
    if after:
        await asyncio.sleep(0)
        writer.write(after)
    return reader, writer


async def answered(site: Site, head: str, *, after: bytes = b"") -> bytes:
    """Return all that is sent until the connection is closed."""
    reader, writer = await opened(site, head, after=after)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(("method", "path", "headers", "status", "code"), REFUSED)
async def test_a_handshake_that_is_refused_is_answered_as_a_request_and_leaves_its_line(
    site: Site, caplog: pytest.LogCaptureFixture, method: str, path: str, headers: str, status: int, code: str
) -> None:
    with caplog.at_level(logging.INFO, logger="holdfast.requests"):
        response = await answered(site, f"{method} {path} {headers}", after=b"{}")
    head, _, body = response.partition(b"\r\n\r\n")
    assert (int(head.split()[1]), json.loads(body)["error"]["code"]) == (status, code)
    (line,) = [record for record in caplog.records if record.name == "holdfast.requests"]
    assert f" {path.partition('?')[0]} {status} " in line.getMessage()


async def test_the_parameters_that_a_socket_knows_are_its_own(site: Site) -> None:
    assert b"it knows none" in await answered(site, f"GET /ws?x=1 {RIGHT}")


async def test_a_handshake_with_the_wrong_version_is_told_the_right_one(site: Site) -> None:
    response = await answered(site, f"GET {RUN} {UPGRADE}{KEY}Sec-WebSocket-Version: 8\r\n")
    assert b"sec-websocket-version: 13\r\n" in response.lower()


async def test_a_handshake_with_large_headers_opens_a_socket(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    reader, writer = await opened(site, f"GET /api/runs/{manual_run.id}/ws {RIGHT}X: {'x' * 20_000}\r\n")
    assert b" 101 " in await with_timeout(reader.readline())
    writer.close()


@pytest.mark.parametrize("garbage", [b"\xff" * 16, b"\x83\x80\x00\x00\x00\x00", b"GET / HTTP/1.1\r\n\r\n"])
async def test_what_comes_before_the_answer_to_a_handshake_breaks_nothing(site: Site, garbage: bytes) -> None:
    manual_run = await start_manual_run(site.store)
    for turns in range(30):  # somewhere among them the handshake was read and not yet answered
        reader, writer = await opened(site, f"GET /api/runs/{manual_run.id}/ws {RIGHT}")
        for _ in range(turns):
            await asyncio.sleep(0)
        writer.write(garbage)
        assert b" 101 " in await with_timeout(reader.readline())
        writer.close()


async def test_what_breaks_the_rules_is_told_so(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    reader, writer = await opened(site, f"GET /api/runs/{manual_run.id}/ws {RIGHT}")
    await with_timeout(reader.readuntil(b"\r\n\r\n"))
    writer.write(b"\xff" * 16)
    assert WebSocketCloseCode.BROKEN.to_bytes(2, "big") in await with_timeout(reader.read())
    writer.close()


async def test_a_handshake_behind_an_answer_that_is_under_way_is_none(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    reader, writer = await opened(site, f"GET /api/runs/{manual_run.id}/sse ")
    writer.write(f"GET /api/runs/{manual_run.id}/ws HTTP/1.1\r\nHost: {site.host}\r\n{RIGHT}\r\n".encode())
    await manual_run.finish()
    response = await with_timeout(reader.read())
    assert response.endswith(b"}}") and b"BAD_HANDSHAKE" in response.rpartition(b"0\r\n\r\n")[2]
    writer.close()
