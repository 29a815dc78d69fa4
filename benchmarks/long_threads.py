"""The same run of an agent at the end of a short and of a long thread, with a full context window."""

import time
from statistics import median

from benchmarks.agents import opened, run_agent
from benchmarks.databases import databases
from benchmarks.reads import DEPTHS, long_thread
from benchmarks.table import Table
from holdfast.bootstrap.workspace import Holdfast
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.thread import NewThread

TURNS = 8
RUNS_PER_TURN = 12


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of CPU milliseconds per run; the number of runs is fixed, so `seconds` is ignored."""
    table = Table(f"a run of an agent at the end of a thread: {backend}", ["earlier runs", "CPU ms per run", "ratio"])
    async with databases(backend) as (database, _):
        async with opened(database) as holdfast:
            thread = (await holdfast.store.threads.create(DEFAULT_SPACE, NewThread())).id
        await long_thread(database)
        async with opened(database) as holdfast:
            used: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
            for _ in range(TURNS):  # in turns, so that noise affects all of them equally
                for depth in DEPTHS:
                    used[depth].append(await _cost(holdfast, thread, RunId(f"run_{depth}")))
        for depth in DEPTHS:
            table.add(depth, median(used[depth]) * 1000, median(used[depth]) / median(used[DEPTHS[0]]))
    return table


async def _cost(holdfast: Holdfast, thread: ThreadId, base: RunId) -> float:
    started = time.process_time()
    for _ in range(RUNS_PER_TURN):
        await run_agent(holdfast, thread=thread, base=base)
    return (time.process_time() - started) / RUNS_PER_TURN
