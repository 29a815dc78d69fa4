"""The worker claims runs up to its concurrency, executes them, and releases those that it does not finish.

    hint, due time ──► claim ──► a task for each run ──► executor ──► returned: a slot is free, claim again
                                       ▲                     └──────► stopped, cancelled, failed: released
    the heartbeat renews all leases ───┘ and cancels the runs whose lease was not renewed

Draining claims nothing more, asks every run to stop, and cancels those that have not stopped at the timeout.
"""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from datetime import timedelta
from functools import partial
from typing import Final

from holdfast.concurrency import cancel_and_wait
from holdfast.domain.commit import Lease
from holdfast.domain.errors import HoldfastError, Invalid, Unavailable
from holdfast.domain.ids import OwnerId
from holdfast.domain.worker import BEAT_SECONDS, DEFAULT_CLAIM, ClaimFilter, NewWorker
from holdfast.engine.leases import (
    MAX_BLOCKED_SECONDS,
    ActiveRun,
    Heartbeat,
    HeartbeatThread,
    LeaseRelease,
    OpenLeases,
)
from holdfast.engine.loops import StoreOutage, WakeEvent, run_forever
from holdfast.engine.watcher import Watcher
from holdfast.ports.bus import WakeHint
from holdfast.ports.queue import Leases, WorkerBeats
from holdfast.ports.runtime import Executor

DEFAULT_LEASE: Final = timedelta(seconds=5)
DEFAULT_HEARTBEAT_INTERVAL: Final = timedelta(seconds=1.5)
"""A lease and an interval after a worker died, another one has taken over its runs."""
DEFAULT_DRAIN_TIMEOUT: Final = timedelta(seconds=20)
MAX_STARTS_PER_TURN: Final = 32
"""Runs of one claim that start in one turn of the event loop: more would keep everybody else waiting."""
MAX_CLAIM_BATCH: Final = 1000
LEAVE_SECONDS: Final = 2.0

_log: Final = logging.getLogger("holdfast.engine")


