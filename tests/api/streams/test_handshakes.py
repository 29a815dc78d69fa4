"""WebSocket handshakes: an invalid one gets the HTTP response of an invalid request."""

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
VALID_HEADERS: Final = UPGRADE + KEY + VERSION
RUN: Final = "/api/runs/run_none/ws"

REFUSED: Final = [
    ("GET", RUN, VALID_HEADERS + f"X: {'x' * 9_000}\r\n", 404, "NOT_FOUND"),
    ("GET", RUN, VALID_HEADERS + "".join(f"X-{n}: y\r\n" for n in range(300)), 404, "NOT_FOUND"),
    ("GET", RUN, VALID_HEADERS + f"X: {'x' * 70_000}\r\n", 431, "HEADERS_TOO_LARGE"),
    ("GET", f"{RUN}?x={'x' * 20_000}", VALID_HEADERS, 414, "ADDRESS_TOO_LONG"),
    ("POST", RUN, VALID_HEADERS + "Content-Length: 2\r\n", 405, "METHOD_NOT_ALLOWED"),
    ("GET", RUN, VALID_HEADERS + "Content-Length: 2\r\n", 400, "BAD_HANDSHAKE"),
    ("GET", RUN, UPGRADE + VERSION, 400, "BAD_HANDSHAKE"),
    ("GET", RUN, UPGRADE + VERSION + "Sec-WebSocket-Key: short\r\n", 400, "BAD_HANDSHAKE"),
    ("GET", RUN, VALID_HEADERS + KEY, 400, "BAD_HANDSHAKE"),
    ("GET", RUN, UPGRADE + KEY + "Sec-WebSocket-Version: 8\r\n", 400, "BAD_HANDSHAKE"),
    ("GET", RUN, UPGRADE + "Host: evil.example\r\n", 403, "HOST_REFUSED"),
    ("GET", RUN, UPGRADE + "Origin: http://evil.example\r\n", 403, "ORIGIN_REFUSED"),
    ("GET", RUN, VALID_HEADERS + "Origin: http://a\r\nOrigin: http://b\r\n", 403, "ORIGIN_REFUSED"),
    ("GET", "/nowhere", VALID_HEADERS, 404, "NO_SUCH_ROUTE"),
    ("GET", "/health", VALID_HEADERS, 405, "METHOD_NOT_ALLOWED"),
    ("GET", "/api/runs/run_none/sse", VALID_HEADERS, 405, "METHOD_NOT_ALLOWED"),
    ("GET", "/ws?socket=1", VALID_HEADERS, 400, "INVALID"),
    ("GET", f"{RUN}?last_event_id=null", VALID_HEADERS, 400, "BAD_CURSOR"),
]


async def open_request(
    site: Site, head: str, *, after: bytes = b""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection, send the head of a request, and send `after` in a separate write."""
    host, port = site.host.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    method, path, headers = head.split(" ", 2)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: {site.host}\r\n{headers}\r\n".encode())
    if after:
        await asyncio.sleep(0)
        writer.write(after)
    return reader, writer


async def read_response(site: Site, head: str, *, after: bytes = b"") -> bytes:
    """Send a request, and return everything received until the connection is closed."""
    reader, writer = await open_request(site, head, after=after)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(("method", "path", "headers", "status", "code"), REFUSED)
async def test_a_refused_handshake_gets_an_http_error_and_is_logged(
    site: Site, caplog: pytest.LogCaptureFixture, method: str, path: str, headers: str, status: int, code: str
) -> None:
    with caplog.at_level(logging.INFO, logger="holdfast.requests"):
        response = await read_response(site, f"{method} {path} {headers}", after=b"{}")
    head, _, body = response.partition(b"\r\n\r\n")
    assert (int(head.split()[1]), json.loads(body)["error"]["code"]) == (status, code)
    (line,) = [record for record in caplog.records if (record.name, record.levelname) == ("holdfast.requests", "INFO")]
    assert f" {path.partition('?')[0]} {status} " in line.getMessage()


async def test_an_unknown_parameter_of_a_socket_is_refused(site: Site) -> None:
    assert b"known are none" in await read_response(site, f"GET /ws?x=1 {VALID_HEADERS}")


async def test_a_handshake_with_the_wrong_version_gets_the_supported_one(site: Site) -> None:
    response = await read_response(site, f"GET {RUN} {UPGRADE}{KEY}Sec-WebSocket-Version: 8\r\n")
    assert b"sec-websocket-version: 13\r\n" in response.lower()


async def test_a_handshake_with_large_headers_opens_a_socket(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    reader, writer = await open_request(site, f"GET /api/runs/{manual_run.id}/ws {VALID_HEADERS}X: {'x' * 20_000}\r\n")
    assert b" 101 " in await with_timeout(reader.readline())
    writer.close()


@pytest.mark.parametrize("garbage", [b"\xff" * 16, b"\x83\x80\x00\x00\x00\x00", b"GET / HTTP/1.1\r\n\r\n"])
async def test_data_before_the_end_of_the_handshake_breaks_nothing(site: Site, garbage: bytes) -> None:
    manual_run = await start_manual_run(site.store)
    for iterations in range(30):  # in some of them the handshake is read but not yet answered
        reader, writer = await open_request(site, f"GET /api/runs/{manual_run.id}/ws {VALID_HEADERS}")
        for _ in range(iterations):
            await asyncio.sleep(0)
        writer.write(garbage)
        assert b" 101 " in await with_timeout(reader.readline())
        writer.close()


async def test_a_protocol_error_closes_the_socket_with_its_code(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    reader, writer = await open_request(site, f"GET /api/runs/{manual_run.id}/ws {VALID_HEADERS}")
    await with_timeout(reader.readuntil(b"\r\n\r\n"))
    writer.write(b"\xff" * 16)
    assert WebSocketCloseCode.BROKEN.to_bytes(2, "big") in await with_timeout(reader.read())
    writer.close()


async def test_a_handshake_pipelined_behind_a_response_is_refused(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    reader, writer = await open_request(site, f"GET /api/runs/{manual_run.id}/sse ")
    writer.write(f"GET /api/runs/{manual_run.id}/ws HTTP/1.1\r\nHost: {site.host}\r\n{VALID_HEADERS}\r\n".encode())
    await manual_run.finish()
    response = await with_timeout(reader.read())
    assert response.endswith(b"}}") and b"BAD_HANDSHAKE" in response.rpartition(b"0\r\n\r\n")[2]
    writer.close()
