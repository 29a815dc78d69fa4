"""The worker: it claims runs up to its concurrency, has them worked on, and lets go of what is no longer its own.

    hint, due time ──► claim ──► a task for each run ──► executor ──► returned: a slot is free, claim again
                                       ▲                     └──────► stopped, cut off, failed: given back
    one beat renews all leases ────────┘ and cuts off what was not renewed

Draining claims nothing more, asks every run to stop, and cuts off what has not stopped when the time is over.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

from holdfast.concurrency import cancel_and_wait
from holdfast.domain.commit import Lease
from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.ids import OwnerId
from holdfast.engine.leases import ActiveRun, Heartbeat, LeaseRelease
from holdfast.engine.loops import StoreOutage, WakeEvent, run_forever
from holdfast.engine.watcher import Watcher
from holdfast.ports.bus import WakeHint
from holdfast.ports.log import EventLog
from holdfast.ports.queue import Leases
from holdfast.ports.runs import Runs
from holdfast.ports.runtime import Executor

DEFAULT_LEASE: Final = timedelta(seconds=10)
DEFAULT_HEARTBEAT_INTERVAL: Final = timedelta(seconds=3)
DEFAULT_DRAIN_TIMEOUT: Final = timedelta(seconds=20)
MAX_CLAIM_BATCH: Final = 1000


class Worker:
    """Works on runs, up to `concurrency` at a time. Made once, run once."""

    def __init__(
        self,
        *,
        executor: Executor,
        leases: Leases,
        runs: Runs,
        events: EventLog,
        watcher: Watcher,
        owner: OwnerId,
        concurrency: int,
        lease: timedelta = DEFAULT_LEASE,
        beat: timedelta = DEFAULT_HEARTBEAT_INTERVAL,
        drain: timedelta = DEFAULT_DRAIN_TIMEOUT,
    ) -> None:
        _check_options(concurrency, lease=lease, beat=beat)
        self._executor = executor
        self._leases = leases
        self._watcher = watcher
        self._owner = owner
        self._concurrency = concurrency
        self._lease = lease
        self._sweep_seconds = beat.total_seconds()
        self._drain_timeout = drain
        self._active: dict[int, ActiveRun] = {}
        self._heartbeat = Heartbeat(leases, self._active, owner=owner, lease=lease, interval=beat)
        self._lease_release = LeaseRelease(leases=leases, runs=runs, events=events, owner=owner, lease=lease)
        self._wake = WakeEvent()
        self._may_have_work = True
        """Whether there may be something to claim."""
        self._draining = self._cancelling = False
        self._drain_timer: asyncio.TimerHandle | None = None
        self._tasks: asyncio.TaskGroup

    @property
    def active_count(self) -> int:
        """How many runs it has in hand."""
        return len(self._active)

    async def run(self) -> None:
        """Work until drained. Cancelled, it drains in a hurry."""
        async with asyncio.TaskGroup() as loops:
            with self._watcher.listen(self._on_wake):
                claiming = loops.create_task(self._claim_loop())
                others = [
                    loops.create_task(loop) for loop in (self._heartbeat.run(), run_forever("taking back", self._sweep))
                ]
                # A group of their own: should a loop fail, the runs are still given back.
                async with asyncio.TaskGroup() as self._tasks:
                    await self._until_drained(claiming)
                await cancel_and_wait(others)
        with suppress(Unavailable):
            await self._lease_release.release_returned()

    def drain(self, within: timedelta | None = None) -> None:
        """Claim nothing more and ask every run to stop; `run` returns when they have, or were cut off.

        They have as long as `within` says. A second call hurries: it cuts them off now.
        """
        if self._draining:
            self._cancel_active()
            return
        self._draining = True
        for held in self._active.values():
            held.stop.set()
        self._wake.set()
        seconds = (self._drain_timeout if within is None else within).total_seconds()
        self._drain_timer = asyncio.get_running_loop().call_later(seconds, self._cancel_active)

    def _cancel_active(self) -> None:
        self._draining = self._cancelling = True
        self._wake.set()

    def _on_wake(self, wake: WakeHint) -> None:
        if wake.queue or wake.coming:
            self._may_have_work = True
            self._wake.set()
        if self._active and (wake.everything or (wake.ended and self._is_active(wake))):
            self._heartbeat.renew_now()

    def _is_active(self, wake: WakeHint) -> bool:
        return any((held.lease.space_id, held.lease.run_id) in wake.ended for held in self._active.values())

    async def _claim_loop(self) -> None:
        """Claim whatever there is a free slot for, until draining."""
        outage = StoreOutage("claiming runs")
        while not self._draining:
            room = min(self._concurrency - len(self._active), MAX_CLAIM_BATCH)
            if not (self._may_have_work and room > 0):
                await self._wake.wait()
                continue
            try:
                await self._claim_batch(room)
            except Unavailable as exc:
                self._may_have_work = True
                await self._wake.wait(seconds=outage.next_delay(exc))
            else:
                outage.note_recovered()

    async def _claim_batch(self, room: int) -> None:
        self._may_have_work = False  # what comes from here on sets it again
        asked = asyncio.get_running_loop().time()
        leases = await self._leases.claim(self._owner, lease=self._lease, limit=room)
        self._may_have_work |= len(leases) == room
        for lease in leases:
            self._start_run(lease, renewed_at=asked)

    def _start_run(self, lease: Lease, *, renewed_at: float) -> None:
        earlier = self._active.get(lease.run_key)
        held = self._active[lease.run_key] = ActiveRun(lease, renewed_at=renewed_at, previous=earlier)
        held.task = self._tasks.create_task(self._execute(held), name=f"run {lease.run_id}")
        held.task.add_done_callback(partial(self._on_task_done, held))
        if earlier is not None:
            earlier.cancel()
        if self._draining:
            held.cancel()  # before it begins

    async def _execute(self, active: ActiveRun) -> Exception | None:
        """Work on a run and return what went wrong, if something did."""
        if active.previous is not None:
            await asyncio.wait([active.previous.task])
            active.previous = None
        try:
            await self._executor.execute(active.lease, stop=active.stop)
        except Exception as exc:  # noqa: BLE001 - one run that fails must not end the others
            return exc
        return None

    def _on_task_done(self, active: ActiveRun, task: asyncio.Task[Exception | None]) -> None:
        error = None if task.cancelled() else task.result()
        if error is None and not (task.cancelled() or active.cancelled or active.stop.is_set()):
            self._lease_release.note_returned(active.lease)
            self._remove(active)
        else:
            self._start_release(active, error)

    def _start_release(self, active: ActiveRun, error: Exception | None) -> None:
        letting_go = self._release(active, error)
        try:
            self._tasks.create_task(letting_go)
        except RuntimeError:  # the group itself has failed and takes no task any more: the lease runs out by itself
            letting_go.close()
            self._remove(active)

    async def _release(self, active: ActiveRun, error: Exception | None) -> None:
        try:
            await self._lease_release.release(active, error)
        finally:
            self._remove(active)

    def _remove(self, active: ActiveRun) -> None:
        if self._active.get(active.lease.run_key) is active:
            del self._active[active.lease.run_key]
        if self._may_have_work or self._draining:  # else a free slot is of no use to anybody
            self._wake.set()

    async def _sweep(self) -> None:
        """Take back what dead workers held, and what executors returned without giving it back."""
        await self._leases.expire()
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
        """Wait until draining, and then until nothing is in hand; once hurried, cut off whatever is."""
        await asyncio.wait([claiming])
        while self._active:
            for held in list(self._active.values()) if self._cancelling else ():
                held.cancel()
            await self._wake.wait()


def _check_options(concurrency: int, *, lease: timedelta, beat: timedelta) -> None:
    if concurrency < 1:
        raise Invalid("a worker works on at least one run at a time", field="concurrency")
    if not timedelta() < beat < lease:
        raise Invalid("a beat must be shorter than the lease that it renews", field="beat")
