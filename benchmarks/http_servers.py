"""The measured servers, each a separate process: Holdfast and the floor."""

import asyncio
import compileall
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil

import holdfast
from benchmarks.bare_run import CHUNKS, WORDS
from benchmarks.http_client import connect, request

ROOT = Path(holdfast.__file__).parent
HOLDFAST = ("-c", "from holdfast.cli.main import main; main()")
FLOOR = ("-m", "benchmarks.http_floor")
WORKERS = 64
PACE_MS = 10
OUTPUT_INTERVAL_MS = 100
"""Interval of the output of a run with many followers: slow enough that each piece is one event."""

AGENTS: Mapping[str, Mapping[str, Any]] = {
    "default": {"say": WORDS, "chunks": CHUNKS},
    "paced": {"say": WORDS, "chunks": CHUNKS, "delay_ms": PACE_MS},
    "slow": {"say": WORDS, "chunks": len(WORDS), "delay_ms": OUTPUT_INTERVAL_MS},
}
"""The scripted agents of the served workspace, with their turns."""


class Server:
    """A running server and its resource usage."""

    def __init__(self, pid: int, url: str) -> None:
        self.pid = pid
        self.url = url
        self.port = int(url.rpartition(":")[2])

    @property
    def cpu(self) -> float:
        """CPU seconds of the process with all its threads."""
        return cpu_of(self.pid)

    @property
    def memory(self) -> int:
        """Resident memory in bytes."""
        return int(psutil.Process(self.pid).memory_info().rss)


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of starting a server."""

    server: Server
    cpu: float
    wall: float


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process; `/proc` and psutil count them only in hundredths."""
    return time.clock_gettime(~pid << 3 | 2)  # the clock id of clock_getcpuclockid(3)


@asynccontextmanager
async def holdfast_server(
    folder: Path, database: str | Path, *, workers: int = WORKERS, bus: str | None = None
) -> AsyncIterator[Start]:
    """Run `holdfast serve` on a workspace with a few scripted agents."""
    for name, turn in AGENTS.items():
        agent = folder / "agents" / name
        agent.mkdir(parents=True, exist_ok=True)
        (agent / "AGENT.md").write_text("Answer the user.\n")
        (agent / "agent.json").write_text(json.dumps({"model": "scripted:script.json"}))
        (agent / "script.json").write_text(json.dumps({"turns": [turn], "after_last": "repeat"}))
    options = ("--workspace", str(folder), "--database", str(database), "--port", "0", "--workers", str(workers))
    async with _started(*HOLDFAST, "serve", "--json", *options, *(("--bus", bus) if bus else ())) as start:
        yield start


@asynccontextmanager
async def holdfast_worker(folder: Path, server: Server, *, concurrency: int = WORKERS) -> AsyncIterator[Server]:
    """Run `holdfast worker` for a server, and yield its process."""
    options = ("--url", f"http://127.0.0.1:{server.port}", "--folder", str(folder), "--concurrency", str(concurrency))
    command = (sys.executable, *HOLDFAST, "worker", "--json", "--quiet", *options)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        if not await process.stdout.readline():
            raise RuntimeError("the worker did not start")
        yield Server(process.pid, server.url)
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def floor_server(database: str | Path) -> AsyncIterator[Start]:
    """Serve the same bytes without Holdfast."""
    async with _started(*FLOOR, str(database)) as start:
        yield start


@asynccontextmanager
async def _started(*command: str) -> AsyncIterator[Start]:
    """Start a process that prints its URL on the first line; its log goes to a file.

    Its modules are compiled, as they are at every start but the first.
    """
    await asyncio.to_thread(compileall.compile_dir, ROOT, quiet=1)
    started = time.perf_counter()
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=log
        )
        assert process.stdout is not None
        try:
            announcement = await process.stdout.readline()
            if not announcement:
                await process.wait()
                log.seek(0)
                raise RuntimeError(f"the server did not start: {log.read().decode()}")
            server = Server(process.pid, json.loads(announcement)["url"])
            (connection,) = await connect(server.port, count=1)
            assert (await connection.send(request("GET", "/health"))).status == 200
            yield Start(server=server, cpu=server.cpu, wall=time.perf_counter() - started)
            connection.close()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
