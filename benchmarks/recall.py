"""Recall: what it finds on the data sets, what a search and the index cost at many passages, and a run with memory.

The floor is a product of the query with a float32 matrix of the same size in numpy, with its best 200, in this process.
"""

import asyncio
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

from benchmarks.agents import wait_until_ended
from benchmarks.bare_run import CHUNKS
from benchmarks.bare_run import WORDS as ANSWER
from benchmarks.databases import databases, open_benchmark_store
from benchmarks.table import Table
from holdfast.agent.context import recalled
from holdfast.bootstrap.workspace import OpenWorkspace, Options, open_workspace
from holdfast.domain.context import RecalledMemory
from holdfast.domain.ids import SpaceId
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.recall import RecallKind, RecallQuery
from holdfast.domain.thread import NewThread
from holdfast.memory.static_vectors import ENGLISH_DIMS
from tests.support.recall_data import NAMES, VARIABLE, RecallMeasure, data_folder

PASSAGES: Final = int(os.environ.get("HOLDFAST_RECALL_PASSAGES", "100000"))
"""Passages of the measure of cost; a million take about an hour to index."""
PASSAGES_OF_RUNS: Final = 10_000
CLIENTS: Final = 16
VOCABULARY: Final = 50_000
"""Words of the texts, whose frequency follows Zipf's law."""
QUERIES: Final = (
    "When does the harbour open for the ferry?",
    "What did we decide about the invoice of the garden shop?",
    "the colour of the new kitchen",
    "Which train goes to the mountains on Sunday?",
)
_WORDS_TEXT: Final = """
harbour ferry invoice garden shop kitchen colour train mountain Sunday meeting printer coffee window river letter doctor
school ticket winter summer battery engine recipe bread cheese market bridge museum painter music
"""
_WORDS: Final = _WORDS_TEXT.split()
_SPACE: Final = SpaceId("large")


async def measure(backend: str, *, seconds: float) -> list[Table]:
    """Measure quality and cost on a database."""
    async with databases(backend) as (where, _), open_benchmark_store(where) as store:
        tables = [await _quality(backend, RecallMeasure(store))]
    async with databases(backend) as (where, _), open_benchmark_store(where) as store:
        tables.append(await _cost(backend, where, RecallMeasure(store), store, seconds))
    async with databases(backend) as (where, _):
        tables.append(await _runs(backend, where, seconds))
    return tables


async def _quality(backend: str, measure: RecallMeasure) -> Table:
    table = Table(f"what recall finds ({backend})", ["data", "recall@5", "recall@10", "MRR"])
    folder = data_folder()
    if folder is None:
        table.add(f"set {VARIABLE} to the folder with the data", "", "", "")
        return table
    for name in NAMES:
        found = await measure.measure(folder, name)
        table.add(name, found.recall_5, found.recall_10, found.mrr)
    return table


async def _cost(backend: str, where: str | Path, measure: RecallMeasure, store: Any, seconds: float) -> Table:
    import numpy

    await _fill(store, PASSAGES)
    size = _bytes(where)
    began = time.process_time()
    await measure.indexer.index_space(_SPACE)
    indexing = (time.process_time() - began) / PASSAGES
    grown = _bytes(where) - size
    matrix = numpy.random.default_rng(1).standard_normal((PASSAGES, ENGLISH_DIMS), dtype=numpy.float32)
    vector = matrix[0].copy()

    async def floor() -> None:
        products = matrix @ vector
        numpy.argpartition(-products, 200)[:200]

    asked = iter(range(10**9))

    async def search() -> None:
        await measure.recall.search(_SPACE, RecallQuery(text=QUERIES[next(asked) % len(QUERIES)]))

    await search()  # loads the matrix
    floor_seconds, search_seconds = await _time(floor, seconds), await _time(search, seconds)
    table = Table(f"cost of recall at {PASSAGES:,} passages ({backend})", ["what", "value", "per floor"])
    table.add("floor: numpy float32 product, ms CPU", floor_seconds * 1000, 1.0)
    table.add("search, ms CPU", search_seconds * 1000, search_seconds / floor_seconds)
    table.add("indexing a message, ms CPU of this process", indexing * 1000, "")
    table.add("bytes a passage on disk", "-" if grown <= 0 else grown / PASSAGES, "")
    return table


