"""Schedules over daylight saving changes and jumps of the clock: each time fires once, and each leaves a row."""

from datetime import timedelta

import pytest

from holdfast.domain.instant import Instant, Millis, instant, millis
from holdfast.domain.schedule import (
    FiringOutcome,
    Misfire,
    Overlap,
    SchedulePatch,
)
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE
from tests.conformance.conftest import SPACE
from tests.conformance.schedule_builders import HOUR, NOTE, fire_due, make, outcomes, plan


async def test_a_clock_that_is_set_back_fires_nothing_twice(store: Store, clock: HeldClock) -> None:
    schedule = await make(store, overlap=Overlap.QUEUE)
    for _ in range(3):
        clock.tick(MINUTE)
        await fire_due(store)
    before = await outcomes(store, schedule.id)
    clock.step_back(HOUR)
    for _ in range(61):
        await store.timers.follow_clock()
        await fire_due(store)
        clock.tick(MINUTE)
    await fire_due(store)
    found = await outcomes(store, schedule.id)
    assert len({time for time, _ in found}) == len(found)
    assert found[:3] == before and len(found) > 3


@pytest.mark.parametrize(("step", "misfire"), [(step, each) for step in (1, -1) for each in Misfire])
async def test_a_clock_that_jumps_an_hour_repeats_no_time_and_leaves_a_row_for_each(
    store: Store, clock: HeldClock, step: int, misfire: Misfire
) -> None:
    clock.tick(timedelta(milliseconds=600_000 - clock.now() % 600_000))
    start = clock.now() + 600_000
    schedule = await make(store, cron="*/10 * * * *", misfire=misfire, overlap=Overlap.QUEUE)

    async def pass_time(minutes: int) -> None:
        for _ in range(minutes):
            clock.tick(MINUTE)
            await store.timers.follow_clock()
            await fire_due(store)

    await pass_time(30)
    if step > 0:
        clock.tick(HOUR)
    else:
        clock.step_back(HOUR)
    await pass_time(30 if step > 0 else 90)
    found = await outcomes(store, schedule.id)
    times = [instant(Millis(start + number * 600_000)) for number in range(len(found))]
    assert [time for time, _ in found] == times  # each once, none without a row
    missed = sum(outcome is FiringOutcome.MISSED for _, outcome in found)
    expected = {Misfire.SKIP: 6, Misfire.ONCE: 5, Misfire.ALL: 0}[misfire] if step > 0 else 0
    assert (len(found), missed) == (12 if step > 0 else 6, expected)


CHANGES = [
    ("Europe/Berlin", "30 2 * * *", "2026-03-28T00:00", "2026-03-31T00:00",
     ["03-28T01:30", "03-29T01:00", "03-30T00:30"]),
    ("America/New_York", "30 2 * * *", "2026-03-07T05:00", "2026-03-10T05:00",
     ["03-07T07:30", "03-08T07:00", "03-09T06:30"]),
    ("Australia/Lord_Howe", "15 2 * * *", "2026-10-02T12:00", "2026-10-05T12:00",
     ["10-02T15:45", "10-03T15:30", "10-04T15:15"]),
    ("Europe/Berlin", "30 2 * * *", "2026-10-24T00:00", "2026-10-27T00:00",
     ["10-24T00:30", "10-25T00:30", "10-26T01:30"]),
    ("America/New_York", "30 1 * * *", "2026-10-31T05:00", "2026-11-03T05:00",
     ["10-31T05:30", "11-01T05:30", "11-02T06:30"]),
    ("Australia/Lord_Howe", "45 1 * * *", "2026-04-03T14:00", "2026-04-06T14:00",
     ["04-03T14:45", "04-04T14:45", "04-05T15:15"]),
]  # fmt: skip


@pytest.mark.parametrize("asleep", [False, True])
@pytest.mark.parametrize(("zone", "cron", "start", "end", "expected"), CHANGES)
async def test_a_change_of_daylight_saving_skips_and_repeats_no_day(
    store: Store, clock: HeldClock, zone: str, cron: str, start: str, end: str, expected: list[str], asleep: bool
) -> None:
    def move(to: str | int) -> None:
        clock.tick(timedelta(milliseconds=(to if isinstance(to, int) else millis(Instant(f"{to}:00Z"))) - clock.now()))

    move(start)
    schedule = await make(
        store, cron=cron, timezone=zone, action=NOTE, misfire=Misfire.ALL, misfire_window_seconds=None
    )
    while not asleep and clock.now() < millis(Instant(f"{end}:00Z")):
        clock.tick(timedelta(minutes=15))
        await fire_due(store)
    move(end)
    await fire_due(store)
    found = [(time[5:16], outcome) for time, outcome in await outcomes(store, schedule.id)]
    assert found == [(time, FiringOutcome.FIRED) for time in expected]


async def test_another_plan_after_the_clock_went_back_repeats_no_time(store: Store, clock: HeldClock) -> None:
    schedule = await make(store, overlap=Overlap.QUEUE)
    clock.tick(MINUTE)
    await fire_due(store)
    clock.step_back(MINUTE)
    await store.schedules.update(SPACE, schedule.id, SchedulePatch(plan=plan(overlap=Overlap.CANCEL)))
    clock.tick(MINUTE)
    assert await fire_due(store) == []
    clock.tick(MINUTE)
    assert len(await fire_due(store)) == 1
