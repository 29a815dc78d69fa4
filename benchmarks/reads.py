"""Cost of reads: 50 events after a sequence number, and the last 50 messages of a long thread."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.bare_run import WORDS
from benchmarks.bulk import EVENTS, MESSAGES, RUN_HEADS, RUN_IDS, RUNS, add, execute, run_row
from benchmarks.databases import SPACE, databases, open_benchmark_store
from benchmarks.table import Table
from holdfast.domain.ids import RunId
from holdfast.domain.placement import Ancestor, next_chain_position
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store

DEPTHS = (100, 1_000, 10_000)
MESSAGES_EACH = 5
LOGGED = 20_000
TIMES = 300


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of milliseconds; the number of reads is fixed, so `seconds` is ignored."""
    table = Table(f"reads of 50: {backend}", ["what", "p50 ms", "beside the first of its kind"])
    async with databases(backend) as (database, _):
        async with open_benchmark_store(database) as store:
            await store.threads.create(SPACE, NewThread())
        await long_thread(database)
        async with open_benchmark_store(database, new=False) as store:
            first = 0.0
            for seq in (0, LOGGED // 2, LOGGED - 60):
                name = RunId("run_1")
                elapsed_ms = await _median(partial(store.events.after, SPACE, name, seq=seq, limit=50))
                first = first or elapsed_ms
                table.add(f"events after {seq:,} of {LOGGED:,}", elapsed_ms, elapsed_ms / first)
            await _histories(store, table)
    return table


async def _histories(store: Store, table: Table) -> None:
    """Measure reads in turns, so that noise affects all of them equally."""
    timings: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
    for _ in range(5):
        for depth in DEPTHS:
            history = partial(store.messages.history, SPACE, RunId(f"run_{depth}"), limit=50)
            timings[depth].append(await _median(history, times=TIMES // 5))
    for depth in DEPTHS:
        elapsed_ms = median(timings[depth])
        table.add(f"last 50 messages at depth {depth:,}", elapsed_ms, elapsed_ms / median(timings[DEPTHS[0]]))


async def _median(read: Callable[[], Awaitable[object]], *, times: int = TIMES) -> float:
    timings = []
    for _ in range(times):
        started = time.perf_counter()
        await read()
        timings.append((time.perf_counter() - started) * 1000)
    return median(timings)


async def long_thread(database: str | Path, *, text: str = WORDS) -> None:
    """Create a chain of completed runs with five messages each, on the first thread of the first space."""
    depths: dict[int, int] = {}
    jumps: dict[int, int] = {}
    runs = []
    for key in range(1, max(DEPTHS) + 1):
        base = key - 1 or None
        place = next_chain_position(None if base is None else _ancestor(base, depths, jumps))
        depths[key], jumps[key] = place.depth, place.jump or key
        runs.append(run_row(key, base=base, depth=place.depth, jump=place.jump))
    keys = range(1, max(DEPTHS) + 1)
    await add(database, "runs", RUNS, runs)
    await add(database, "run_ids", RUN_IDS, [(1, f"run_{key}", key) for key in keys])
    await add(database, "run_heads", RUN_HEADS, [(key, "completed", 0, 0, 1, LOGGED) for key in keys])
    messages = [
        (1, key, f"msg_{key}_{n}", key * MESSAGES_EACH + n, "user", f'"{text}"', "{}", 1)
        for key in keys
        for n in range(MESSAGES_EACH)
    ]
    await add(database, "messages", MESSAGES, messages)
    await execute(
        database, f"UPDATE threads SET next_sequence = {(len(keys) + 1) * MESSAGES_EACH} WHERE thread_key = 1"
    )
    if isinstance(database, str):  # PostgreSQL does not count inserted keys
        await execute(database, "SELECT setval(pg_get_serial_sequence('runs', 'run_key'), max(run_key)) FROM runs")
    events = [(1, seq, "TEXT_MESSAGE_CONTENT", '{"delta":"word"}', 1) for seq in range(1, LOGGED + 1)]
    await add(database, "events", EVENTS, events)


def _ancestor(base: int, depths: dict[int, int], jumps: dict[int, int]) -> Ancestor:
    jump = jumps[base]
    return Ancestor(
        key=base,
        depth=depths[base],
        jump=jump,
        jump_depth=depths[jump],
        jump_of_jump=jumps[jump],
        jump_of_jump_depth=depths[jumps[jump]],
    )
