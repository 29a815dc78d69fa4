"""A run with a child run, compared with runs that do the same without one.

Both agents are scripted. The plain run makes two model calls with a tool call in between, like the one that spawns; its
child is another plain answer. So a run with a child has the work of a plain run and of the answer.
"""

import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.agents import best, wait_until_ended
from benchmarks.bare_run import CHUNKS, WORDS
from benchmarks.databases import databases
from benchmarks.table import Table
from holdfast.bootstrap.workspace import OpenWorkspace, Options, open_workspace
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.thread import NewThread

CONCURRENCY = (1, 16)
CALLS: dict[str, dict[str, Any]] = {
    "plain": {"name": "log_write", "arguments": {"message": "x"}},
    "spawning": {"name": "agent_spawn", "arguments": {"agent": "answering", "input": WORDS}},
    "talking": {"name": "agent_message", "arguments": {"agent": "answering", "message": WORDS}},
}


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of runs per second and their cost."""
    columns = ["runs at once", "answers/s", "CPU ms", "plain/s", "CPU ms"]
    for kind in ("with a child", "with a message"):
        columns += [f"{kind}/s", "CPU ms", "of both"]
    table = Table(f"a run with a child beside plain runs: {backend}", columns)
    async with databases(backend) as (where, _), opened(where) as holdfast:
        for at_once in CONCURRENCY:
            table.add(at_once, *await _cells(holdfast, at_once, seconds))
    return table


async def _cells(holdfast: OpenWorkspace, at_once: int, seconds: float) -> list[float]:
    """Return rates and costs; for runs with a child also the ratio of their CPU time to that of both runs alone."""
    measured = {
        agent: await best([partial(_run, holdfast, agent)] * at_once, seconds) for agent in ("answering", *CALLS)
    }
    cells: list[float] = []
    for agent, (rate, cpu) in measured.items():
        cells += [rate, cpu * 1000]
        if agent in ("spawning", "talking"):
            cells.append(cpu / (measured["answering"][1] + measured["plain"][1]))
    return cells


async def _run(holdfast: OpenWorkspace, agent: str) -> None:
    payload = NewMessage(role=Role.USER, content=WORDS)
    new = NewRun(thread=NewThread(agent_type=agent), messages=[payload])
    await wait_until_ended(holdfast, (await holdfast.runs.start(DEFAULT_SPACE, new)).run.id)


@asynccontextmanager
async def opened(database: str | Path) -> AsyncIterator[OpenWorkspace]:
    """Open a workspace with one agent that answers, and agents that call a tool first."""
    answer = {"say": WORDS, "chunks": CHUNKS}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        _write(Path(folder), "answering", [answer])
        for name, call in CALLS.items():
            _write(Path(folder), name, [{"call": [call]}, answer], tools=[call["name"]])
        async with open_workspace(folder, database=database, options=Options(workers=64)) as holdfast:
            yield holdfast


def _write(folder: Path, name: str, turns: list[dict[str, Any]], *, tools: list[str] | None = None) -> None:
    agent = folder / "agents" / name
    agent.mkdir(parents=True)
    (agent / "AGENT.md").write_text("Answer the user.\n")
    (agent / "agent.json").write_text(json.dumps({"model": "scripted:script.json", "tools": tools or []}))
    (agent / "script.json").write_text(json.dumps({"turns": turns}))
