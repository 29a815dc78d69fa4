"""A running worker, an executor controlled by the test, and leases that fail on request."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final, TypeAlias

from holdfast.bootstrap import SystemClock
from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Lease
from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import OwnerId, RunId
from holdfast.domain.run import Run, RunStatus
from holdfast.engine.timers import TimerAction, TimerLoop
from holdfast.engine.watcher import Watcher
from holdfast.engine.worker import Worker
from holdfast.ports.bus import Bus, WakeHint
from holdfast.ports.queue import Leases, QueueState
from holdfast.ports.runtime import Clock
from holdfast.store.store import Store
from tests.builders import finish
from tests.conformance.run_builders import get

Play: TypeAlias = Callable[[Lease, asyncio.Event], Awaitable[None]]

WORKER: Final = OwnerId("worker")
TIMERS: Final = OwnerId("timers")
HOUR: Final = timedelta(hours=1)
SOON: Final = timedelta(milliseconds=20)
NEVER: Final = 3600.0
"""Seconds that no test waits for: every event in it has another cause than time."""
LIMIT: Final = 30.0
"""Seconds after which a test counts as hanging."""


class DeafBus(LocalBus):
    """A bus that loses every hint."""

    def publish(self, wake: WakeHint) -> None:
        pass


class Actor:
    """`Executor` that runs a function for each run, and records which runs are active."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self.begun: asyncio.Queue[Lease] = asyncio.Queue()
        self.cut: asyncio.Queue[Lease] = asyncio.Queue()
        self.at: list[RunId] = []
        self.most = 0

    async def execute(self, lease: Lease, *, stop: asyncio.Event) -> None:
        """Execute a run."""
        self.at.append(lease.run_id)
        self.most = max(self.most, len(self.at))
        self.begun.put_nowait(lease)
        try:
            await self._play(lease, stop)
        except asyncio.CancelledError:
            self.cut.put_nowait(lease)
            raise
        finally:
            self.at.remove(lease.run_id)


def completing(store: Store) -> Play:
    """Return a function that completes its run at once."""
    return lambda lease, _: finish(store, lease)


async def hanging(lease: Lease, stop: asyncio.Event) -> None:
    """Execute a run for ever, ignoring `stop`."""
    await asyncio.Event().wait()


async def obeying(lease: Lease, stop: asyncio.Event) -> None:
    """Execute a run until `stop` is set."""
    await stop.wait()


class Watched:
    """`Leases` that count their calls, and are unavailable on request."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self.asked: dict[str, int] = {}
        self.down: set[str] = set()
        """Operations that raise `Unavailable`."""
        self.gate: asyncio.Event | None = None
        """A claim returns only when it is set."""
        self.answered = 0
        """The number of claims and queue reads that returned."""

    async def claim(self, owner: OwnerId, *, lease: timedelta, limit: int = 1) -> list[Lease]:
        self._ask("claim")
        claimed = await self._leases.claim(owner, lease=lease, limit=limit)
        if self.gate is not None:
            await self.gate.wait()
        self.answered += 1
        return claimed

    async def be_left_alone(self) -> None:
        """Wait until no claim or queue read is in progress or about to start."""
        quiet = 0
        while quiet < 20:
            asked = self._asked_about_work
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._asked_about_work == asked == self.answered else 0

    @property
    def _asked_about_work(self) -> int:
        return self.asked.get("claim", 0) + self.asked.get("queue", 0)

    async def renew(self, owner: OwnerId, leases: Sequence[Lease], *, lease: timedelta) -> list[Lease]:
        self._ask("renew")
        return await self._leases.renew(owner, leases, lease=lease)

    async def release(self, lease: Lease, *, delay: timedelta = timedelta()) -> None:
        self._ask("release")
        await self._leases.release(lease, delay=delay)

    async def expire(self, *, cap: int = 5) -> list[RunId]:
        self._ask("expire")
        return await self._leases.expire(cap=cap)

    async def queue_state(self) -> QueueState:
        self._ask("queue")
        state = await self._leases.queue_state()
        self.answered += 1
        return state

    async def was_asked(self, what: str, times: int = 1) -> None:
        """Wait for so many more calls of an operation."""
        wanted = self.asked.get(what, 0) + times
        while self.asked.get(what, 0) < wanted:  # noqa: ASYNC110 - others ask meanwhile
            await asyncio.sleep(0.002)

    def _ask(self, what: str) -> None:
        self.asked[what] = self.asked.get(what, 0) + 1
        if what in self.down:
            raise Unavailable("as the test says")


def new_worker(store: Store, watcher: Watcher, actor: Actor, **options: Any) -> Worker:
    """Create a worker whose heartbeat never runs, unless `options` set its interval."""
    given = {"leases": store.leases, "owner": WORKER, "concurrency": 4, "lease": 2 * HOUR, "heartbeat": HOUR, **options}
    return Worker(executor=actor, runs=store.runs, events=store.events, watcher=watcher, **given)


@asynccontextmanager
async def working(
    store: Store,
    bus: Bus,
    actor: Actor,
    *,
    leases: Leases | None = None,
    clock: Clock | None = None,
    patience: float = NEVER,
    **options: Any,
) -> AsyncIterator[Worker]:
    """Run a worker while the block runs. By default nothing in it depends on time."""
    used = leases or store.leases
    watcher = Watcher(
        bus=bus, events=store.events, leases=used, clock=clock or SystemClock(), fallback_seconds=patience
    )
    worker = new_worker(store, watcher, actor, leases=used, **options)
    async with asyncio.timeout(LIMIT), background(watcher.run()), background(worker.run()) as work:
        try:
            yield worker
        finally:
            worker.drain(timedelta())
            await asyncio.wait([work])


@asynccontextmanager
async def background(doing: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run a coroutine as a task while the block runs; its error is raised at the end."""
    task = asyncio.get_running_loop().create_task(doing)
    await asyncio.sleep(0)  # it starts
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def firing(
    store: Store,
    bus: Bus,
    clock: Clock,
    *,
    kinds: Mapping[str, TimerAction] | None = None,
    patience: float = NEVER,
    owner: OwnerId = TIMERS,
) -> AsyncIterator[None]:
    """Run a timer loop while the block runs."""
    watcher = Watcher(bus=bus, events=store.events, leases=store.leases, clock=clock, fallback_seconds=NEVER)
    loop = TimerLoop(
        timers=store.timers,
        interrupts=store.interrupts,
        runs=store.runs,
        inbox=store.inbox,
        watcher=watcher,
        clock=clock,
        owner=owner,
        actions=kinds,
        lease=timedelta(minutes=1),
        fallback_seconds=patience,
    )
    async with asyncio.timeout(LIMIT), background(watcher.run()), background(loop.run()):
        yield


async def becomes(store: Store, run: Run, status: RunStatus) -> Run:
    """Wait until a run has a status."""
    while (now := await get(store, run.id)).status is not status:  # noqa: ASYNC110 - the worker goes on meanwhile
        await asyncio.sleep(0.002)
    return now
