"""Runs over HTTP: the real server in a separate process, with an agent on the scripted model (20 chunks).

Each client has one connection and one thread, made before anything is measured, and each run begins a new root on that
thread, so that none has more to read than the first: what long threads cost is measured elsewhere. A run is over when
its whole answer is here: the run itself as JSON (`?wait=`), or its stream to the end. CPU is that of the server's
process. The floor is a process with the same web server that makes the same rows durable, and sends the same bytes.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

import msgspec

from benchmarks.bare_run import WORDS
from benchmarks.databases import databases
from benchmarks.http_client import Connection, Response, connect, request
from benchmarks.http_servers import PACE_MS, Server, floor_server, holdfast_server
from benchmarks.table import Table

CLIENTS = (1, 16, 64)
ROUNDS = 3
AGENTS = {0: "default", PACE_MS: "paced"}
STREAM = "text/event-stream"
COLUMNS = [
    "delay ms",
    "answer",
    "clients",
    "runs/s",
    "CPU ms",
    "first event p50 ms",
    "p99 ms",
    "failed",
    "floor runs/s",
    "CPU ms",
    "first event p50 ms",
    "ratio of CPU",
    "target",
]
TARGETS = {
    (0, STREAM, 1): "4 ms of CPU, first event 4 ms",
    (0, STREAM, 16): "3 ms of CPU",
    (0, STREAM, 64): "none fails",
}


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """The results of all clients of one measurement."""

    responses: Sequence[Response]
    seconds: float
    cpu: float

    @property
    def failed(self) -> int:
        """The number of runs that did not complete."""
        return sum(not _completed(response) for response in self.responses)

    @property
    def per_second(self) -> float:
        """Runs per second."""
        return len(self.responses) / self.seconds

    @property
    def cpu_ms(self) -> float:
        """CPU of the server per run."""
        return self.cpu / len(self.responses) * 1000


async def measure(backend: str, *, seconds: float, clients: Sequence[int] = CLIENTS) -> Table:
    """Return a table of runs per second, their cost, and the time to the first event."""
    table = Table(f"runs over HTTP, 20 chunks: {backend}", list(COLUMNS))
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        async with (
            databases(backend) as (database, floor_database),
            holdfast_server(Path(folder), database) as holdfast,
            floor_server(floor_database) as floor,
        ):
            for delay in AGENTS:
                for accept in ("application/json", STREAM):
                    for many in clients:
                        table.add(*await _row(holdfast.server, floor.server, delay, accept, many, seconds))
    return table


async def _row(holdfast: Server, floor: Server, delay: int, accept: str, clients: int, seconds: float) -> list[object]:
    """Measure both servers in turns, so that noise affects them equally."""
    payload = [run_request(thread, accept) for thread in await make_threads(holdfast, AGENTS[delay], clients)]
    floor_payload = [run_request("thr_1", accept, delay_ms=delay)] * clients
    rates: list[Rate] = []
    bare: list[Rate] = []
    for _ in range(ROUNDS):
        rates.append(await measure_rate(holdfast, payload, seconds / ROUNDS))
        bare.append(await measure_rate(floor, floor_payload, seconds / ROUNDS))
    cpu, bare_cpu = min(rate.cpu_ms for rate in rates), min(rate.cpu_ms for rate in bare)
    return [
        delay,
        "stream" if accept == STREAM else "JSON",
        clients,
        max(rate.per_second for rate in rates),
        cpu,
        *_firsts(rates),
        sum(rate.failed for rate in rates),
        max(rate.per_second for rate in bare),
        bare_cpu,
        _firsts(bare)[0],
        cpu / bare_cpu,
        TARGETS.get((delay, accept, clients), ""),
    ]


async def make_threads(server: Server, agent: str, many: int) -> list[str]:
    """Create a thread for each client."""
    (connection,) = await connect(server.port, count=1)
    payload = request("POST", "/api/threads", body={"agent_type": agent})
    threads = [(await connection.send(payload)).json()["id"] for _ in range(many)]
    connection.close()
    return threads


def run_request(thread: str, accept: str, **more: object) -> bytes:
    """Return the request that starts a run as a new root of a thread."""
    wait = "" if accept == STREAM else "?wait=60"
    body = {"input": WORDS, "base_run_id": None, **more}
    return request("POST", f"/api/threads/{thread}/runs{wait}", body=body, accept=accept)


async def measure_rate(server: Server, payload: Sequence[bytes], seconds: float) -> Rate:
    """Let each client repeat its request."""
    connections = await connect(server.port, count=len(payload))
    started, used = time.perf_counter(), server.cpu
    answers = await asyncio.gather(
        *(_repeat(*client, until=started + seconds) for client in zip(connections, payload, strict=True))
    )
    rate = Rate(
        responses=[response for some in answers for response in some],
        seconds=time.perf_counter() - started,
        cpu=server.cpu - used,
    )
    for connection in connections:
        connection.close()
    return rate


async def _repeat(connection: Connection, payload: bytes, *, until: float) -> list[Response]:
    answers = []
    while time.perf_counter() < until:
        answers.append(await connection.send(payload))
    return answers


def _completed(response: Response) -> bool:
    return response.status in (200, 201) and any(words in response.body for words in (b"RUN_FINISHED", b'"completed"'))


def _firsts(rates: Sequence[Rate]) -> tuple[object, object]:
    """Return the median and the 99th percentile of the milliseconds until the first event, over all rounds."""
    milliseconds = [
        response.first_event * 1000 for rate in rates for response in rate.responses if response.first_event
    ]
    if len(milliseconds) < 2:
        return "", ""
    cuts = quantiles(milliseconds, n=100, method="inclusive")
    return cuts[49], cuts[98]
