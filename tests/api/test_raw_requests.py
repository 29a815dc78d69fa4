"""Malformed and malicious raw requests: each gets an error response and changes nothing."""

import asyncio
import json
from typing import Final

import pytest

from holdfast.api.asgi import BROWSER_HEADERS
from holdfast.api.uvicorn_protocols import MAX_HEADER_LINES, MAX_UNFINISHED_HEAD_BYTES
from tests.api.site import TIMEOUT_SECONDS, Site

JSON: Final = "Content-Type: application/json\r\n"
SHORT: Final = "Content-Length: 2\r\n"

PATHS: Final = [
    ("/api/../health", 404, "NO_SUCH_ROUTE"),
    ("/api/%2e%2e/health", 404, "NO_SUCH_ROUTE"),
    ("/..%2f..%2fetc/passwd", 404, "NO_SUCH_ROUTE"),
    ("/api\\threads", 404, "NO_SUCH_ROUTE"),
    ("/api/threads;x=1", 404, "NO_SUCH_ROUTE"),
    ("/api/threads/%00", 404, "NOT_FOUND"),
    ("/api/threads/%ff%fe", 404, "NOT_FOUND"),
    ("/api/threads/%zz", 404, "NOT_FOUND"),
    ("/api/threads/%252e%252e", 404, "NOT_FOUND"),
    ("/api/agents/%00", 404, "NOT_FOUND"),
    ("/api/agents/..%2f..", 404, "NO_SUCH_ROUTE"),
    ("/api/threads?title=%ff", 400, "INVALID"),
    ("/api/threads?%00=1", 400, "INVALID"),
    ("/api/threads?limit=1&limit=2", 400, "INVALID"),
    ("/api/threads/" + "x" * 20_000, 414, "ADDRESS_TOO_LONG"),
    ("/api/threads?title=" + "x" * 20_000, 414, "ADDRESS_TOO_LONG"),
    ("/api/memories/search?q=" + "x" * 100_000, 414, "ADDRESS_TOO_LONG"),
    ("http://127.0.0.1/nowhere", 404, "NO_SUCH_ROUTE"),
]
HEADERS: Final = [
    (SHORT + JSON + "Content-Type: text/plain\r\n", 400, "HEADER_REPEATED"),
    (SHORT + JSON + "Idempotency-Key: a\r\nIdempotency-Key: b\r\n", 400, "HEADER_REPEATED"),
    (SHORT + JSON + "Content-Encoding: gzip\r\n", 415, "UNSUPPORTED_MEDIA_TYPE"),
    (SHORT + JSON + "X-Large: " + "x" * 70_000 + "\r\n", 431, "HEADERS_TOO_LARGE"),
    (SHORT + JSON + "".join(f"X-{n}: {'y' * 20}\r\n" for n in range(4_000)), 431, "HEADERS_TOO_LARGE"),
    (SHORT + JSON + "Host: evil.example\r\n", 403, "HOST_REFUSED"),
    (SHORT + JSON + "Origin: http://evil.example\r\n", 403, "ORIGIN_REFUSED"),
    (JSON + "Content-Length: 99999999999\r\n", 413, "BODY_TOO_LARGE"),
]
BROKEN: Final = [
    (JSON + "Content-Length: -1\r\n", b""),
    (JSON + "Content-Length: 2\r\nContent-Length: 3\r\n", b"{}"),
    (JSON + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    (JSON + "Transfer-Encoding: chunked\r\n", b"zz\r\n{}"),
    ("X: a\r\n\x00: b\r\n", b""),
    ("Content-Length: 0\r\n folded: x\x01\r\n", b""),
]


async def send_raw(site: Site, request: bytes) -> tuple[int, bytes]:
    """Send bytes, and return the status and the body of the response."""
    host, port = site.host.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            status, *lines = head.decode("latin-1").split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines if line)
            return int(status.split()[1]), await reader.readexactly(int(headers.get("content-length", "0")))
    finally:
        writer.close()


def request(site: Site, method: str, path: str, headers: str = "") -> bytes:
    """Return the head of a request."""
    return f"{method} {path} HTTP/1.1\r\nHost: {site.host}\r\n{headers}\r\n".encode("latin-1")


async def thread_ids(site: Site) -> list[str]:
    """Return the ids of all threads."""
    return [thread["id"] for thread in (await site.get("/api/threads", limit=200))["items"]]


