"""A running worker, an executor controlled by the test, and leases that fail on request."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final, TypeAlias

from holdfast.bootstrap import SystemClock
from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Lease
from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import OwnerId, RunId
from holdfast.domain.run import Run, RunError, RunStatus
from holdfast.domain.worker import DEFAULT_CLAIM, ClaimFilter
from holdfast.engine.timers import TimerAction, TimerLoop
from holdfast.engine.watcher import Watcher
from holdfast.engine.worker import Worker
from holdfast.ports.bus import Bus, WakeHint
from holdfast.ports.queue import Leases, QueueState
from holdfast.ports.runtime import Clock
from holdfast.store.store import Store
from tests.builders import finish
from tests.conformance.run_builders import get

ExecuteFunction: TypeAlias = Callable[[Lease, asyncio.Event], Awaitable[None]]

WORKER: Final = OwnerId("worker")
TIMERS: Final = OwnerId("timers")
HOUR: Final = timedelta(hours=1)
SHORT_HEARTBEAT: Final = timedelta(milliseconds=20)
NEVER_SECONDS: Final = 3600.0
"""Seconds that no test waits for: nothing in such a test is caused by elapsed time."""
HANG_TIMEOUT_SECONDS: Final = 30.0
"""Seconds after which a test counts as hanging."""


class LossyBus(LocalBus):
    """A bus that loses every hint."""

    def publish(self, wake: WakeHint) -> None:
        pass


class Actor:
    """`Executor` that runs a function for each run, and records which runs are active."""

    def __init__(self, execute: ExecuteFunction) -> None:
        self._execute = execute
        self.started: asyncio.Queue[Lease] = asyncio.Queue()
        self.cancelled: asyncio.Queue[Lease] = asyncio.Queue()
        self.active: list[RunId] = []
        self.max_active = 0

    async def execute(self, lease: Lease, *, stop: asyncio.Event) -> None:
        """Execute a run."""
        self.active.append(lease.run_id)
        self.max_active = max(self.max_active, len(self.active))
        self.started.put_nowait(lease)
        try:
            await self._execute(lease, stop)
        except asyncio.CancelledError:
            self.cancelled.put_nowait(lease)
            raise
        finally:
            self.active.remove(lease.run_id)


def complete_run(store: Store) -> ExecuteFunction:
    """Return a function that completes its run at once."""
    return lambda lease, _: finish(store, lease)


async def ignore_stop(lease: Lease, stop: asyncio.Event) -> None:
    """Execute a run for ever, ignoring `stop`."""
    await asyncio.Event().wait()


async def obey_stop(lease: Lease, stop: asyncio.Event) -> None:
    """Execute a run until `stop` is set."""
    await stop.wait()


class ObservedLeases:
    """`Leases` that count their calls, and are unavailable on request."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self.calls: dict[str, int] = {}
        self.unavailable: set[str] = set()
        """Operations that raise `Unavailable`."""
        self.claim_gate: asyncio.Event | None = None
        """A claim returns only when it is set."""
        self.returned = 0
        """The number of claims and queue reads that returned."""

    async def claim(
        self, owner: OwnerId, *, lease: timedelta, limit: int = 1, where: ClaimFilter = DEFAULT_CLAIM
    ) -> list[Lease]:
        self._count_call("claim")
        claimed = await self._leases.claim(owner, lease=lease, limit=limit, where=where)
        if self.claim_gate is not None:
            await self.claim_gate.wait()
        self.returned += 1
        return claimed

    async def wait_until_idle(self) -> None:
        """Wait until no claim or queue read is in progress or about to start."""
        quiet = 0
        while quiet < 20:
            calls = self._work_calls
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._work_calls == calls == self.returned else 0

    @property
    def _work_calls(self) -> int:
        return self.calls.get("claim", 0) + self.calls.get("queue", 0)

    async def renew(self, owner: OwnerId, leases: Sequence[Lease], *, lease: timedelta) -> list[Lease]:
        self._count_call("renew")
        return await self._leases.renew(owner, leases, lease=lease)

    async def release(self, lease: Lease, *, delay: timedelta = timedelta()) -> None:
        self._count_call("release")
        await self._leases.release(lease, delay=delay)

    async def release_leftover(self, leases: Sequence[Lease]) -> None:
        self._count_call("release_leftover")
        await self._leases.release_leftover(leases)

    async def fail(self, lease: Lease, error: RunError) -> None:
        self._count_call("fail")
        await self._leases.fail(lease, error)

    async def expire(self, *, cap: int = 5, spare: Container[int] = ()) -> list[RunId]:
        self._count_call("expire")
        return await self._leases.expire(cap=cap, spare=spare)

    async def queue_state(self) -> QueueState:
        self._count_call("queue")
        state = await self._leases.queue_state()
        self.returned += 1
        return state

    async def wait_for_calls(self, operation: str, times: int = 1) -> None:
        """Wait for so many more calls of an operation."""
        expected = self.calls.get(operation, 0) + times
        while self.calls.get(operation, 0) < expected:  # noqa: ASYNC110 - others ask meanwhile
            await asyncio.sleep(0.002)

    def _count_call(self, operation: str) -> None:
        self.calls[operation] = self.calls.get(operation, 0) + 1
        if operation in self.unavailable:
            raise Unavailable("as the test says")


def new_worker(store: Store, watcher: Watcher, actor: Actor, **options: Any) -> Worker:
    """Create a worker whose heartbeat never runs, unless `options` set its interval."""
    worker_options = {
        "leases": store.leases,
        "owner": WORKER,
        "concurrency": 4,
        "lease": 2 * HOUR,
        "heartbeat": HOUR,
        **options,
    }
    return Worker(executor=actor, watcher=watcher, **worker_options)


@asynccontextmanager
async def running_worker(
    store: Store,
    bus: Bus,
    actor: Actor,
    *,
    leases: Leases | None = None,
    clock: Clock | None = None,
    fallback_seconds: float = NEVER_SECONDS,
    **options: Any,
) -> AsyncIterator[Worker]:
    """Run a worker while the block runs. By default nothing in it depends on time."""
    used_leases = leases or store.leases
    watcher = Watcher(
        bus=bus,
        events=store.events,
        leases=used_leases,
        clock=clock or SystemClock(),
        fallback_seconds=fallback_seconds,
    )
    worker = new_worker(store, watcher, actor, leases=used_leases, **options)
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), background(watcher.run()), background(worker.run()) as work:
        try:
            yield worker
        finally:
            worker.drain(timedelta())
            await asyncio.wait([work])


@asynccontextmanager
async def background(coroutine: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run a coroutine as a task while the block runs; its error is raised at the end."""
    task = asyncio.get_running_loop().create_task(coroutine)
    await asyncio.sleep(0)  # it starts
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def running_timers(
    store: Store,
    bus: Bus,
    clock: Clock,
    *,
    kinds: Mapping[str, TimerAction] | None = None,
    fallback_seconds: float = NEVER_SECONDS,
    owner: OwnerId = TIMERS,
) -> AsyncIterator[None]:
    """Run a timer loop while the block runs."""
    watcher = Watcher(bus=bus, events=store.events, leases=store.leases, clock=clock, fallback_seconds=NEVER_SECONDS)
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
        fallback_seconds=fallback_seconds,
    )
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), background(watcher.run()), background(loop.run()):
        yield


async def wait_for_status(store: Store, run: Run, status: RunStatus) -> Run:
    """Wait until a run has a status."""
    while (current := await get(store, run.id)).status is not status:  # noqa: ASYNC110 - the worker continues meanwhile
        await asyncio.sleep(0.002)
    return current
