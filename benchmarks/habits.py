"""Due schedules among a million others, and events and messages beside reminders that they do not concern."""

import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.bulk import Columns, add
from benchmarks.databases import SPACE, databases, open_benchmark_store
from benchmarks.table import Table
from holdfast.domain.commit import Commit
from holdfast.domain.ids import OwnerId
from holdfast.domain.limits import Usage
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move, RunStatus
from holdfast.domain.thread import NewThread

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


class Cost(NamedTuple):
    """Median of the time, and of the CPU time of this process, which on SQLite is all that there is."""

    ms: float
    cpu_ms: float


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of all; their numbers are fixed, so `seconds` is ignored."""
    table = Table(f"habits: {backend}", ["what", "others in the way", "p50 ms", "ratio", "CPU ms", "more CPU ms"])
    measures: list[tuple[str, int, Callable[[str | Path, int], Awaitable[Cost]]]] = [
        (f"find and claim {DUE} due schedules", SCHEDULES, _find_due),
        ("end a run (two events)", CONDITIONS, _end_runs),
        ("say something (a message)", CONDITIONS, _say),
    ]
    async with databases(backend) as (database, floor):
        for what, others, cost_of in measures:
            without, beside = await cost_of(floor, 0), await cost_of(database, others)
            for count, cost in ((0, without), (others, beside)):
                more = cost.cpu_ms - without.cpu_ms
                table.add(what, count, cost.ms, cost.ms / without.ms, cost.cpu_ms, more)
    return table


class _Stopwatch:
    """Measures pieces of work."""

    def __init__(self) -> None:
        self._taken: list[Cost] = []

    def __enter__(self) -> None:
        self._started = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        wall, cpu = self._started
        self._taken.append(Cost((time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000))

    @property
    def cost(self) -> Cost:
        """The medians."""
        return Cost(median(each.ms for each in self._taken), median(each.cpu_ms for each in self._taken))


async def _find_due(database: str | Path, others: int) -> Cost:
    """Return the cost of finding and claiming the due ones, in several rounds."""
    async with open_benchmark_store(database):
        pass
    plan = '{"action": {"type": "notify", "message": "x"}}'
    for start in range(0, others, CHUNK):
        names = [f"sch_{number}" for number in range(start, start + CHUNK)]
        await add(database, "timers", _TIMERS, [(1, name, "schedule", FAR_OFF, "scheduled", 1) for name in names])
        rows = [(1, name, "schedule", "active", plan, FAR_OFF, 1, 1) for name in names]
        await add(database, "schedules", _SCHEDULES, rows)
    watch = _Stopwatch()
    for number in range(ROUNDS):
        due = [(1, f"due_{number}_{index}", "schedule", 1 + index, "scheduled", 1) for index in range(DUE)]
        await add(database, "timers", _TIMERS, due)
        async with open_benchmark_store(database, new=False) as store:
            await store.timers.next_due()
            with watch:
                claims = await store.timers.claim_due(OWNER, lease=timedelta(minutes=1), limit=DUE)
            assert len(claims) == DUE
            for claim in claims:
                await store.timers.settle(claim)
    return watch.cost


async def _end_runs(database: str | Path, others: int) -> Cost:
    """Return the cost of a commit that ends a run with its usage."""
    spec = '{"event": "run.completed", "agent": "other"}'
    for start in range(0, others, CHUNK):
        keys = range(start + 1, start + CHUNK + 1)
        rows = [(key, 1, f"rem_{key}", *_elsewhere(key), spec, 1, 1, "[]") for key in keys]
        await add(database, "conditions", _CONDITIONS, rows)
    watch = _Stopwatch()
    async with open_benchmark_store(database, new=False) as store:
        for _ in range(EVENTS):
            await store.runs.create(SPACE, NewRun(thread=NewThread(agent_type="bot")))
            (lease,) = await store.leases.claim(OWNER, lease=timedelta(minutes=1))
            usage = Usage(input_tokens=1, cost_usd=0.0)
            with watch:
                await store.journal.commit(Commit(lease=lease, usage=usage, move=Move(to=RunStatus.COMPLETED)))
    return watch.cost


async def _say(database: str | Path, others: int) -> Cost:
    """Return the cost of a message to a new run; the newest contexts are compared by their meaning."""
    spec = '{"about": "the invoices of Acme"}'
    for start in range(0, others, CHUNK):
        keys = range(CONDITIONS + start + 1, CONDITIONS + start + CHUNK + 1)
        rows = [(key, 1, f"ctx_{key}", "message", "", "", spec, 1, 1, "[]") for key in keys]
        await add(database, "conditions", _CONDITIONS, rows)
        terms = [(1, term, key) for key in keys for term in ("acm", "invoic")]
        await add(database, "reminder_terms", {"space_key": "BIGINT", "term": "TEXT", "reminder_key": "BIGINT"}, terms)
    watch = _Stopwatch()
    said = NewMessage(role=Role.USER, content="Please translate the attached letter into Japanese, and keep its tone.")
    async with open_benchmark_store(database, new=False) as store:
        for _ in range(EVENTS):
            with watch:
                await store.runs.create(SPACE, NewRun(thread=NewThread(agent_type="bot"), messages=[said]))
    return watch.cost


def _elsewhere(key: int) -> tuple[str, str, str]:
    """Return the index of a condition that the measured events do not concern: another event, agent or thread."""
    return (
        ("run.failed", "", ""),
        ("run.completed", f"agent-{key % 1000}", ""),
        ("run.completed", "", f"thr_{key}"),
        ("usage", f"agent-{key % 1000}", ""),
    )[key % 4]
