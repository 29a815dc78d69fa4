"""Claims: their rate with one worker and with eight, with and without 10,000 pending runs, and fairness under a flood.

Fairness is counted and not timed: some spaces have 10,000 queued runs, another one gets its first in the middle of a
round, and claims are counted until they return it. Each replica goes round the spaces by itself.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import count, cycle
from pathlib import Path
from statistics import median

from benchmarks.bulk import RUN_HEADS, RUN_IDS, RUNS, add, run_row
from benchmarks.databases import SPACE, databases, open_benchmark_store
from benchmarks.table import Table
from holdfast.domain.commit import Lease
from holdfast.domain.ids import OwnerId, SpaceId
from holdfast.domain.new_run import NewRun
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store

PENDING = 10_000
BATCHES = ((1, 1, 300), (8, 1, 1_200), (1, 16, 1_600), (8, 16, 3_200))
"""Workers, limit per claim, runs to claim."""
OTHER = SpaceId("other")
FLOOD = 10_000
CREATED_AT_ONCE = 500
FLOODS = ((1, 1, 1), (1, 1, 16), (1, 4, 1), (3, 1, 1), (3, 1, 16))
"""Replicas, spaces that share the flood, limit per claim."""
CLAIMS_BEFORE = 7
"""Claims before the other space gets a run, for each replica."""

_keys = count(1)


async def measure(backend: str, *, seconds: float) -> list[Table]:
    """Return tables of claims and of their fairness; their number is fixed, so `seconds` is ignored."""
    return [await _measure_rate(backend), await _measure_fairness(backend)]


async def _measure_rate(backend: str) -> Table:
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


async def _measure_fairness(backend: str) -> Table:
    columns = ["replicas", "spaces with runs", "limit", "claims until the first run of another space", "target"]
    table = Table(f"claims under a flood of {FLOOD:,} runs: {backend}", columns)
    for replicas, spaces, limit in FLOODS:
        if replicas > 1 and backend == "sqlite":
            continue  # one process owns the file
        async with databases(backend) as (database, _), AsyncExitStack() as stack:
            stores = [
                await stack.enter_async_context(open_benchmark_store(database, new=not number))
                for number in range(replicas)
            ]
            claims = await _claims_until_served(stores, spaces, limit)
            table.add(replicas, spaces, limit, claims, -(-(spaces + 1) // limit) * replicas)
    return table


async def _claims_until_served(stores: Sequence[Store], spaces: int, limit: int) -> int:
    """Return the claims, by the replicas in turn, until one has the first run of a space beside the flood."""
    flooded = [SpaceId(f"flood-{number}") for number in range(spaces)]
    for space in (*flooded, OTHER):
        await stores[0].spaces.create(space, name=space)
    for start in range(0, FLOOD, CREATED_AT_ONCE):
        names = [flooded[number % spaces] for number in range(start, start + CREATED_AT_ONCE)]
        await asyncio.gather(*(stores[0].runs.create(name, NewRun(thread=NewThread())) for name in names))
    turns = cycle(stores)
    for _ in range(CLAIMS_BEFORE * len(stores)):
        assert len(await _claim(next(turns), limit)) == limit
    await stores[0].runs.create(OTHER, NewRun(thread=NewThread()))
    for claims in count(1):
        if OTHER in {lease.space_id for lease in await _claim(next(turns), limit)}:
            return claims
    raise AssertionError("unreachable")


async def _claim(store: Store, limit: int) -> Sequence[Lease]:
    return await store.leases.claim(OwnerId("worker"), lease=timedelta(minutes=5), limit=limit)


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
