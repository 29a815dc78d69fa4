"""A writer that is killed. It cleans up after earlier victims, plays its workload, and reports its steps."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

import holdfast.store.postgres.database
import holdfast.store.sqlite.database  # noqa: F401 - imported on use otherwise, by each victim again
from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import SpaceId
from holdfast.domain.run import ACTIVE_STATUSES, Run
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.scenario.stage import FAR_OFF, LEASE, START, WORKER, Stage
from tests.scenario.workload import PLAYS
from tests.support.commit_points import CommitPoints
from tests.support.database_probe import is_postgres
from tests.support.fork_server import SendMessage

CLEANUP_DELAY: Final = 4 * FAR_OFF


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a victim, and the commit point at which it dies, if any."""

    database: str
    parts: dict[SpaceId, str]
    """The workload of each space; all run concurrently."""
    spaces_to_clean: list[SpaceId] = []
    """Spaces to clean up. On PostgreSQL a surviving process does it."""
    fatal: int | None = None
    count_opening: bool = False
    """Whether the points of opening and cleanup count too."""


def work(raw: Any, send_message: SendMessage) -> None:
    """Execute a `Task`."""
    asyncio.run(_work(msgspec.convert(raw, Task), send_message))


async def _work(task: Task, send_message: SendMessage) -> None:
    points = CommitPoints(fatal=task.fatal)
    if is_postgres(task.database):
        points.number_postgres()
    else:
        points.number_sqlite()
    if task.count_opening:
        points.start()
    clock = HeldClock(START)
    clock.tick(CLEANUP_DELAY)
    async with open_store(task.database, bus=LocalBus(), clock=clock) as store:
        if not is_postgres(task.database):
            assert await store.leases.expire() == [], "opening the file frees the leases of dead processes"
            await tidy_up(store, task.spaces_to_clean)
            send_message({"tidy": True})
        clock.tick(-CLEANUP_DELAY)
        if not task.count_opening:
            points.start()
        await play(store, task.parts, clock, send_message)
        send_message({"points": points.names})


async def play(store: Store, parts: Mapping[SpaceId, str], clock: HeldClock, send_message: SendMessage) -> None:
    """Play all workloads concurrently, and report each finished step."""
    queue = asyncio.Lock()

    async def note(space: SpaceId) -> None:
        send_message({"done": space})

    async with asyncio.TaskGroup() as group:
        for space, name in parts.items():
            stage = Stage(store, space, clock=clock, queue=queue, note=partial(note, space))
            group.create_task(PLAYS[name](stage))


async def tidy_up(store: Store, spaces: list[SpaceId]) -> None:
    """End all runs of dead processes, long after their leases and timers have expired."""
    await store.leases.expire()
    for space in spaces:
        for run in await _live_runs(store, space):
            if (await store.runs.get(space, run.id)).status in ACTIVE_STATUSES:
                await store.runs.end(space, run.id)
    for claim in await store.timers.claim_due(WORKER, lease=LEASE):
        await store.timers.settle(claim)
    await store.notifications.dispatch()
    state = await store.leases.queue_state()
    assert not state.ready and state.next_at is None, "a run without a worker is left"


async def _live_runs(store: Store, space: SpaceId) -> list[Run]:
    try:
        runs = (await store.runs.page(space, limit=100)).items
    except NotFound:
        return []
    return [run for run in reversed(runs) if run.status in ACTIVE_STATUSES]
