"""Runs on a model provider, beside the same runs of openai-agents; long requests; and many paced streams.

The provider is a stand-in in another process (`provider_server`), whose Responses API both use, as openai-agents does
by default. openai-agents runs in a third process, in a virtual environment that is made on first use (`.venv/peers`). A
ratio is our CPU time per run, with the store, by theirs: with its SQLite session, which keeps the conversation but not
the run, and without, where nothing is kept.
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
from statistics import quantiles
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from msgspec import Meta

from benchmarks.agents import run_agent
from benchmarks.databases import databases
from benchmarks.table import Table
from holdfast.bootstrap.workspace import OpenWorkspace, Options, open_workspace
from holdfast.domain.ids import RunId
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.model_provider import ProviderSettings
from holdfast.domain.tool import ToolClass
from holdfast.models.registry import ModelRegistry
from holdfast.ports.model import Model, ModelRequest, ToolDefinition
from holdfast.tools.tool import Tool, ToolContext, ToolResult
from holdfast.tools.typed_tool import ToolArguments, TypedTool, tool_spec

PEER = "openai-agents==0.24.0"
ROUNDS = 3
LAG_SAMPLE_SECONDS = 0.005
MESSAGES, TOOLS = 100, 20
STREAMS = (16, 200, 1000)
CALLS: dict[Literal["openai", "openai-responses", "anthropic"], str] = {
    "openai": "some-model",
    "openai-responses": "gpt-5",
    "anthropic": "claude-sonnet-5",
}


class _Row(NamedTuple):
    """One kind of runs."""

    name: str
    kind: str
    chunks: int
    clients: int
    streamed: bool
    bound: float
    """The highest ratio that is acceptable."""


ROWS = (
    _Row("one call", "text", 20, 1, streamed=False, bound=0.75),
    _Row("tool + answer", "tool", 20, 1, streamed=False, bound=0.75),
    _Row("streamed", "text", 100, 1, streamed=True, bound=0.5),
    _Row("one call", "text", 20, 16, streamed=False, bound=0.45),
    _Row("tool + answer", "tool", 20, 16, streamed=False, bound=0.45),
    _Row("streamed", "text", 100, 16, streamed=True, bound=0.3),
    _Row("paced stream", "paced", 100, 16, streamed=True, bound=0.5),
)


async def measure(backend: str, *, seconds: float) -> list[Table]:
    """Return the tables of runs beside openai-agents, of long requests, and of paced streams."""
    async with _server() as url:
        return [
            await _runs_beside_peer(backend, url, seconds),
            await _long_requests(url, seconds),
            await _paced_streams(backend, url),
        ]


async def _runs_beside_peer(backend: str, url: str, seconds: float) -> Table:
    columns = ["run", "clients", "CPU ms", "openai-agents with a session", "ratio", "at most", "without", "ratio"]
    table = Table(f"CPU of a run on a provider, beside {PEER}: {backend}", columns)
    async with databases(backend) as (database, _), _opened(database, url) as holdfast, _peer(url) as peer:
        for row in ROWS:
            work = partial(run_agent, holdfast, agent=f"{row.kind}-{row.chunks}")
            await asyncio.gather(*(work() for _ in range(row.clients)))
            ours, kept, not_kept = [], [], []
            for _ in range(ROUNDS):
                kept.append(await peer(row, seconds=seconds / ROUNDS, session=True))
                ours.append(await _cpu_ms(work, clients=row.clients, seconds=seconds / ROUNDS))
                not_kept.append(await peer(row, seconds=seconds / ROUNDS, session=False))
            cpu, with_session, without = min(ours), min(kept), min(not_kept)
            cells = (cpu, with_session, cpu / with_session, row.bound, without, cpu / without)
            table.add(row.name, row.clients, *cells)
    return table


async def _long_requests(url: str, seconds: float) -> Table:
    """Measure calls with a long conversation and many tools, on both lanes."""
    table = Table(
        f"a model call with {MESSAGES} messages and {TOOLS} tools, answered in one chunk",
        ["API", "CPU ms", "at most", "CPU ms by the provider's library"],
    )
    for api, name in CALLS.items():
        costs = []
        for off in ([], ["house"]):
            settings = ProviderSettings(api=api, base_url=f"{url}/text/1" + ("" if api == "anthropic" else "/v1"))
            async with ModelRegistry({"house": settings}, direct_lane_off=off) as models:
                work = partial(_call, models.find(f"house:{name}"), _long_request())
                await work()
                costs.append(min([await _cpu_ms(work, clients=1, seconds=seconds / ROUNDS) for _ in range(ROUNDS)]))
        table.add(api, costs[0], 4.0, costs[1])
    return table


async def _paced_streams(backend: str, url: str) -> Table:
    """Measure many streams of 100 chunks, 10 ms apart, in one process: each takes at least 1.0 s."""
    columns = ["streams", "wall s", "at most", "loop lag p50 ms", "p99", "p99 at most", "CPU of it", "CPU µs per chunk"]
    table = Table(f"paced streams in one process, at least 1.0 s each: {backend}", columns)
    for streams in STREAMS:
        async with databases(backend) as (database, _), _opened(database, url, workers=streams) as holdfast:
            work = partial(run_agent, holdfast, agent="paced-100")
            await work()
            rounds = [await _paced_round([work] * streams) for _ in range(ROUNDS)]
            wall, p50, p99, p99_cpu, cpu = map(min, zip(*rounds, strict=True))
            bounds = (2.0, 150) if streams == 200 else ("", "")
            table.add(streams, wall, bounds[0], p50, p99, bounds[1], p99_cpu, cpu * 1e6 / (streams * 100))
    return table


async def _paced_round(works: list[Callable[[], Awaitable[object]]]) -> tuple[float, ...]:
    """Return wall seconds; the loop lag in milliseconds, its median and 99th percentile, and that of CPU; CPU seconds.

    On a busy machine the loop is also late because other processes run: its CPU between two turns is ours alone.
    """
    started, used = time.perf_counter(), time.process_time()
    async with _loop_lag() as lags:
        await asyncio.gather(*(work() for work in works))
    wall, cpu = time.perf_counter() - started, time.process_time() - used
    late, busy = (quantiles(values, n=100) for values in zip(*lags, strict=True))
    return wall, late[49], late[98], busy[98], cpu


@asynccontextmanager
async def _loop_lag() -> AsyncIterator[list[tuple[float, float]]]:
    """Collect by how many milliseconds the event loop is late, and its CPU between two turns, in the block."""
    lags: list[tuple[float, float]] = []

    async def sample() -> None:
        while True:
            due, used = time.perf_counter() + LAG_SAMPLE_SECONDS, time.thread_time()
            await asyncio.sleep(LAG_SAMPLE_SECONDS)
            lags.append((max(0.0, time.perf_counter() - due) * 1000, (time.thread_time() - used) * 1000))

    async with asyncio.TaskGroup() as tasks:
        sampler = tasks.create_task(sample())
        yield lags
        sampler.cancel()


async def _call(model: Model, request: ModelRequest) -> None:
    async with model.stream(request) as deltas:
        async for _ in deltas:
            pass


def _long_request() -> ModelRequest:
    messages = [
        NewMessage(role=Role.ASSISTANT if number % 2 else Role.USER, content="word " * 42)
        for number in range(MESSAGES - 1)
    ]
    tools = [
        ToolDefinition(name=f"look_{number}", description=_LOOK.description, parameters=_LOOK.parameters)
        for number in range(TOOLS)
    ]
    return ModelRequest(
        run_id=RunId("run"),
        system="Answer the user.",
        messages=[*messages, NewMessage(role=Role.USER, content="word " * 42)],
        tools=tools,
    )


async def _cpu_ms(work: Callable[[], Awaitable[object]], *, clients: int, seconds: float) -> float:
    """Return CPU milliseconds of this process per call."""
    until, used = time.perf_counter() + seconds, time.process_time()

    async def repeat() -> int:
        done = 0
        while time.perf_counter() < until:
            await work()
            done += 1
        return done

    done = sum(await asyncio.gather(*(repeat() for _ in range(clients))))
    return (time.process_time() - used) * 1000 / done


class _LookArguments(ToolArguments, frozen=True, kw_only=True):
    """Look around."""

    place: Annotated[str, Meta(description="The place to look at.")] = "here"
    depth: Annotated[int, Meta(description="How deep to look.")] = 1


_LOOK = tool_spec(_LookArguments, name="look", kind=ToolClass.IDEMPOTENT)


def _look() -> Tool:
    async def run(call: ToolContext, arguments: _LookArguments) -> ToolResult:
        return ToolResult(content="nothing")

    return TypedTool(_LOOK, _LookArguments, run=run)


@asynccontextmanager
async def _opened(database: str | Path, url: str, *, workers: int = 64) -> AsyncIterator[OpenWorkspace]:
    """Open a workspace with an agent for each kind of answers."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        providers = {}
        for kind, chunks in {(row.kind, row.chunks) for row in ROWS}:
            name = f"{kind}-{chunks}"
            providers[name] = {"api": "openai-responses", "base_url": f"{url}/{kind}/{chunks}/v1"}
            agent = Path(folder) / "agents" / name
            agent.mkdir(parents=True)
            (agent / "AGENT.md").write_text("Answer the user.\n")
            (agent / "agent.json").write_text(json.dumps({"model": f"{name}:gpt-5", "tools": ["look"]}))
        (Path(folder) / "settings.json").write_text(json.dumps({"providers": providers}))
        options = Options(workers=workers, tools=[_look()])
        async with open_workspace(folder, database=database, options=options) as holdfast:
            yield holdfast


