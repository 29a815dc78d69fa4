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
from uvicorn.server import ServerState

from holdfast.api import waiting_connections
from holdfast.api.asgi import AsgiScope, Receive, Send
from holdfast.api.uvicorn_protocols import HttpProtocol, uvicorn_config
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


class DiscardingTransport(asyncio.Transport):
    """A transport of a client that reads all."""

    closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing


class HalfRequests:
    """Connections of one address that have sent the head of a request and one byte of its body."""

    HEAD: Final = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n{"

    def __init__(self) -> None:
        self.waiting = waiting_connections.WaitingConnections(max_files=8)
        self.started = 0

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        self.started += 1
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def open(self, number: int) -> list[HttpProtocol]:
        config, opened = uvicorn_config(self, shutdown_grace_seconds=1), []
        config.load()
        for _ in range(number):
            opened.append(HttpProtocol(config, ServerState(), {}, waiting=self.waiting))
            opened[-1].connection_made(DiscardingTransport())
            opened[-1].data_received(self.HEAD)
        await asyncio.sleep(0)
        return opened


async def test_the_app_gets_a_half_request_at_once_unless_connections_are_crowded() -> None:
    requests = HalfRequests()
    crowded = waiting_connections.MIN_WAITING // waiting_connections.ADDRESS_SHARE // waiting_connections.CROWDED_SHARE
    await requests.open(crowded)
    assert requests.started == crowded
    await requests.open(crowded)
    assert requests.started == crowded


@pytest.mark.parametrize("rest", [b"x" * 99_998, b"x" * 70_000])
async def test_a_held_request_starts_once_its_body_is_complete_or_fills_the_buffer(rest: bytes) -> None:
    requests = HalfRequests()
    *_, last = await requests.open(30)
    started = requests.started
    last.data_received(rest)
    last.data_received(b"")
    await asyncio.sleep(0)
    assert requests.started == started + 1


async def test_a_held_request_starts_with_the_next_sweep() -> None:
    requests = HalfRequests()
    opened = await requests.open(30)
    assert requests.started < 30
    opened[-1].close_waiting("too many")
    requests.waiting._close_expired()
    await asyncio.sleep(0)
    assert requests.started == 29, "a closed connection starts nothing"


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
