"""Durable events per second through `commit`, alone and beside a busy thread."""

import asyncio
import time
from datetime import timedelta
from itertools import count
from pathlib import Path
from statistics import median

from benchmarks.bulk import EVENTS, insert
from benchmarks.databases import SPACE, busy_thread, databases, open_benchmark_store
from benchmarks.floors import Floor, floor
from benchmarks.table import Table
from holdfast.domain.commit import Commit, Lease
from holdfast.domain.events import TextMessageContent, encode_event
from holdfast.domain.ids import MessageId, OwnerId
from holdfast.domain.new_run import NewRun
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store

PRODUCERS = (1, 16, 64, 512)
ROUNDS = 3
EVENT = TextMessageContent(
    message_id=MessageId("msg_0123456789abcdef0123456789abcdef"), delta="word " * 42, timestamp=1
)


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of events per second."""
    columns = ["producers", "busy thread", "store", "floor", "ratio", "p50 ms"]
    table = Table(f"durable events/s, one event per awaited commit: {backend}", columns)
    async with (
        databases(backend) as (database, floor_database),
        open_benchmark_store(database) as store,
        floor(floor_database) as ground,
    ):
        leases = await _leases(store, max(PRODUCERS))
        bare = _BareProducers(ground, floor_database)
        for busy in (False, True):
            for producers in PRODUCERS:
                best_floor = best_store = 0.0
                latencies: list[float] = []
                for _ in range(ROUNDS):
                    async with busy_thread(busy):
                        best_floor = max(best_floor, await bare.rate(producers, seconds / ROUNDS))
                        best_store = max(
                            best_store, await _rate(store, leases[:producers], seconds / ROUNDS, latencies)
                        )
                p50 = median(latencies) * 1000
                table.add(producers, "yes" if busy else "no", best_store, best_floor, best_store / best_floor, p50)
    return table


async def _leases(store: Store, count: int) -> list[Lease]:
    for _ in range(count):
        await store.runs.create(SPACE, NewRun(thread=NewThread()))
    return await store.leases.claim(OwnerId("bench"), lease=timedelta(hours=1), limit=count)


async def _rate(store: Store, leases: list[Lease], seconds: float, latencies: list[float]) -> float:
    until = time.perf_counter() + seconds

    async def produce(lease: Lease) -> int:
        written = 0
        while (started := time.perf_counter()) < until:
            await store.journal.commit(Commit(lease=lease, events=[EVENT]))
            latencies.append(time.perf_counter() - started)
            written += 1
        return written

    started = time.perf_counter()
    written = await asyncio.gather(*map(produce, leases))
    return sum(written) / (time.perf_counter() - started)


class _BareProducers:
    """The same rows without the store."""

    def __init__(self, ground: Floor, database: str | Path) -> None:
        self._floor = ground
        self._statement = insert("events", EVENTS, database)
        self._runs = count(1)

    async def rate(self, producers: int, seconds: float) -> float:
        """Return durable rows per second."""
        until = time.perf_counter() + seconds
        data = encode_event(EVENT).decode()

        async def produce(run: int) -> int:
            written = 0
            while time.perf_counter() < until:
                written += 1
                row = (run, written, "TEXT_MESSAGE_CONTENT", data, 1_750_000_000_000)
                await self._floor.write([(self._statement, [row])])
            return written

        started = time.perf_counter()
        written = await asyncio.gather(*[produce(next(self._runs)) for _ in range(producers)])
        return sum(written) / (time.perf_counter() - started)
