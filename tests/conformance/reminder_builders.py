"""Builders for reminders, and for the runs whose events trigger them."""

from datetime import timedelta
from typing import Any

from holdfast.domain.commit import Commit, Lease
from holdfast.domain.ids import ScheduleId, ThreadId
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.reminder import (
    NewReminder,
    Reminder,
    ReminderStatus,
    TriggerType,
    TriggerValue,
)
from holdfast.domain.run import Move, Run, RunStatus
from holdfast.domain.schedule import Firing, FiringCause, FiringInput
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from tests.builders import FIRST, MINUTE
from tests.conformance.conftest import SPACE

HOUR = timedelta(hours=1)
TIME, CONDITION, CONTEXT = TriggerType.TIME, TriggerType.CONDITION, TriggerType.CONTEXT
PENDING, TRIGGERED = ReminderStatus.PENDING, ReminderStatus.TRIGGERED
COMPLETED, DISMISSED = ReminderStatus.COMPLETED, ReminderStatus.DISMISSED


async def remind(store: Store, value: TriggerValue | None, kind: TriggerType = TIME, **fields: Any) -> Reminder:
    new = NewReminder(**{"content": "call mum", "trigger_type": kind, "trigger_value": value, **fields})
    return await store.reminders.create(SPACE, new)


def build(told: FiringInput) -> NewRun:
    text = f"{told.cause} {told.reminder}"
    tags = [f"judge:{told.schedule_id}"] if told.cause is FiringCause.CHECK else []
    return NewRun(thread=NewThread(), messages=[NewMessage(role=Role.USER, content=text)], tags=tags)


async def fire_due(store: Store) -> list[Firing]:
    fired: list[Firing] = []
    while claims := await store.timers.claim_due(FIRST, lease=MINUTE):
        for claim in claims:
            fired += await store.schedules.fire(claim, build=build)
    return fired


async def status(store: Store, reminder: Reminder) -> ReminderStatus:
    return (await store.reminders.get(SPACE, reminder.id)).status


async def firings(store: Store, reminder: Reminder) -> list[Firing]:
    return (await store.schedules.firings(SPACE, ScheduleId(reminder.id))).items


async def start(
    store: Store, agent: str = "bot", text: str = "hi", thread: ThreadId | None = None, **run: Any
) -> Lease:
    new = NewRun(
        thread=thread or NewThread(agent_type=agent),
        messages=[NewMessage(role=Role.USER, content=text)],
        **run,
    )
    created = (await store.runs.create(SPACE, new)).run
    leases = {lease.run_id: lease for lease in await store.leases.claim(FIRST, lease=MINUTE, limit=50)}
    return leases[created.id]


async def end(store: Store, lease: Lease, to: RunStatus = RunStatus.COMPLETED, **fields: Any) -> None:
    await store.journal.commit(Commit(lease=lease, move=Move(to=to, **fields)))


async def finish(store: Store, agent: str = "bot", to: RunStatus = RunStatus.COMPLETED, **run: Any) -> Run:
    lease = await start(store, agent, **run)
    await end(store, lease, to)
    return lease.run
