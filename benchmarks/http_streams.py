"""The server idle and with a thousand streams, compared with a bare ASGI app on the same web server.

A delivery is one piece that was sent to one subscriber; each is one event, and one comes every 100 ms. What it costs is
the least of some rounds in which both are measured in turns, so that noise falls on both alike. Memory per idle stream
is what the process grew by while they were opened, divided by them. To start is to answer `/health`.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.databases import databases
from benchmarks.http_client import Connection, Response, Tally, connect, request
from benchmarks.http_servers import Server, Start, floor_server, holdfast_server
from benchmarks.table import Table

STREAMS = 1000
DELIVERIES = 10
ROUNDS = 5
FIRST_STREAMS = 20
"""Streams opened and closed before memory is measured, so that one-time allocations are not counted."""
PAUSE = 0.5
"""Seconds for started work to finish."""
STREAM = "text/event-stream"
MEGA = 1024 * 1024
MICRO = 1_000_000


async def measure(backend: str, *, seconds: float, streams: int = STREAMS, deliveries: int = DELIVERIES) -> Table:
    """Return a table of the cost of streams and of the server itself; `seconds` is ignored."""
    table = Table(f"the server, {streams:,} streams: {backend}", ["what", "unit", "ours", "floor", "ratio", "target"])
    async with databases(backend) as (database, floor_database):
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
            async with holdfast_server(Path(folder), database) as holdfast, floor_server(floor_database) as floor:
                await asyncio.sleep(PAUSE)
                _add_start(table, holdfast, floor)
                await _add_fan_out(table, holdfast.server, floor.server, streams, deliveries)
            async with floor_server(floor_database) as floor:
                bare = await _per_stream(floor.server, ["/silence"] * streams)
            for runs in (1, streams):
                async with holdfast_server(Path(folder), database, workers=0) as holdfast:
                    each = await _per_idle_stream(holdfast.server, runs=runs, streams=streams)
                _add(table, f"an idle stream, of {runs:,} runs", "KB", each, bare, "40")
    return table


def _add_start(table: Table, holdfast: Start, floor: Start) -> None:
    _add(table, "start: CPU", "s", holdfast.cpu, floor.cpu, "1.5")
    _add(table, "start: wall time", "s", holdfast.wall, floor.wall, "")
    _add(table, "idle RSS", "MB", holdfast.server.memory / MEGA, floor.server.memory / MEGA, "90")


async def _add_fan_out(table: Table, holdfast: Server, floor: Server, streams: int, deliveries: int) -> None:
    """Measure one subscriber and many: the difference is the cost of the added ones."""
    rounds = [
        [
            await _per_run_delivery(holdfast, 1, deliveries),
            await _per_run_delivery(holdfast, streams, deliveries),
            await _per_delivery(floor, "/beat", 1, deliveries),
            await _per_delivery(floor, "/beat", streams, deliveries),
        ]
        for _ in range(ROUNDS)
    ]
    one, many, bare_one, bare_many = map(min, zip(*rounds, strict=True))
    _add(table, "delivery: CPU, with what the run costs", "µs", many / streams * MICRO, bare_many / streams * MICRO, "")
    each, bare = [(all_ - alone) / (streams - 1) * MICRO for all_, alone in ((many, one), (bare_many, bare_one))]
    _add(table, "delivery: CPU of one more", "µs", each, bare, "1.3 times")


async def _per_run_delivery(server: Server, streams: int, deliveries: int) -> float:
    run = await start_run(server, agent="slow")
    each = await _per_delivery(server, sse_path(run), streams, deliveries)
    await send(server, "POST", f"/api/runs/{run}/cancel")
    return each


async def _per_delivery(server: Server, path: str, streams: int, deliveries: int) -> float:
    """Return the CPU seconds to deliver one event to all subscribers."""
    tally = Tally()
    subscribers = await subscribe(server, [path] * streams, tally)
    used, before = server.cpu, tally.pieces
    await tally.wait_for_pieces(before + streams * deliveries)
    delivered = (tally.pieces - before) / streams
    each = (server.cpu - used) / delivered
    await hang_up(subscribers)
    return each


async def _per_idle_stream(server: Server, *, runs: int, streams: int) -> float:
    """Return the kilobytes of the stream of an idle run."""
    paths = [sse_path(await start_run(server, agent="default")) for _ in range(runs)]
    return await _per_stream(server, paths * (streams // runs))


async def _per_stream(server: Server, paths: Sequence[str]) -> float:
    await hang_up(await subscribe(server, paths[:FIRST_STREAMS], Tally()))
    before = server.memory
    subscribers = await subscribe(server, paths, Tally())
    growth = server.memory - before
    await hang_up(subscribers)
    return growth / len(paths) / 1024


async def subscribe(server: Server, paths: Sequence[str], tally: Tally) -> Sequence[Connection]:
    """Open streams, and return once all have started."""
    subscribers = await connect(server.port, count=len(paths))
    payload = [request("GET", path, accept=STREAM) for path in paths]
    await asyncio.gather(*(each.count(one, tally) for each, one in zip(subscribers, payload, strict=True)))
    await asyncio.sleep(PAUSE)
    return subscribers


async def hang_up(subscribers: Sequence[Connection]) -> None:
    """Close streams, and wait until the server has noticed."""
    for subscriber in subscribers:
        subscriber.close()
    await asyncio.sleep(PAUSE)


async def start_run(server: Server, *, agent: str) -> str:
    """Start a run on a new thread, and return its id."""
    thread = (await send(server, "POST", "/api/threads", body={"agent_type": agent})).json()["id"]
    response = await send(server, "POST", f"/api/threads/{thread}/runs", body={"input": "Go on."})
    return response.json()["id"]


async def send(server: Server, method: str, path: str, *, body: Any = None) -> Response:
    """Send one request on a connection of its own."""
    (connection,) = await connect(server.port, count=1)
    response = await connection.send(request(method, path, body=body))
    connection.close()
    return response


def sse_path(run: str) -> str:
    """Return the path of the stream of a run."""
    return f"/api/runs/{run}/sse"


def _add(table: Table, what: str, unit: str, holdfast: float, floor: float, target: str) -> None:
    table.add(what, unit, holdfast, floor, holdfast / floor if floor else "", target)
