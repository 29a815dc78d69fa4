"""A process that fires everything that is due, and may be killed at a commit point."""

import asyncio
from datetime import timedelta
from typing import Any, Final

import msgspec

import holdfast.store.postgres.database
import holdfast.store.sqlite.database  # noqa: F401 - imported on use otherwise, by each victim again
from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.errors import LeaseLost
from holdfast.domain.ids import OwnerId
from holdfast.domain.instant import Millis
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.schedule import FiringInput
from holdfast.domain.thread import NewThread
from holdfast.testing.clock import HeldClock
from tests.support.commit_points import CommitPoints
from tests.support.database_probe import is_postgres
from tests.support.fork_server import SendMessage

CLAIM_LEASE: Final = timedelta(minutes=1)


class FiringTask(msgspec.Struct, frozen=True, kw_only=True):
    """The database, the time, and the commit point at which the process dies, if any."""

    database: str
    now: int
    name: str = "victim"
    fatal: int | None = None


def work(raw: Any, send_message: SendMessage) -> None:
    """Execute a `FiringTask`."""
    asyncio.run(_work(msgspec.convert(raw, FiringTask), send_message))


async def _work(task: FiringTask, send_message: SendMessage) -> None:
    points = CommitPoints(fatal=task.fatal)
    if is_postgres(task.database):
        points.number_postgres()
    else:
        points.number_sqlite()
    clock = HeldClock(Millis(task.now))
    async with open_store(task.database, bus=LocalBus(), clock=clock) as store:
        points.start()
        while claims := await store.timers.claim_due(OwnerId(task.name), lease=CLAIM_LEASE, limit=20):
            for claim in claims:
                try:
                    await store.schedules.fire(claim, build=build)
                except LeaseLost:
                    continue
    send_message({"points": points.names})


def build(told: FiringInput) -> NewRun:
    """Return the run of a firing."""
    return NewRun(thread=NewThread(), messages=[NewMessage(role=Role.USER, content=str(told.reminder))])
