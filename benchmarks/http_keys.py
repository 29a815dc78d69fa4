"""Cost of an API key check: the same small requests to the real server without and with keys.

CPU is that of the server's process. A request is `GET /version`, which reads nothing: all that it costs beside
the web server is ours.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.databases import databases
from benchmarks.http_client import Connection, connect, request
from benchmarks.http_servers import Server, holdfast_server
from benchmarks.table import Table

CLIENTS = 8
ROUNDS = 5
MICRO = 1_000_000
OFTEN = "9999999/second"


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of the cost of a request, by kind of key."""
    table = Table(f"keys, {CLIENTS} clients: {backend}", ["came with", "requests/s", "CPU µs", "more than none"])
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        async with databases(backend) as (database, _), holdfast_server(Path(folder), database, workers=0) as holdfast:
            server = holdfast.server
            rate, none = await _cost(server, request("GET", "/version"), seconds)
            table.add("nothing, as there are no keys", rate, none, "")
            root = await _key(server, None, name="root", scope="admin", every_space=True)
            for label, limit in (("a key", None), ("a key with a rate limit", OFTEN)):
                secret = await _key(server, root, name=label, scope="read", rate_limit=limit)
                rate, cost = await _cost(server, request("GET", "/version", key=secret), seconds)
                table.add(label, rate, cost, cost - none)
    return table


async def _key(server: Server, admin_key: str | None, **body: object) -> str:
    (connection,) = await connect(server.port, count=1)
    response = await connection.send(request("POST", "/api/keys", body=body, key=admin_key))
    connection.close()
    return response.json()["secret"]


async def _cost(server: Server, payload: bytes, seconds: float) -> tuple[float, float]:
    """Return requests per second and the lowest CPU microseconds per request, of several rounds."""
    connections = await connect(server.port, count=CLIENTS)
    rounds = [await _round(server, connections, payload, seconds / ROUNDS) for _ in range(ROUNDS)]
    for connection in connections:
        connection.close()
    return max(rate for rate, _ in rounds), min(cost for _, cost in rounds)


async def _round(
    server: Server, connections: Sequence[Connection], payload: bytes, seconds: float
) -> tuple[float, float]:
    started, used = time.perf_counter(), server.cpu
    counts = await asyncio.gather(*(_repeat(each, payload, until=started + seconds) for each in connections))
    return sum(counts) / (time.perf_counter() - started), (server.cpu - used) / sum(counts) * MICRO


async def _repeat(connection: Connection, payload: bytes, *, until: float) -> int:
    count = 0
    while time.perf_counter() < until:
        response = await connection.send(payload)
        assert response.status == 200, response.body
        count += 1
    return count
