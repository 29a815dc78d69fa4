"""A whole run in the store: create, claim, and 30 events in 6 awaited commits, the last of which ends it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial

from benchmarks.bare_run import WORDS, BareRun
from benchmarks.databases import SPACE, databases, open_benchmark_store
from benchmarks.events import EVENT
from benchmarks.floors import floor
from benchmarks.table import Table
from holdfast.domain.commit import Commit, Lease
from holdfast.domain.ids import OwnerId, ThreadId
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store

CONCURRENCY = (1, 16, 64)
ROUNDS = 3
COMMITS = 6
EVENTS_EACH = 5


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of runs per second."""
    columns = ["runs at once", "store runs/s", "floor runs/s", "ratio"]
    table = Table(f"a whole run, 8 awaited commits: {backend}", columns)
    async with (
        databases(backend) as (database, floor_database),
        open_benchmark_store(database) as store,
        floor(floor_database) as ground,
    ):
        threads = [(await store.threads.create(SPACE, NewThread())).id for _ in range(max(CONCURRENCY))]
        bare = partial(_run_bare, BareRun(ground, floor_database, loop=False))
        for at_once in CONCURRENCY:
            best_floor = best_store = 0.0
            for _ in range(ROUNDS):
                best_floor = max(best_floor, await _rate([bare] * at_once, seconds / ROUNDS))
                works = [partial(_run, store, thread) for thread in threads[:at_once]]
                best_store = max(best_store, await _rate(works, seconds / ROUNDS))
            table.add(at_once, best_store, best_floor, best_store / best_floor)
    return table


async def _rate(works: Sequence[Callable[[], Awaitable[None]]], seconds: float) -> float:
    until = time.perf_counter() + seconds

    async def repeat(work: Callable[[], Awaitable[None]]) -> int:
        done = 0
        while time.perf_counter() < until:
            await work()
            done += 1
        return done

    started = time.perf_counter()
    done = await asyncio.gather(*map(repeat, works))
    return sum(done) / (time.perf_counter() - started)


async def _run(store: Store, thread: ThreadId) -> None:
    await store.runs.create(SPACE, NewRun(thread=thread, messages=[NewMessage(role=Role.USER, content=WORDS)]))
    lease = await _claim(store)
    for _ in range(COMMITS - 1):
        await store.journal.commit(Commit(lease=lease, events=[EVENT] * EVENTS_EACH))
    answer = NewMessage(role=Role.ASSISTANT, content=WORDS)
    move = Move(to=RunStatus.COMPLETED, output="done")
    await store.journal.commit(Commit(lease=lease, events=[EVENT] * EVENTS_EACH, messages=[answer], move=move))


async def _claim(store: Store) -> Lease:
    """Claim a run, retrying while other claimers are faster."""
    while True:
        for lease in await store.leases.claim(OwnerId("bench"), lease=timedelta(minutes=1)):
            return lease


async def _run_bare(bare: BareRun) -> None:
    """Make the same number of commits of the same rows, without the store."""
    key = await bare.create()
    await bare.claim(key)
    for number in range(COMMITS - 1):
        await bare.say(key, after=1 + number * EVENTS_EACH, events=EVENTS_EACH)
    await bare.finish(key, after=1 + (COMMITS - 1) * EVENTS_EACH, events=EVENTS_EACH)
