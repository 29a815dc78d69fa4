"""A run of an agent on an OpenAI-compatible server in another process, and the same calls without Holdfast.

What the bare calls cost is the provider's library: its client, and pydantic-ai's model layer. The rest is ours.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from benchmarks.agents import run_agent
from benchmarks.databases import databases
from benchmarks.table import Table
from holdfast.bootstrap.workspace import Holdfast
from holdfast.bootstrap.workspace import open as open_workspace
from holdfast.domain.ids import RunId
from holdfast.domain.message import NewMessage, Role
from holdfast.ports.model import Model, ModelRequest

CHUNKS = (20, 200)
CONCURRENCY = 4
MODEL = "local:stand-in"


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of CPU milliseconds."""
    columns = ["chunks", "CPU ms per run", "library's", "ours", "ours per chunk"]
    table = Table(f"a run on an OpenAI-compatible server: {backend}", columns)
    for chunks in CHUNKS:
        async with databases(backend) as (where, _), _served(chunks) as url, _opened(where, url) as holdfast:
            model = holdfast.models.find(MODEL)
            await _cpu(partial(run_agent, holdfast), seconds=0.5)
            holdfast_seconds, library_seconds = [], []
            for _ in range(3):
                library_seconds.append(await _cpu(partial(_bare_call, model), seconds=seconds / 3))
                holdfast_seconds.append(await _cpu(partial(run_agent, holdfast), seconds=seconds / 3))
            whole, bare = min(holdfast_seconds) * 1000, min(library_seconds) * 1000
            table.add(chunks, whole, bare, whole - bare, (whole - bare) / chunks)
    return table


async def _bare_call(model: Model) -> None:
    message = NewMessage(role=Role.USER, content="word " * 42)
    async with model.stream(ModelRequest(run_id=RunId("run"), system="Answer the user.", messages=[message])) as deltas:
        async for _ in deltas:
            pass


async def _cpu(work: Callable[[], Awaitable[None]], *, seconds: float) -> float:
    """Return CPU seconds of this process per call."""
    until, started = time.perf_counter() + seconds, time.process_time()

    async def repeat() -> int:
        done = 0
        while time.perf_counter() < until:
            await work()
            done += 1
        return done

    done = sum(await asyncio.gather(*(repeat() for _ in range(CONCURRENCY))))
    return (time.process_time() - started) / done


@asynccontextmanager
async def _served(chunks: int) -> AsyncIterator[str]:
    command = (sys.executable, "-m", "holdfast.testing.openai_server", "--chunks", str(chunks), "--text", "word " * 200)
    server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    try:
        yield (await server.stdout.readline()).decode().strip()
    finally:
        server.terminate()
        await server.wait()


@asynccontextmanager
async def _opened(database: str | Path, url: str) -> AsyncIterator[Holdfast]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        agent = Path(folder) / "agents" / "default"
        agent.mkdir(parents=True)
        (agent / "AGENT.md").write_text("Answer the user.\n")
        (agent / "agent.json").write_text(json.dumps({"model": MODEL}))
        provider = {"api": "openai", "base_url": url}
        (Path(folder) / "settings.json").write_text(json.dumps({"providers": {"local": provider}}))
        async with open_workspace(folder, database=database) as holdfast:
            yield holdfast
