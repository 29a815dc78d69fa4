"""Builders for schedules, and what came of them."""

from datetime import timedelta
from typing import Any

from holdfast.domain.ids import ScheduleId
from holdfast.domain.instant import Millis, instant
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.schedule import (
    Firing,
    FiringInput,
    FiringOutcome,
    NewSchedule,
    NotifyAction,
    RunAction,
    Schedule,
    SchedulePlan,
)
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE
from tests.conformance.conftest import SPACE

HOUR = timedelta(hours=1)
RUN = RunAction(agent="bot", input="go")
NOTE = NotifyAction(message="tea")


def build(told: FiringInput) -> NewRun:
    return NewRun(thread=NewThread(), messages=[NewMessage(role=Role.USER, content=f"{told.cause} {told.due_at}")])


def plan(**fields: Any) -> SchedulePlan:
    return SchedulePlan(**{"action": RUN, "cron": "* * * * *", **fields})


async def make(store: Store, **fields: Any) -> Schedule:
    return await store.schedules.create(SPACE, NewSchedule(plan=plan(**fields)))


async def fire_due(store: Store) -> list[Firing]:
    """Fire whatever is due, until nothing is."""
    fired: list[Firing] = []
    while claims := await store.timers.claim_due(FIRST, lease=MINUTE):
        for claim in claims:
            fired += await store.schedules.fire(claim, build=build)
    return fired


async def outcomes(store: Store, schedule: ScheduleId) -> list[tuple[str, FiringOutcome]]:
    """Return the due times of all firings with their outcomes, oldest first."""
    found: list[Firing] = []
    cursor = None
    while True:
        page = await store.schedules.firings(SPACE, schedule, limit=200, cursor=cursor)
        found += page.items
        if page.next_cursor is None:
            return [(firing.due_at, firing.outcome) for firing in reversed(found)]
        cursor = page.next_cursor


def after(clock: HeldClock, *minutes: int) -> list[str]:
    """Return whole minutes from the next one on."""
    first = clock.now() // 60_000 + 1
    return [instant(Millis((first + each) * 60_000)) for each in minutes]
