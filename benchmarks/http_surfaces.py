"""The same streamed run (20 chunks) through every surface of the server: the native one, AG-UI, and OpenAI's.

Natively each client has a thread and begins a new root on it; the other two name nothing that is there, so that each
run has a thread made for it. CPU is that of the server's process.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from benchmarks.bare_run import WORDS
from benchmarks.databases import databases
from benchmarks.http_client import Connection, connect, request
from benchmarks.http_servers import Server, holdfast_server
from benchmarks.table import Table

CLIENTS = (1, 16)
ROUNDS = 3
STREAM = "text/event-stream"
FINISHED = b"RUN_FINISHED"
DONE = b"[DONE]"

_numbers = count(1)


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of the cost of a run by API."""
    table = Table(
        f"surfaces, a streamed run: {backend}", ["surface", "clients", "runs/s", "CPU ms", "ratio to native", "failed"]
    )
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        async with databases(backend) as (database, _), holdfast_server(Path(folder), database) as holdfast:
            for clients in CLIENTS:
                native = 0.0
                for name, surface in (("native", _native), ("AG-UI", _ag_ui), ("OpenAI", _openai)):
                    requests = [await surface(holdfast.server) for _ in range(clients)]
                    rate, cost, failed = await _cost(holdfast.server, requests, seconds)
                    native = native or cost
                    table.add(name, clients, rate, cost, cost / native, failed)
    return table


async def _native(server: Server) -> Callable[[], bytes]:
    (connection,) = await connect(server.port, count=1)
    thread = (await connection.send(request("POST", "/api/threads", body={"agent_type": "default"}))).json()["id"]
    connection.close()
    payload = request("POST", f"/api/threads/{thread}/runs", body={"input": WORDS, "base_run_id": None}, accept=STREAM)
    return lambda: payload


async def _ag_ui(_: Server) -> Callable[[], bytes]:
    def next_request() -> bytes:
        number = next(_numbers)
        body = {
            "threadId": f"thread-{number}",
            "runId": f"run-{number}",
            "messages": [{"id": f"message-{number}", "role": "user", "content": WORDS}],
            "tools": [],
            "context": [],
            "state": {},
            "forwardedProps": {},
        }
        return request("POST", "/api/agents/default/run", body=body, accept=STREAM)

    return next_request


async def _openai(_: Server) -> Callable[[], bytes]:
    body = {"model": "default", "messages": [{"role": "user", "content": WORDS}], "stream": True}
    payload = request("POST", "/v1/chat/completions", body=body, accept=STREAM)
    return lambda: payload


async def _cost(server: Server, requests: list[Callable[[], bytes]], seconds: float) -> tuple[float, float, int]:
    """Return runs per second, the lowest CPU milliseconds per run, and the number of failures."""
    connections = await connect(server.port, count=len(requests))
    rates, costs, failed = [], [], 0
    for _ in range(ROUNDS):
        started, used = time.perf_counter(), server.cpu
        until = started + seconds / ROUNDS
        counts = await asyncio.gather(
            *(_repeat(*client, until=until) for client in zip(connections, requests, strict=True))
        )
        runs = sum(completed for completed, _ in counts)
        failed += sum(missed for _, missed in counts)
        rates.append(runs / (time.perf_counter() - started))
        costs.append((server.cpu - used) / max(runs, 1) * 1000)
    for connection in connections:
        connection.close()
    return max(rates), min(costs), failed


async def _repeat(connection: Connection, next_request: Callable[[], bytes], *, until: float) -> tuple[int, int]:
    """Return the numbers of completed and failed runs."""
    completed = missed = 0
    while time.perf_counter() < until:
        response = await connection.send(next_request())
        complete = response.status in (200, 201) and (FINISHED in response.body or DONE in response.body)
        completed, missed = completed + complete, missed + (not complete)
    return completed, missed