async def _runs(backend: str, where: str | Path, seconds: float) -> Table:
    """Measure runs of an agent with memory and of one without, each on a new thread, with the projections current."""
    async with open_benchmark_store(where) as store:
        await _fill(store, PASSAGES_OF_RUNS)
        await RecallMeasure(store).indexer.index_space(_SPACE)
    columns = ["run of an agent", "CPU ms", "of them on the event loop", "CPU ms until all is indexed"]
    table = Table(f"a run with memory, {CLIENTS} at once, {PASSAGES_OF_RUNS:,} passages ({backend})", columns)
    asked = (f"{query} Number {number}." for number in count() for query in QUERIES)
    async with _opened(where) as holdfast:
        await _wait_for_projections(holdfast)

        async def run(agent: str) -> None:
            new = NewRun(thread=NewThread(agent_type=agent), messages=[NewMessage(role=Role.USER, content=next(asked))])
            await wait_until_ended(holdfast, (await holdfast.runs.start(_SPACE, new)).run.id, space=_SPACE)

        async def search() -> None:
            kinds = frozenset({RecallKind.MESSAGE, RecallKind.MEMORY})
            await holdfast.recall.search(
                _SPACE, RecallQuery(text=next(asked), kinds=kinds, limit=recalled.MAX_RECALL_HITS)
            )

        for agent in ("default", "companion"):
            await run(agent)  # loads what it needs
        for agent, name in (("default", "without memory"), ("companion", "with memory")):
            table.add(name, *(1000 * each for each in await _time_runs(holdfast, partial(run, agent), seconds)))
        with _recalling_once():
            taken = await _time_runs(holdfast, partial(run, "companion"), seconds)
        table.add("with memory, without the recall itself", *(1000 * each for each in taken))
        table.add("only the search of a run with memory", await _time(search, seconds) * 1000, "", "")
    return table


@contextmanager
def _recalling_once() -> Iterator[None]:
    """Let every run get what the first one recalls: what is left is the cost of prompts with memory."""
    collect, kept = recalled._Recollection.collect, list[RecalledMemory]()

    async def collect_once(self: Any, after: RecalledMemory) -> RecalledMemory:
        if not kept:
            kept.append(await collect(self, after))
        return replace(kept[0], message_id=after.message_id)

    with patch.object(recalled._Recollection, "collect", collect_once):
        yield


async def _time_runs(
    holdfast: OpenWorkspace, run: Callable[[], Awaitable[None]], seconds: float
) -> tuple[float, float, float]:
    """Return the CPU seconds of a run: while they run, on the event loop, and with what is indexed afterwards."""
    done = 0
    until = time.perf_counter() + seconds

    async def repeat() -> None:
        nonlocal done
        while time.perf_counter() < until:
            await run()
            done += 1

    began, on_loop = time.process_time(), time.thread_time()
    await asyncio.gather(*[repeat() for _ in range(CLIENTS)])
    ended, on_loop = time.process_time(), time.thread_time() - on_loop
    await _wait_for_projections(holdfast)
    return (ended - began) / done, on_loop / done, (time.process_time() - began) / done


async def _wait_for_projections(holdfast: OpenWorkspace) -> None:
    """Wait until everything is indexed and outlined."""
    outlines, recall = holdfast.store.outlines, holdfast.recall
    while (await recall.status(_SPACE)).pending or await outlines.pending(limit=1, messages=1):  # noqa: ASYNC110 - it polls
        await asyncio.sleep(0.5)


@asynccontextmanager
async def _opened(database: str | Path) -> AsyncIterator[OpenWorkspace]:
    """Open a workspace with an agent that has no memory, and one that has."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        agents: dict[str, dict[str, Any]] = {"default": {}, "companion": {"memory": {}}}
        for name, settings in agents.items():
            agent = Path(folder) / "agents" / name
            agent.mkdir(parents=True)
            (agent / "AGENT.md").write_text("Answer the user.\n")
            (agent / "agent.json").write_text(json.dumps({"model": "scripted:script.json", **settings}))
            turn = {"say": ANSWER, "chunks": CHUNKS}
            (agent / "script.json").write_text(json.dumps({"turns": [turn], "after_last": "repeat"}))
        async with open_workspace(folder, database=database, options=Options(workers=CLIENTS)) as holdfast:
            yield holdfast


async def _time(do: Callable[[], Awaitable[None]], seconds: float) -> float:
    """Return the median CPU seconds of a call."""
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 5:
        began = time.process_time()
        await do()
        taken.append(time.process_time() - began)
    return median(taken)


async def _fill(store: Any, passages: int) -> None:
    """Store messages of about 200 characters, 1,000 to a thread."""
    await store.spaces.create(_SPACE, name="large")
    state = 7
    for at in range(0, passages, 1_000):
        thread = await store.threads.create(_SPACE, NewThread())
        messages = []
        for number in range(at, min(at + 1_000, passages)):
            words = []
            for _ in range(18):  # of about 35 words of such a text, half are stop words
                state = (state * 1_103_515_245 + 12_345) & 0x7FFFFFFF
                rank = int(VOCABULARY ** (state / 0x7FFFFFFF))
                words += [_WORDS[rank % len(_WORDS)] if rank % 100 == 99 else f"term{rank}", "of"]
            role = Role.USER if number % 2 else Role.ASSISTANT
            messages.append(NewMessage(role=role, content=" ".join(words)))
        await store.runs.create(_SPACE, NewRun(thread=thread.id, base=None, messages=messages))


def _bytes(where: str | Path) -> int:
    """Return the size of a SQLite database with what is in its log; 0 for a server's."""
    if not isinstance(where, Path):
        return 0
    with closing(sqlite3.connect(where)) as connection:
        connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
    return where.stat().st_size
