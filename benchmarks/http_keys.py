"""What it costs to check a key: the same small requests to the real server, before it has keys and with them.

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
    """Return a table of what a request costs, by what its client comes with."""
    table = Table(f"keys, {CLIENTS} clients: {backend}", ["came with", "requests/s", "CPU µs", "more than none"])
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        async with databases(backend) as (where, _), holdfast_server(Path(folder), where, workers=0) as ours:
            server = ours.server
            rate, none = await _cost(server, request("GET", "/version"), seconds)
            table.add("nothing, as there are no keys", rate, none, "")
            root = await _key(server, None, name="root", scope="admin", every_space=True)
            for said, limit in (("a key", None), ("a key with a rate limit", OFTEN)):
                secret = await _key(server, root, name=said, scope="read", rate_limit=limit)
                rate, cost = await _cost(server, request("GET", "/version", key=secret), seconds)
                table.add(said, rate, cost, cost - none)
    return table


async def _key(server: Server, by: str | None, **body: object) -> str:
    (connection,) = await connect(server.port, many=1)
    made = await connection.ask(request("POST", "/api/keys", body=body, key=by))
    connection.close()
    return made.json()["secret"]


async def _cost(server: Server, asked: bytes, seconds: float) -> tuple[float, float]:
    """Return requests in a second and the least CPU of one in microseconds, of several rounds."""
    connections = await connect(server.port, many=CLIENTS)
    rounds = [await _round(server, connections, asked, seconds / ROUNDS) for _ in range(ROUNDS)]
    for connection in connections:
        connection.close()
    return max(rate for rate, _ in rounds), min(cost for _, cost in rounds)


async def _round(
    server: Server, connections: Sequence[Connection], asked: bytes, seconds: float
) -> tuple[float, float]:
    began, used = time.perf_counter(), server.cpu
    counts = await asyncio.gather(*(_repeat(each, asked, until=began + seconds) for each in connections))
    return sum(counts) / (time.perf_counter() - began), (server.cpu - used) / sum(counts) * MICRO


async def _repeat(connection: Connection, asked: bytes, *, until: float) -> int:
    count = 0
    while time.perf_counter() < until:
        answer = await connection.ask(asked)
        assert answer.status == 200, answer.body
        count += 1
    return count
