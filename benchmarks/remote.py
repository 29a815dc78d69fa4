"""The runtime apart: runs by workers over the control RPC beside runs in the server, and streams across replicas.

Both sides of a ratio are measured in turns. CPU is that of the server and its workers together; the latency is that of
a whole run. Clients without a pause keep the machine busy, so that their latency says how many runs it can do; clients
with one have the same load on both sides. Throughput is of paced runs, whose limit is the places of the workers and not
the machine's cores. Deliveries go from a run on one replica to readers on another, over LISTEN/NOTIFY and over NATS.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import quantiles
from typing import Final

from benchmarks.databases import databases
from benchmarks.http_client import Tally, connect
from benchmarks.http_runs import make_threads, measure_rate, run_request
from benchmarks.http_servers import Server, Start, holdfast_server, holdfast_worker
from benchmarks.http_streams import MICRO, hang_up, send, sse_path, start_run, subscribe
from benchmarks.table import Table
from tests.support.nats import NatsServer

ROUNDS: Final = 3
LOADS: Final = ((1, 0.0), (16, 0.0), (16, 0.32))
"""Clients, and the seconds from one run of a client to its next one; at 0 it starts when the last one has ended."""
PLACES: Final = 4
"""Runs at a time of each worker, where workers are added."""
READERS: Final = 1_000
DELIVERIES: Final = 10
JSON: Final = "application/json"


async def measure(backend: str, *, seconds: float, readers: int = READERS) -> list[Table]:
    """Return tables of the cost of the RPC, of the throughput of workers, and of deliveries across replicas."""
    tables = [await _measure_rpc(backend, seconds), await _measure_workers(backend, seconds)]
    return [*tables, await _measure_deliveries(readers)] if backend == "postgres" else tables


async def _measure_rpc(backend: str, seconds: float) -> Table:
    columns = [
        "clients",
        "runs/s of all",
        "CPU ms in process",
        "CPU ms over RPC",
        "ratio",
        "target",
        "p50 ms",
        "p99 ms",
    ]
    table = Table(f"a run over the control RPC: {backend}", [*columns, "added p50 ms", "added p99 ms", "target"])
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        async with (
            databases(backend) as (database, other),
            holdfast_server(Path(folder) / "one", database) as alone,
            holdfast_server(Path(folder) / "two", other, workers=0) as control,
            holdfast_worker(Path(folder) / "worker", control.server) as worker,
        ):
            for clients, pause in LOADS:
                here = [run_request(thread, JSON) for thread in await make_threads(alone.server, "default", clients)]
                there = [run_request(thread, JSON) for thread in await make_threads(control.server, "default", clients)]
                rounds = [
                    (
                        await _cost([alone.server], here, seconds / ROUNDS, pause=pause),
                        await _cost([control.server, worker], there, seconds / ROUNDS, pause=pause),
                    )
                    for _ in range(ROUNDS)
                ]
                cpu, apart = (min(each[side][0] for each in rounds) for side in (0, 1))
                p50, p99 = (min(each[0][1][at] for each in rounds) for at in (49, 98))
                far50, far99 = (min(each[1][1][at] for each in rounds) for at in (49, 98))
                load = f"{clients / pause:.0f}" if pause else "as many as it can"
                added = (far50 - p50, far99 - p99, "3 ms" if pause or clients == 1 else "")
                table.add(clients, load, cpu, apart, apart / cpu, "1.6", far50, far99, *added)
    return table


async def _cost(
    processes: Sequence[Server], payload: Sequence[bytes], seconds: float, *, pause: float
) -> tuple[float, list[float]]:
    """Return the CPU milliseconds of a run in all processes, and the percentiles of its latency."""
    used = [process.cpu for process in processes]
    started = time.perf_counter()
    connections = await connect(processes[0].port, count=len(payload))
    timings: list[float] = []

    async def repeat(index: int) -> None:
        next_at = started + pause * index / len(payload)
        while time.perf_counter() < started + seconds:
            await asyncio.sleep(max(next_at - time.perf_counter(), 0))
            next_at += pause
            begun = time.perf_counter()
            response = await connections[index].send(payload[index])
            assert response.status in (200, 201) and b'"completed"' in response.body, response.body
            timings.append((time.perf_counter() - begun) * 1000)

    await asyncio.gather(*map(repeat, range(len(payload))))
    cpu = sum(process.cpu for process in processes) - sum(used)
    for connection in connections:
        connection.close()
    return cpu / len(timings) * 1000, quantiles([*timings, timings[-1]], n=100, method="inclusive")


async def _measure_workers(backend: str, seconds: float) -> Table:
    table = Table(f"workers with {PLACES} places, paced runs: {backend}", ["workers", "runs/s", "of one worker"])
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        async with (
            databases(backend) as (database, _),
            holdfast_server(Path(folder) / "control", database, workers=0) as control,
            AsyncExitStack() as stack,
        ):
            payload = [run_request(thread, JSON) for thread in await make_threads(control.server, "paced", 5 * PLACES)]
            first, running = 0.0, 0
            for workers in (1, 2, 4):
                while running < workers:
                    place = Path(folder) / f"worker-{running}"
                    await stack.enter_async_context(holdfast_worker(place, control.server, concurrency=PLACES))
                    running += 1
                await measure_rate(control.server, payload[:1], 0.5)
                rate = (await measure_rate(control.server, payload, seconds)).per_second
                first = first or rate
                table.add(workers, rate, rate / first)
    return table


async def _measure_deliveries(readers: int) -> Table:
    columns = ["bus", "CPU µs a delivery, reading replica", "CPU ms an event, both replicas", "deliveries/s"]
    table = Table(f"a run on one replica, {readers:,} readers on another", columns)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        async with databases("postgres") as (database, other), NatsServer() as nats, AsyncExitStack() as stack:
            pairs: dict[str, list[Start]] = {}
            for name, where, bus in (("LISTEN/NOTIFY", database, None), ("NATS", other, nats.url())):
                pairs[name] = [
                    await stack.enter_async_context(
                        holdfast_server(Path(folder) / f"{name[:4]}{number}", where, workers=workers, bus=bus)
                    )
                    for number, workers in enumerate((4, 0))
                ]
            for name, (writer, reader) in pairs.items():
                rounds = [await _deliver(writer.server, reader.server, readers) for _ in range(ROUNDS)]
                table.add(name, *map(min, zip(*(each[:2] for each in rounds), strict=True)), max(r[2] for r in rounds))
    return table


async def _deliver(writer: Server, reader: Server, readers: int) -> tuple[float, float, float]:
    run, tally = await start_run(writer, agent="slow"), Tally()
    subscribers = await subscribe(reader, [sse_path(run)] * readers, tally)
    used, before, started = (writer.cpu, reader.cpu), tally.pieces, time.perf_counter()
    await tally.wait_for_pieces(before + readers * DELIVERIES)
    pieces = tally.pieces - before
    wrote, read = writer.cpu - used[0], reader.cpu - used[1]
    rate = pieces / (time.perf_counter() - started)
    await send(writer, "POST", f"/api/runs/{run}/cancel")
    await hang_up(subscribers)
    return read / pieces * MICRO, (wrote + read) / (pieces / readers) * 1000, rate
