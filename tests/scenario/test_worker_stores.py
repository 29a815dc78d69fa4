"""Workers of several processes share a store: each run has one worker at a time.

On PostgreSQL each process has a store and a bus of its own; on SQLite there is one process, with two workers in it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Final

import pytest

from holdfast.bootstrap import SystemClock, open_bus, open_store
from holdfast.domain.commit import Lease
from holdfast.domain.errors import Unavailable
from holdfast.domain.events import RunErrorEvent, TextMessageStart
from holdfast.domain.ids import OwnerId, RunId, TimerId
from holdfast.domain.instant import Instant
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.timer import NewTimer, TimerState
from holdfast.ports.bus import Bus
from holdfast.store.store import Store
from tests.builders import assistant, text_events
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import COMPLETED, QUEUED, commit, get, queued, stream
from tests.hints import hints_of
from tests.scenario.conftest import Location, NewLocation
from tests.support.postgres import PostgresServer
from tests.unit.engine.workers import (
    HOUR,
    Actor,
    complete_run,
    ignore_stop,
    obey_stop,
    running_timers,
    running_worker,
    wait_for_status,
)

RUNS: Final = 40
LONG_AGO: Final = Instant("2020-01-01T00:00:00.000Z")


class Process:
    """The objects of one process."""

    def __init__(self, store: Store, bus: Bus) -> None:
        self.store = store
        self.bus = bus


@pytest.fixture
async def processes(new_location: NewLocation, backend: str) -> AsyncIterator[list[Process]]:
    """Yield two processes that share a store."""
    location = await new_location()
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(_process(location))
        await first.store.spaces.create(SPACE, name="Acme")
        second = first if backend == "sqlite" else await stack.enter_async_context(_process(location))
        yield [first, second]


@asynccontextmanager
async def _process(location: Location) -> AsyncIterator[Process]:
    async with open_bus(location) as bus, hints_of(bus) as hints, open_store(location, bus=bus) as store:
        if isinstance(location, str):
            assert (await anext(hints)).everything  # it is connected now
        yield Process(store, bus)


async def test_a_run_created_by_another_process_starts_because_of_its_hint(processes: list[Process]) -> None:
    here, there = processes
    actor = Actor(complete_run(here.store))
    async with running_worker(here.store, here.bus, actor):
        for _ in range(5):
            await wait_for_status(there.store, await queued(there.store, "hi"), RunStatus.COMPLETED)


async def test_a_run_ended_by_another_process_is_cancelled_without_a_heartbeat(processes: list[Process]) -> None:
    here, there = processes
    actor = Actor(ignore_stop)
    async with running_worker(here.store, here.bus, actor):
        run = await queued(here.store, "hi")
        await actor.started.get()
        await there.store.runs.end(SPACE, run.id)
        assert (await actor.cancelled.get()).run_id == run.id


async def test_a_run_released_by_one_worker_is_claimed_by_another_at_once(processes: list[Process]) -> None:
    here, there = processes
    leaving, staying = Actor(obey_stop), Actor(complete_run(there.store))
    runs = [await queued(here.store, f"{number}") for number in range(4)]
    async with running_worker(here.store, here.bus, leaving) as worker:
        for _ in runs:
            await leaving.started.get()
        async with running_worker(there.store, there.bus, staying, owner=OwnerId("another")):
            worker.drain(HOUR)
            for run in runs:
                await wait_for_status(there.store, run, RunStatus.COMPLETED)
    assert leaving.cancelled.empty()


class RandomExecutor(Actor):
    """Works on runs in small turns with random ends, and records concurrent work on the same run."""

    def __init__(self, store: Store, random: Random, active_runs: set[RunId]) -> None:
        super().__init__(self._turn)
        self._store = store
        self._random = random
        self._active_runs = active_runs
        """The runs that a worker is working on."""

    async def _turn(self, lease: Lease, stop: asyncio.Event) -> None:
        assert lease.run_id not in self._active_runs, "two workers execute one run"
        self._active_runs.add(lease.run_id)
        for number in range(self._random.randrange(3)):
            await commit(self._store, lease, events=text_events("x", id=f"{lease.number:05}-{number}"))
            await asyncio.sleep(self._random.choice([0, 0, 0.001]))
        self._active_runs.remove(lease.run_id)  # from here on another worker may claim it
        match self._random.choice(["complete", "requeue", "requeue", "put off", "return", "lose"]):
            case "complete":
                await commit(self._store, lease, messages=[assistant("done")], move=COMPLETED)
            case "requeue":
                await commit(self._store, lease, move=QUEUED)
            case "put off":
                raise Unavailable("not now")
            case "lose":
                await self._store.leases.release(lease)
            case _:
                pass


@pytest.mark.parametrize("seed", range(3))
async def test_two_workers_never_work_on_one_run_at_the_same_time(processes: list[Process], seed: int) -> None:
    random, active_runs = Random(seed), set[RunId]()
    actors = [RandomExecutor(process.store, random, active_runs) for process in processes]
    runs = [await queued(processes[0].store, f"{number}") for number in range(RUNS)]
    async with AsyncExitStack() as stack:
        for number, (process, actor) in enumerate(zip(processes, actors, strict=True)):
            owner, heartbeat = OwnerId(f"worker-{number}"), timedelta(milliseconds=30)
            work = running_worker(
                process.store, process.bus, actor, fallback_seconds=0.1, owner=owner, concurrency=8, heartbeat=heartbeat
            )
            await stack.enter_async_context(work)
        for run in runs:
            completed = await wait_for_status(processes[0].store, run, RunStatus.COMPLETED)
            assert completed.error is None
            await _check_writers(processes[0].store, run)
    assert all(actor.max_active for actor in actors), "both took part"


async def _check_writers(store: Store, run: Run) -> None:
    """Assert that the log of a run was written under one lease after the other."""
    message_ids = [event.message_id for event in await stream(store, run.id) if isinstance(event, TextMessageStart)]
    assert message_ids == sorted(message_ids)


async def test_a_timer_fires_once_with_any_number_of_processes(processes: list[Process]) -> None:
    store = processes[0].store
    ending = [await queued(store, f"{number}") for number in range(RUNS)]
    waking = [await queued(store, f"{number}") for number in range(RUNS)]
    set_ = [await _due(store, run, "deadline") for run in ending] + [await _due(store, run, "wake") for run in waking]
    async with AsyncExitStack() as stack:
        for number, process in enumerate(processes):
            owner = OwnerId(f"timers-{number}")
            await stack.enter_async_context(
                running_timers(process.store, process.bus, SystemClock(), fallback_seconds=0.01, owner=owner)
            )
        for timer in set_:
            while (await store.timers.get(SPACE, timer)).state is TimerState.SCHEDULED:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
    for run in ending:
        failed = await get(store, run.id)
        assert failed.error is not None and failed.error.code == "DEADLINE_EXCEEDED"
        assert sum(isinstance(event, RunErrorEvent) for event in await stream(store, run.id)) == 1
    for lease in await store.leases.claim(OwnerId("reader"), lease=HOUR, limit=RUNS):
        (item,) = await store.journal.inbox(lease)
        assert item.data == {"timer_id": f"{lease.run_id}-wake"}


async def _due(store: Store, run: Run, kind: str) -> TimerId:
    new = NewTimer(id=TimerId(f"{run.id}-{kind}"), kind=kind, due_at=LONG_AGO)
    return (await store.timers.set(SPACE, new, run=run.id)).id


async def test_a_worker_survives_a_database_that_is_killed_and_restarted(own_postgres: PostgresServer) -> None:
    async def slowly(lease: Lease, stop: asyncio.Event) -> None:
        for number in range(20):
            await commit(process.store, lease, events=text_events("x", id=f"{lease.number}-{number}"))
            await asyncio.sleep(0.01)
        await commit(process.store, lease, messages=[assistant("done")], move=COMPLETED)

    url = await own_postgres.create_database("holdfast")
    async with _process(url) as process:
        await process.store.spaces.create(SPACE, name="Acme")
        actor = Actor(slowly)
        runs = [await queued(process.store, f"{number}") for number in range(8)]
        async with running_worker(
            process.store, process.bus, actor, fallback_seconds=0.5, heartbeat=timedelta(milliseconds=200)
        ):
            for _ in range(4):
                await actor.started.get()
            await own_postgres.kill()
            while actor.active:  # noqa: ASYNC110 - until every run has noticed
                await asyncio.sleep(0.01)
            await own_postgres.start()
            for run in runs:
                await wait_for_status(process.store, run, RunStatus.COMPLETED)
