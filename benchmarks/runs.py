"""A whole run at the level of the store: create, claim, 30 events in 6 awaited commits, the last to finish it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.bulk import EVENTS, MESSAGES, OUTBOX, RUN_HEADS, RUN_IDS, RUNS, insert, run_row
from benchmarks.databases import SPACE, databases, opened
from benchmarks.events import EVENT
from benchmarks.floors import Floor, floor
from benchmarks.table import Table
from holdfast.domain.commit import Commit, Lease
from holdfast.domain.events import encode
from holdfast.domain.ids import OwnerId, ThreadId
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store

AT_ONCE = (1, 16, 64)
ROUNDS = 3
COMMITS = 6
EVENTS_EACH = 5
WORDS = "word " * 42

_CLAIM = "UPDATE run_heads SET lease_number = lease_number + 1 WHERE run_key "
_DATA = encode(EVENT).decode()


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of runs per second."""
    columns = ["runs at once", "store runs/s", "floor runs/s", "ratio"]
    table = Table(f"a whole run, 8 awaited commits: {backend}", columns)
    async with databases(backend) as (where, below), opened(where) as store, floor(below) as ground:
        threads = [(await store.threads.create(SPACE, NewThread())).id for _ in range(max(AT_ONCE))]
        bare = _BareRun(ground, below)
        for at_once in AT_ONCE:
            best_floor = best_store = 0.0
            for _ in range(ROUNDS):
                best_floor = max(best_floor, await _rate([bare.run] * at_once, seconds / ROUNDS))
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

    began = time.perf_counter()
    done = await asyncio.gather(*map(repeat, works))
    return sum(done) / (time.perf_counter() - began)


async def _run(store: Store, thread: ThreadId) -> None:
    await store.runs.create(SPACE, NewRun(thread=thread, messages=[NewMessage(role=Role.USER, content=WORDS)]))
    lease = await _claim(store)
    for _ in range(COMMITS - 1):
        await store.journal.commit(Commit(lease=lease, events=[EVENT] * EVENTS_EACH))
    answer = NewMessage(role=Role.ASSISTANT, content=WORDS)
    move = Move(to=RunStatus.COMPLETED, output="done")
    await store.journal.commit(Commit(lease=lease, events=[EVENT] * EVENTS_EACH, messages=[answer], move=move))


async def _claim(store: Store) -> Lease:
    """Claim some run: as many are queued as there are claimers, but another may be faster."""
    while True:
        for lease in await store.leases.claim(OwnerId("bench"), lease=timedelta(minutes=1)):
            return lease


class _BareRun:
    """The rows of a whole run, without the store."""

    def __init__(self, ground: Floor, where: str | Path) -> None:
        self._ground = ground
        self._keys = count(1)
        tables = {
            "runs": RUNS,
            "run_ids": RUN_IDS,
            "run_heads": RUN_HEADS,
            "messages": MESSAGES,
            "events": EVENTS,
            "outbox": OUTBOX,
        }
        self._into = {name: insert(name, columns, where) for name, columns in tables.items()}
        self._claim = _CLAIM + ("= ?" if isinstance(where, Path) else "= ANY($1::BIGINT[])")

    async def run(self) -> None:
        """Make as many commits of the same rows."""
        key = next(self._keys)
        await self._ground.write(
            [
                (self._into["runs"], [run_row(key)]),
                (self._into["run_ids"], [(1, f"run_{key}", key)]),
                (self._into["run_heads"], [(key, "completed", 60_000, 1, 1, 1)]),
                (self._into["messages"], [self._message(key, 0)]),
                (self._into["events"], [(key, 1, "RUN_STARTED", _DATA, 1)]),
            ]
        )
        await self._ground.write([(self._claim, [(key,)])])
        for number in range(COMMITS - 1):
            await self._ground.write([(self._into["events"], self._events(key, number))])
        await self._ground.write(
            [
                (self._into["events"], self._events(key, COMMITS - 1)),
                (self._into["messages"], [self._message(key, 1)]),
                (self._into["outbox"], [(1, "run.completed", f"run_{key}", "thr", "{}", 1)]),
            ]
        )

    def _message(self, key: int, number: int) -> tuple[Any, ...]:
        return 1, key, f"msg_{key}_{number}", 2 * key + number, "user", f'"{WORDS}"', "{}", 1

    def _events(self, key: int, number: int) -> list[tuple[Any, ...]]:
        first = 2 + number * EVENTS_EACH
        return [(key, seq, "TEXT_MESSAGE_CONTENT", _DATA, 1) for seq in range(first, first + EVENTS_EACH)]
