"""Clients that send half a request, or none, leave room for others."""

import asyncio
import json
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from holdfast.api import waiting_connections
from holdfast.bootstrap.server import raise_file_limit
from tests.api.server_process import run_server
from tests.api.site import Site
from tests.api.test_raw_requests import request, send_raw

FILES: Final = 1024
HALF_REQUESTS: Final = 5_000

FLOOD: Final = """
import socket, sys
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
connections = []
for number in range(count):
    connection = socket.create_connection((host, port))
    part = [b"", b"GET /health HTTP/1.1\\r\\nHost: ", b"POST /api/threads HTTP/1.1\\r\\nHost: " + sys.argv[4].encode()
            + b"\\r\\nContent-Type: application/json\\r\\nContent-Length: 9\\r\\n\\r\\n{"][number % 3]
    connection.setblocking(False)
    connection.send(part) if part else None
    connections.append(connection)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("part", "body"),
    [("GET /health HTTP/1.1\r\nHost: ", b""), ("", b"G"), ("POST", b'{"title":'), ("POST", b"")],
)
async def test_a_request_that_stalls_is_answered_with_a_timeout(
    site: Site, monkeypatch: pytest.MonkeyPatch, part: str, body: bytes
) -> None:
    for name in ("HEAD_TIMEOUT_SECONDS", "BODY_STALL_SECONDS", "SWEEP_SECONDS"):
        monkeypatch.setattr(waiting_connections, name, 0.1)
    head = part.encode()
    if part == "POST":
        head = request(site, "POST", "/api/threads", "Content-Type: application/json\r\nContent-Length: 99\r\n")
    status, response = await send_raw(site, head + body)
    assert (status, json.loads(response)["error"]["code"]) == (408, "REQUEST_TIMEOUT")


async def test_a_connection_without_a_byte_is_closed_silently(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD_TIMEOUT_SECONDS", "SWEEP_SECONDS"):
        monkeypatch.setattr(waiting_connections, name, 0.1)
    host, port = site.host.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    assert await reader.read() == b""
    writer.close()


async def test_a_slow_upload_that_makes_progress_is_served(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_connections, "HEAD_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(waiting_connections, "SWEEP_SECONDS", 0.05)
    body = json.dumps({"title": "slow"}).encode()
    host, port = site.host.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    writer.write(request(site, "POST", "/api/threads", length))
    for byte in body:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.05)
    assert (await reader.readline()).startswith(b"HTTP/1.1 201")
    writer.close()


async def test_of_too_many_waiting_connections_the_idlest_is_closed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = waiting_connections.WaitingConnections(max_files=1024)._address_limit
    host, port = site.host.split(":")
    first_reader, first = await asyncio.open_connection(host, int(port))
    length = "Content-Type: application/json\r\nContent-Length: 2\r\n"
    first.write(request(site, "POST", "/api/threads", length) + b"{")
    await first.drain()
    idlest_reader, idlest = await asyncio.open_connection(host, int(port))
    others = [await asyncio.open_connection(host, int(port)) for _ in range(limit - 3)]
    first.write(b"}")  # it makes progress, so it is not the idlest
    assert (await first_reader.readline()).startswith(b"HTTP/1.1 201")
    others += [await asyncio.open_connection(host, int(port)) for _ in range(3)]
    assert await idlest_reader.read() == b""
    for _, writer in (*others, (first_reader, first), (idlest_reader, idlest)):
        writer.close()


def test_a_client_is_served_beside_thousands_of_half_requests(tmp_path: Path) -> None:
    raise_file_limit()  # of this process, whose child opens the connections
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < HALF_REQUESTS + 100:
        pytest.skip("this machine allows too few file descriptors for the clients")
    with run_server(tmp_path, "--quiet", max_files=FILES) as server:
        arguments = ["127.0.0.1", server.port, str(HALF_REQUESTS), f"127.0.0.1:{server.port}"]
        flood = subprocess.Popen(
            [sys.executable, "-c", FLOOD, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with flood:
            assert flood.stdout is not None
            assert flood.stdout.readline() == "ready\n"
            assert server.request("/health") == {"status": "ok"}
            assert server.request("/api/threads", {"title": "new"})["title"] == "new"
            with socket.create_connection(("127.0.0.1", int(server.port))) as connection:
                connection.sendall(f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
                assert connection.recv(100).startswith(b"HTTP/1.1 200")