@asynccontextmanager
async def _process(*command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def _server() -> AsyncIterator[str]:
    async with _process(sys.executable, "-m", "benchmarks.provider_server") as server:
        assert server.stdout is not None
        yield (await server.stdout.readline()).decode().strip()


class _Peer(Protocol):
    """openai-agents."""

    async def __call__(self, row: _Row, *, seconds: float, session: bool) -> float:
        """Return its CPU milliseconds per run."""


@asynccontextmanager
async def _peer(url: str) -> AsyncIterator[_Peer]:
    """Start openai-agents."""
    script = Path(__file__).with_name("provider_peer.py")
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        async with _process(str(await _peer_python()), "-P", str(script), url, f"{folder}/peer.db") as process:

            async def measure_peer(row: _Row, *, seconds: float, session: bool) -> float:
                order: dict[str, Any] = {**row._asdict(), "seconds": seconds, "session": session}
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(json.dumps(order).encode() + b"\n")
                return float(await process.stdout.readline())

            yield measure_peer


async def _peer_python() -> Path:
    """Return the Python of an environment with openai-agents, made on first use."""
    folder = Path(sys.prefix) / "peers"
    python, stamp = folder / "bin" / "python", folder / PEER
    if not stamp.exists():
        print(f"installing {PEER} into `.venv/peers` …", file=sys.stderr, flush=True)
        for command in (
            (sys.executable, "-m", "venv", "--clear", str(folder)),
            (str(python), "-m", "pip", "install", "-qq", PEER),
        ):
            process = await asyncio.create_subprocess_exec(*command)
            if await process.wait() != 0:
                raise SystemExit(f"{PEER} could not be installed: the comparison needs the package index")
        stamp.touch()
    return python
