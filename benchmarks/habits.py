"""Due schedules among a million others, and events beside conditions that they do not concern."""

import time
from datetime import timedelta
from pathlib import Path
from statistics import median

from benchmarks.bulk import Columns, add
from benchmarks.databases import SPACE, databases, open_benchmark_store
from benchmarks.table import Table
from holdfast.domain.commit import Commit
from holdfast.domain.ids import OwnerId
from holdfast.domain.limits import Usage
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store

SCHEDULES = 1_000_000
DUE = 100
CONDITIONS = 100_000
ROUNDS = 20
EVENTS = 500
CHUNK = 50_000
FAR_OFF = 4_000_000_000_000
OWNER = OwnerId("bench")

_TIMERS: Columns = {
    "space_key": "BIGINT",
    "id": "TEXT",
    "kind": "TEXT",
    "due_at": "BIGINT",
    "state": "TEXT",
    "created_at": "BIGINT",
}
_SCHEDULES: Columns = {
    "space_key": "BIGINT",
    "id": "TEXT",
    "kind": "TEXT",
    "state": "TEXT",
    "plan": "JSON",
    "due_at": "BIGINT",
    "created_at": "BIGINT",
    "updated_at": "BIGINT",
}
_CONDITIONS: Columns = {
    "reminder_key": "BIGINT",
    "space_key": "BIGINT",
    "id": "TEXT",
    "event": "TEXT",
    "agent": "TEXT",
    "thread_id": "TEXT",
    "spec": "JSON",
    "armed": "BIGINT",
    "armed_at": "BIGINT",
    "matches": "JSON",
}


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of both; their numbers are fixed, so `seconds` is ignored."""
    table = Table(f"habits: {backend}", ["what", "others in the way", "p50 ms", "ratio"])
    async with databases(backend) as (database, floor):
        found = [await _find_due(floor, 0), await _find_due(database, SCHEDULES)]
        for others, elapsed in zip((0, SCHEDULES), found, strict=True):
            table.add(f"find and claim {DUE} due schedules", others, elapsed, elapsed / found[0])
        told = [await _end_runs(floor, 0), await _end_runs(database, CONDITIONS)]
        for others, elapsed in zip((0, CONDITIONS), told, strict=True):
            table.add("end a run (two events)", others, elapsed, elapsed / told[0])
    return table


async def _find_due(database: str | Path, others: int) -> float:
    """Return the milliseconds of finding and claiming the due ones, in several rounds."""
    async with open_benchmark_store(database):
        pass
    plan = '{"action": {"type": "notify", "message": "x"}}'
    for start in range(0, others, CHUNK):
        names = [f"sch_{number}" for number in range(start, start + CHUNK)]
        await add(database, "timers", _TIMERS, [(1, name, "schedule", FAR_OFF, "scheduled", 1) for name in names])
        rows = [(1, name, "schedule", "active", plan, FAR_OFF, 1, 1) for name in names]
        await add(database, "schedules", _SCHEDULES, rows)
    timings = []
    for number in range(ROUNDS):
        due = [(1, f"due_{number}_{index}", "schedule", 1 + index, "scheduled", 1) for index in range(DUE)]
        await add(database, "timers", _TIMERS, due)
        async with open_benchmark_store(database, new=False) as store:
            await store.timers.next_due()
            started = time.perf_counter()
            claims = await store.timers.claim_due(OWNER, lease=timedelta(minutes=1), limit=DUE)
            timings.append((time.perf_counter() - started) * 1000)
            assert len(claims) == DUE
            for claim in claims:
                await store.timers.settle(claim)
    return median(timings)


async def _end_runs(database: str | Path, others: int) -> float:
    """Return the milliseconds of a commit that ends a run with its usage."""
    spec = '{"event": "run.completed", "agent": "other"}'
    for start in range(0, others, CHUNK):
        keys = range(start + 1, start + CHUNK + 1)
        rows = [(key, 1, f"rem_{key}", *_elsewhere(key), spec, 1, 1, "[]") for key in keys]
        await add(database, "conditions", _CONDITIONS, rows)
    timings = []
    async with open_benchmark_store(database, new=False) as store:
        for _ in range(EVENTS):
            timings.append(await _end_run(store))
    return median(timings)


def _elsewhere(key: int) -> tuple[str, str, str]:
    """Return the index of a condition that the measured events do not concern: another event, agent or thread."""
    return (
        ("run.failed", "", ""),
        ("run.completed", f"agent-{key % 1000}", ""),
        ("run.completed", "", f"thr_{key}"),
        ("usage", f"agent-{key % 1000}", ""),
    )[key % 4]


async def _end_run(store: Store) -> float:
    await store.runs.create(SPACE, NewRun(thread=NewThread(agent_type="bot")))
    (lease,) = await store.leases.claim(OWNER, lease=timedelta(minutes=1))
    usage = Usage(input_tokens=1, cost_usd=0.0)
    commit = Commit(lease=lease, usage=usage, move=Move(to=RunStatus.COMPLETED))
    started = time.perf_counter()
    await store.journal.commit(commit)
    return (time.perf_counter() - started) * 1000