class Worker:
    """Executes up to `concurrency` runs at a time. A worker runs once."""

    def __init__(
        self,
        *,
        executor: Executor,
        leases: Leases,
        watcher: Watcher,
        owner: OwnerId,
        concurrency: int,
        where: ClaimFilter = DEFAULT_CLAIM,
        lease: timedelta = DEFAULT_LEASE,
        heartbeat: timedelta = DEFAULT_HEARTBEAT_INTERVAL,
        drain: timedelta = DEFAULT_DRAIN_TIMEOUT,
        max_unrenewed: timedelta | None = None,
        open_leases: OpenLeases | None = None,
        max_blocked_seconds: float = MAX_BLOCKED_SECONDS,
    ) -> None:
        """Create a worker. With `open_leases`, a thread renews its leases while the event loop is blocked.

        Runs whose leases could not be renewed for `max_unrenewed` are cancelled; by default, when the lease expires.
        """
        if concurrency < 1:
            raise Invalid("a worker needs a concurrency of at least 1", field="concurrency")
        if not timedelta() < heartbeat < lease:
            raise Invalid("the heartbeat interval must be shorter than the lease", field="heartbeat")
        self._executor = executor
        self._leases = leases
        self._watcher = watcher
        self._owner = owner
        self._concurrency = concurrency
        self._where = where
        self._lease = lease
        self._sweep_seconds = heartbeat.total_seconds()
        self._drain_timeout = drain
        self._active: dict[int, ActiveRun] = {}
        self._heartbeat = Heartbeat(
            leases, self._active, owner=owner, lease=lease, interval=heartbeat, max_unrenewed=max_unrenewed or lease
        )
        self._heartbeat_thread: AbstractAsyncContextManager[None] = nullcontext()
        if open_leases is not None:
            self._heartbeat_thread = HeartbeatThread(
                self._heartbeat,
                open_leases,
                self._active,
                owner=owner,
                lease=lease,
                interval=heartbeat,
                max_blocked_seconds=max_blocked_seconds,
            ).running()
        self._lease_release = LeaseRelease(leases=leases, lease=lease)
        self._wake = WakeEvent()
        self._may_have_work = True
        """Whether there may be a run to claim."""
        self._draining = self._cancelling = False
        self._drain_timer: asyncio.TimerHandle | None = None
        self._tasks: asyncio.TaskGroup

    @property
    def active_count(self) -> int:
        """The number of active runs."""
        return len(self._active)

    async def run(self) -> None:
        """Work until drained. When cancelled, cancel and release every run first."""
        async with self._heartbeat_thread, asyncio.TaskGroup() as loops:
            with self._watcher.listen(self._on_wake):
                claiming = loops.create_task(self._claim_loop())
                others = [
                    loops.create_task(loop)
                    for loop in (self._heartbeat.run(), run_forever("releasing expired leases", self._sweep))
                ]
                # A separate group: if a loop fails, the runs are still released.
                async with asyncio.TaskGroup() as self._tasks:
                    await self._until_drained(claiming)
                await cancel_and_wait(others)
        with suppress(Unavailable):
            await self._lease_release.release_returned()

    def drain(self, within: timedelta | None = None) -> None:
        """Stop claiming and ask every run to stop; `run` returns when all have stopped or were cancelled.

        Runs that have not stopped after `within` are cancelled; a second call cancels them at once.
        """
        if self._draining:
            self._cancel_active()
            return
        self._draining = True
        for active in self._active.values():
            active.stop.set()
        self._wake.set()
        seconds = (self._drain_timeout if within is None else within).total_seconds()
        if self._active:
            _log.info(
                "draining: active runs have %g s to stop, then they are cancelled: %d", seconds, len(self._active)
            )
        self._drain_timer = asyncio.get_running_loop().call_later(seconds, self._cancel_active)

    def _cancel_active(self) -> None:
        self._draining = self._cancelling = True
        self._wake.set()

    def _on_wake(self, hint: WakeHint) -> None:
        if hint.queue or hint.coming:
            self._may_have_work = True
            self._wake.set()
        names = ((active.lease.space_id, active.lease.run_id) for active in self._active.values())
        if self._active and (hint.everything or (hint.ended and any(name in hint.ended for name in names))):
            self._heartbeat.renew_now()

    async def _claim_loop(self) -> None:
        """Claim runs for the free slots, until draining."""
        outage = StoreOutage("claiming runs")
        while not self._draining:
            free = min(self._concurrency - len(self._active), MAX_CLAIM_BATCH)
            if not (self._may_have_work and free > 0):
                await self._wake.wait()
                continue
            self._may_have_work = False  # a hint that arrives during the claim sets it again
            claimed_at = asyncio.get_running_loop().time()
            try:
                leases = await self._leases.claim(self._owner, lease=self._lease, limit=free, where=self._where)
            except Unavailable as exc:
                self._may_have_work = True
                await self._wake.wait(seconds=outage.next_delay(exc))
                continue
            outage.note_recovered()
            self._may_have_work |= len(leases) == free
            for index, lease in enumerate(leases):
                self._start_run(lease, renewed_at=claimed_at, after_turns=index // MAX_STARTS_PER_TURN)

    def _start_run(self, lease: Lease, *, renewed_at: float, after_turns: int) -> None:
        previous = self._active.get(lease.run_key)
        active = self._active[lease.run_key] = ActiveRun(lease, renewed_at=renewed_at, previous=previous)
        executing = self._execute(active, after_turns=after_turns)
        active.task = self._tasks.create_task(executing, name=f"run {lease.run_id}")
        active.task.add_done_callback(partial(self._on_task_done, active))
        if previous is not None:
            previous.cancel()
        if self._draining:
            active.cancel()  # before it starts

    async def _execute(self, active: ActiveRun, *, after_turns: int) -> Exception | None:
        """Execute a run after some turns of the event loop, and return its error, if it raised one."""
        for _ in range(after_turns):
            await asyncio.sleep(0)
        if active.previous is not None:
            await asyncio.wait([active.previous.task])
            active.previous = None
        try:
            await self._executor.execute(active.lease, stop=active.stop)
        except Exception as exc:  # noqa: BLE001 - one failing run must not end the others
            return exc
        return None

    def _on_task_done(self, active: ActiveRun, task: asyncio.Task[Exception | None]) -> None:
        error = None if task.cancelled() else task.result()
        if error is None and not (task.cancelled() or active.cancelled or active.stop.is_set()):
            self._lease_release.note_returned(active.lease)
            self._remove(active)
            return
        releasing = self._release(active, error)
        try:
            self._tasks.create_task(releasing)
        except RuntimeError:  # the task group has failed and takes no more tasks: the lease expires by itself
            releasing.close()
            self._remove(active)

    async def _release(self, active: ActiveRun, error: Exception | None) -> None:
        try:
            await self._lease_release.release(active, error)
        finally:
            self._remove(active)

    def _remove(self, active: ActiveRun) -> None:
        if self._active.get(active.lease.run_key) is active:
            del self._active[active.lease.run_key]
        if self._may_have_work or self._draining:  # else there is nothing to do with the free slot
            self._wake.set()

    async def _sweep(self) -> None:
        """Expire the leases of dead workers, and release those that executors left behind."""
        await self._leases.expire(spare=self._active)
        await self._lease_release.release_returned()
        await asyncio.sleep(self._sweep_seconds)

    async def _until_drained(self, claiming: asyncio.Task[None]) -> None:
        try:
            await self._wait_until_idle(claiming)
        except asyncio.CancelledError:
            self._cancel_active()
            await self._wait_until_idle(claiming)
            raise
        finally:
            if self._drain_timer is not None:
                self._drain_timer.cancel()

    async def _wait_until_idle(self, claiming: asyncio.Task[None]) -> None:
        """Wait until draining has begun and no run is active, cancelling the active ones once that is due."""
        await asyncio.wait([claiming])
        while self._active:
            for active in list(self._active.values()) if self._cancelling else ():
                active.cancel()
            await self._wake.wait()


async def announce_worker(workers: WorkerBeats, worker: NewWorker) -> None:
    """Note that a worker lives until cancelled, and then that it has left. Other loops report a store that fails."""
    try:
        while True:
            with suppress(HoldfastError):
                await workers.beat(worker)
            await asyncio.sleep(BEAT_SECONDS)
    finally:
        with suppress(HoldfastError, TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await workers.leave(worker.id)
