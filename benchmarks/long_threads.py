"""A run of an agent at the end of short and long threads of short messages.

A conversation that fits into the token budget is read and sent whole, so a run costs what it sends. A longer one is
compacted by the first run, and later runs read and send what the summary left.
"""

import time
from statistics import median

from benchmarks.agents import opened, run_agent
from benchmarks.databases import databases
from benchmarks.reads import MESSAGES_EACH, long_thread
from benchmarks.table import Table
from holdfast.bootstrap.workspace import OpenWorkspace
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.thread import NewThread

DEPTHS = (10, 100, 1_000, 10_000)
TURNS = 6
RUNS_PER_TURN = 4
SHORT = "a short message"


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of CPU milliseconds per run; the number of runs is fixed, so `seconds` is ignored."""
    columns = ["earlier messages", "messages sent", "CPU ms per run", "µs per message sent"]
    table = Table(f"a run of an agent at the end of a thread: {backend}", columns)
    async with databases(backend) as (database, _):
        async with opened(database) as holdfast:
            thread = (await holdfast.store.threads.create(DEFAULT_SPACE, NewThread())).id
        await long_thread(database, text=SHORT)
        async with opened(database) as holdfast:
            # Compacts the thread, if it is too long.
            bases = {depth: await run_agent(holdfast, thread=thread, base=RunId(f"run_{depth}")) for depth in DEPTHS}
            used: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
            for _ in range(TURNS):  # in turns, so that noise affects all of them equally
                for depth in DEPTHS:
                    used[depth].append(await _cost(holdfast, thread, bases[depth]))
            for depth in DEPTHS:
                sent = await _messages_sent(holdfast, await run_agent(holdfast, thread=thread, base=bases[depth]))
                cost = median(used[depth])
                table.add(depth * MESSAGES_EACH, sent, cost * 1e3, cost * 1e6 / sent)
    return table


async def _cost(holdfast: OpenWorkspace, thread: ThreadId, base: RunId) -> float:
    started = time.process_time()
    for _ in range(RUNS_PER_TURN):
        await run_agent(holdfast, thread=thread, base=base)
    return (time.process_time() - started) / RUNS_PER_TURN


async def _messages_sent(holdfast: OpenWorkspace, run: RunId) -> int:
    (step,) = await holdfast.store.contexts.steps(DEFAULT_SPACE, run)
    return len((await holdfast.store.contexts.get(DEFAULT_SPACE, run, step)).messages)