@pytest.mark.parametrize(("path", "status", "code"), PATHS)
async def test_a_malicious_path_is_refused(site: Site, path: str, status: int, code: str) -> None:
    received_status, body = await send_raw(site, request(site, "GET", path))
    assert (received_status, json.loads(body)["error"]["code"]) == (status, code)
    assert len(body) < 1000 + len(path)


@pytest.mark.parametrize(("headers", "status", "code"), HEADERS)
async def test_malicious_headers_are_refused(site: Site, headers: str, status: int, code: str) -> None:
    before = await thread_ids(site)
    received_status, body = await send_raw(site, request(site, "POST", "/api/threads", headers) + b"{}")
    assert (received_status, json.loads(body)["error"]["code"]) == (status, code)
    assert await thread_ids(site) == before


@pytest.mark.parametrize("sent", [b"GARBAGE\r\n\r\n", b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"])
async def test_a_refusal_before_any_route_has_the_headers_for_browsers(site: Site, sent: bytes) -> None:
    host, port = site.host.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), TIMEOUT_SECONDS)).lower()
    writer.close()
    assert all(b"\r\n%b: %b\r\n" % header in head for header in BROWSER_HEADERS)


@pytest.mark.parametrize(("headers", "body"), BROKEN)
async def test_malformed_http_is_refused(site: Site, headers: str, body: bytes) -> None:
    before = await thread_ids(site)
    received_status, response_body = await send_raw(site, request(site, "POST", "/api/threads", headers) + body)
    assert (received_status, json.loads(response_body)["error"]["code"]) == (400, "BAD_REQUEST")
    assert await thread_ids(site) == before


async def test_an_endless_request_head_is_refused(site: Site) -> None:
    for line in (b"X-Large: " + b"x" * 100_000, b"X: y\r\n" * 20_000):
        head = request(site, "GET", "/health").removesuffix(b"\r\n") + line
        status, body = await send_raw(site, head + b"z" * MAX_UNFINISHED_HEAD_BYTES)
        assert (status, json.loads(body)["error"]["code"]) == (431, "HEADERS_TOO_LARGE")


@pytest.mark.parametrize("end", [b"\r\n", b""])
async def test_a_request_with_too_many_header_lines_is_refused(site: Site, end: bytes) -> None:
    head = request(site, "GET", "/health", "X: y\r\n" * (MAX_HEADER_LINES + 1)).removesuffix(b"\r\n") + end
    status, body = await send_raw(site, head)
    assert (status, json.loads(body)["error"]["details"]) == (431, {"limit": MAX_HEADER_LINES})


@pytest.mark.parametrize("trailers", [b"X: y\r\n" * MAX_HEADER_LINES, b"X: " + b"y" * 2 * MAX_UNFINISHED_HEAD_BYTES])
async def test_a_request_with_endless_trailers_is_refused(site: Site, trailers: bytes) -> None:
    before = await thread_ids(site)
    head = request(site, "POST", "/api/threads", JSON + "Transfer-Encoding: chunked\r\n")
    status, body = await send_raw(site, head + b"2\r\n{}\r\n0\r\n" + trailers)
    assert (status, json.loads(body)["error"]["code"]) == (431, "HEADERS_TOO_LARGE")
    assert await thread_ids(site) == before


async def test_a_long_body_and_its_trailers_are_read(site: Site) -> None:
    title = json.dumps({"metadata": {"text": "x" * 2 * MAX_UNFINISHED_HEAD_BYTES}}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in title)
    head = request(site, "POST", "/api/threads", JSON + "Transfer-Encoding: chunked\r\n")
    status, _ = await send_raw(site, head + chunks + b"0\r\nContent-Type: text/plain\r\n\r\n")
    assert status == 201


async def test_an_incomplete_body_is_not_logged_as_an_error(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    before = await thread_ids(site)
    host, port = site.host.split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(request(site, "POST", "/api/threads", JSON + "Content-Length: 9\r\n") + b'{"a":')
    await writer.drain()
    writer.close()
    assert await thread_ids(site) == before
    assert "Traceback" not in caplog.text


async def test_proxy_headers_are_ignored(site: Site) -> None:
    headers = "X-Forwarded-Host: evil.example\r\nX-Forwarded-For: 1.2.3.4\r\nX-HTTP-Method-Override: DELETE\r\n"
    status, body = await send_raw(site, request(site, "GET", "/api/version", headers))
    assert (status, json.loads(body)["error"]["code"]) == (404, "NO_SUCH_ROUTE")
    assert await send_raw(site, request(site, "GET", "/health", headers)) == (200, b'{"status":"ok"}')
