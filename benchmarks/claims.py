"""Rate of claims with one worker and with eight, with and without 10,000 pending runs in the queue."""

import asyncio
import time
from datetime import timedelta
from itertools import count
from pathlib import Path
from statistics import median

from benchmarks.bulk import RUN_HEADS, RUN_IDS, RUNS, add, run_row
from benchmarks.databases import SPACE, databases, open_benchmark_store
from benchmarks.table import Table
from holdfast.domain.ids import OwnerId
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store

PENDING = 10_000
BATCHES = ((1, 1, 300), (8, 1, 1_200), (1, 16, 1_600), (8, 16, 3_200))
"""Workers, limit per claim, runs to claim."""

_keys = count(1)


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of claims; their number is fixed, so `seconds` is ignored."""
    table = Table(f"claims: {backend}", ["workers", "limit", "pending in the way", "runs/s", "p50 ms"])
    async with databases(backend) as (database, _):
        async with open_benchmark_store(database) as store:
            await store.threads.create(SPACE, NewThread())
        for pending in (0, PENDING):
            if pending:
                await _add_runs(database, pending, "pending")
            for workers, limit, runs in BATCHES:
                await _add_runs(database, runs, "queued")
                async with open_benchmark_store(database, new=False) as store:
                    rate, elapsed_ms = await _claim_all(store, workers, limit)
                table.add(workers, limit, pending, rate, elapsed_ms)
    return table


async def _add_runs(database: str | Path, runs: int, status: str) -> None:
    keys = [next(_keys) for _ in range(runs)]
    await add(database, "runs", RUNS, [run_row(key) for key in keys])
    await add(database, "run_ids", RUN_IDS, [(1, f"run_{key}", key) for key in keys])
    await add(database, "run_heads", RUN_HEADS, [(key, status, 60_000, key, 1, 1) for key in keys])


async def _claim_all(store: Store, workers: int, limit: int) -> tuple[float, float]:
    timings: list[float] = []

    async def work(number: int) -> int:
        owner = OwnerId(f"worker-{number}")
        claimed = 0
        while True:
            started = time.perf_counter()
            leases = await store.leases.claim(owner, lease=timedelta(minutes=1), limit=limit)
            timings.append((time.perf_counter() - started) * 1000)
            if not leases:
                return claimed
            claimed += len(leases)

    started = time.perf_counter()
    claimed = await asyncio.gather(*map(work, range(workers)))
    return sum(claimed) / (time.perf_counter() - started), median(timings)
