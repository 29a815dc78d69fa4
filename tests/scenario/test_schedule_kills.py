"""Processes that fire due times are killed: each due time fires once, with one run, and none is lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from random import Random
from typing import Final

import msgspec
import pytest

from holdfast.bootstrap import open_store
from holdfast.domain.ids import SpaceId
from holdfast.domain.instant import Millis
from holdfast.domain.reminder import NewReminder, TriggerType
from holdfast.domain.schedule import RunAction
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.scenario.conftest import Location, NewLocation
from tests.scenario.schedule_victim import FiringTask
from tests.scenario.stage import START
from tests.support.database_probe import open_probe
from tests.support.fork_server import ForkServer

VICTIM: Final = "tests.scenario.schedule_victim:work"
GENERATION_MS: Final = 120_000
"""Time between two generations of processes, longer than the claims of the dead."""
FIRST_LIFETIME_SECONDS: Final = 0.05
"""The first processes live no longer than this, later ones longer and longer."""
SPACE: Final = SpaceId("acme")


@pytest.fixture
async def firing() -> AsyncIterator[ForkServer]:
    async with ForkServer(VICTIM) as server:
        yield server


async def add_due(location: Location, count: int, *, space: SpaceId = SPACE) -> None:
    """Add reminders that are due one second after the start, each with a run."""
    async with open_store(location, clock=HeldClock(Millis(START))) as store:
        await store.spaces.create(space, name="Acme")
        for _ in range(count):
            await _remind(store, space)


async def _remind(store: Store, space: SpaceId) -> None:
    action = RunAction(agent="bot", new_thread=True)
    new = NewReminder(content="now", trigger_type=TriggerType.TIME, trigger_value="in 1 s", action=action)
    await store.reminders.create(space, new)


async def check_fired_once(location: Location, count: int) -> None:
    async with open_probe(location) as probe:
        (found,) = await probe.rows(
            "SELECT (SELECT COUNT(*) FROM firings WHERE outcome = 'fired') AS fired,"
            " (SELECT COUNT(*) FROM firings) AS all_firings,"
            " (SELECT COUNT(DISTINCT schedule_key) FROM firings) AS schedules, (SELECT COUNT(*) FROM runs) AS runs,"
            " (SELECT COUNT(DISTINCT run_id) FROM firings) AS fired_runs,"
            " (SELECT COUNT(*) FROM reminders WHERE status = 'triggered') AS reminders,"
            " (SELECT COUNT(*) FROM outbox WHERE kind = 'reminder.triggered') AS notified"
        )
    assert set(dict(found).values()) == {count}, dict(found)


async def test_a_kill_at_every_commit_point_of_a_firing_loses_and_repeats_nothing(
    backend: str, firing: ForkServer, new_location: NewLocation
) -> None:
    location = await new_location()
    await add_due(location, 1)
    now, fatal = START + GENERATION_MS, 0
    random, kills = Random(20), 0
    while True:
        # On PostgreSQL a process costs ten times as much: some of the points.
        fatal += 1 if backend == "sqlite" else random.randint(1, 4)
        task = FiringTask(database=str(location), now=now, fatal=fatal)
        death = await firing.send(msgspec.to_builtins(task))
        now += GENERATION_MS
        if not death.killed:
            break
        kills += 1
        await firing.send(msgspec.to_builtins(FiringTask(database=str(location), now=now)))
        await check_fired_once(location, kills)
        async with open_store(location, clock=HeldClock(Millis(now))) as store:
            await _remind(store, SPACE)
        now += GENERATION_MS
    await check_fired_once(location, kills + 1)
    assert kills >= (20 if backend == "sqlite" else 6)


async def _fire_among_kills(location: Location, *, processes: int) -> int:
    """Let processes fire what is due while they are killed at random; return how many were killed."""
    random, kills, now, longest = Random(20), 0, START + GENERATION_MS, FIRST_LIFETIME_SECONDS
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ForkServer(VICTIM)) for _ in range(processes)]
        while True:
            tasks = [FiringTask(database=str(location), now=now, name=f"p{number}") for number in range(processes)]
            deaths = await asyncio.gather(
                *(
                    server.send(msgspec.to_builtins(task), seconds=random.uniform(0, longest))
                    for server, task in zip(servers, tasks, strict=True)
                )
            )
            kills += sum(death.killed for death in deaths)
            now += GENERATION_MS
            longest *= 1.3
            if not any(death.killed for death in deaths):
                return kills


@pytest.mark.parametrize("count", [pytest.param(200), pytest.param(10_000, marks=pytest.mark.slow)])
async def test_three_processes_among_kills_fire_each_due_time_once(
    backend: str, new_location: NewLocation, count: int
) -> None:
    """On SQLite one process owns the file, and restarts."""
    location = await new_location()
    await add_due(location, count)
    kills = await _fire_among_kills(location, processes=3 if backend == "postgres" else 1)
    await check_fired_once(location, count)
    assert kills > 0
