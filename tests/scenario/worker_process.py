"""A worker process that reports its actions. Tests stop, continue and kill it."""

import asyncio
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, Literal, TypeAlias

import msgspec

from holdfast.bootstrap.store import SystemClock, lease_opener, open_bus, open_store
from holdfast.domain.commit import Lease
from holdfast.domain.errors import HoldfastError
from holdfast.domain.ids import OwnerId
from holdfast.engine.leases import MAX_BLOCKED_SECONDS
from holdfast.engine.watcher import Watcher
from holdfast.engine.worker import Worker
from holdfast.store.leases import SqlLeases
from holdfast.store.store import Store
from tests.builders import finish, text_events
from tests.conformance.run_builders import commit

LEASE: Final = timedelta(milliseconds=1500)
HEARTBEAT: Final = timedelta(milliseconds=400)

ReportKind: TypeAlias = Literal["begun", "beat", "committed", "refused", "cut"]
Play: TypeAlias = Literal["idle", "busy", "blocked"]


class WorkerTask(msgspec.Struct, frozen=True):
    """The work on a run: nothing, one commit after the other, or a call that blocks the event loop.

    The call blocks until the process reads a line; then the run is completed.
    """

    url: str
    name: OwnerId
    plays: Play
    max_blocked_seconds: float = MAX_BLOCKED_SECONDS


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A report of the process."""

    what: ReportKind
    code: str | None = None


class ReportingLeases(SqlLeases):
    """Leases that report each renewal."""

    def __init__(self, store: Store) -> None:
        self.__dict__ |= vars(store.leases)

    async def renew(self, owner: OwnerId, leases: Sequence[Lease], *, lease: timedelta) -> list[Lease]:
        report("beat")
        return await super().renew(owner, leases, lease=lease)


class ReportingExecutor:
    """`Executor`."""

    def __init__(self, store: Store, task: WorkerTask) -> None:
        self._store = store
        self._task = task

    async def execute(self, lease: Lease, *, stop: asyncio.Event) -> None:
        """Work on a run until cancelled."""
        report("begun")
        try:
            match self._task.plays:
                case "idle":
                    await asyncio.Event().wait()
                case "busy":
                    await self._commit(lease)
                case "blocked":
                    sys.stdin.buffer.readline()
                    await finish(self._store, lease)
        except asyncio.CancelledError:
            report("cut")
            raise
        except HoldfastError as exc:
            report("refused", exc.code)
            raise

    async def _commit(self, lease: Lease) -> None:
        number = 0
        while True:
            number += 1
            await commit(self._store, lease, events=text_events("x", id=f"{self._task.name}-{number}"))
            report("committed")


def report(what: ReportKind, code: str | None = None) -> None:
    """Write a line."""
    sys.stdout.buffer.write(msgspec.json.encode(Report(what=what, code=code)) + b"\n")
    sys.stdout.buffer.flush()


async def _work(task: WorkerTask) -> None:
    async with open_bus(task.url) as bus, open_store(task.url, bus=bus) as store:
        leases = ReportingLeases(store)
        watcher = Watcher(bus=bus, events=store.events, leases=leases, clock=SystemClock(), fallback_seconds=0.1)
        worker = Worker(
            executor=ReportingExecutor(store, task),
            leases=leases,
            watcher=watcher,
            owner=task.name,
            concurrency=1,
            lease=LEASE,
            heartbeat=HEARTBEAT,
            open_leases=lease_opener(task.url),
            max_blocked_seconds=task.max_blocked_seconds,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watcher.run())
            tasks.create_task(worker.run())


if __name__ == "__main__":
    asyncio.run(_work(msgspec.json.decode(sys.argv[1], type=WorkerTask)))
