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
        self._every = beat.total_seconds()
        self._patience = drain
        self._held: dict[int, ActiveRun] = {}
        self._beat = Heartbeat(leases, self._held, owner=owner, lease=lease, every=beat)
        self._letting_go = LeaseRelease(leases=leases, runs=runs, events=events, owner=owner, lease=lease)
        self._stir = WakeEvent()
        self._work = True
        """Whether there may be something to claim."""
        self._draining = self._hurried = False
        self._hurrying: asyncio.TimerHandle | None = None
        self._tasks: asyncio.TaskGroup

    @property
    def holds(self) -> int:
        """How many runs it has in hand."""
        return len(self._held)

    async def run(self) -> None:
        """Work until drained. Cancelled, it drains in a hurry."""
        async with asyncio.TaskGroup() as loops:
            with self._watcher.listen(self._hear):
                claiming = loops.create_task(self._claim())
                others = [
                    loops.create_task(loop) for loop in (self._beat.run(), run_forever("taking back", self._sweep))
                ]
                # A group of their own: should a loop fail, the runs are still given back.
                async with asyncio.TaskGroup() as self._tasks:
                    await self._until_drained(claiming)
                await cancel_and_wait(others)
        with suppress(Unavailable):
            await self._letting_go.look()

    def drain(self, within: timedelta | None = None) -> None:
        """Claim nothing more and ask every run to stop; `run` returns when they have, or were cut off.

        They have as long as `within` says. A second call hurries: it cuts them off now.
        """
        if self._draining:
            self._hurry()
            return
        self._draining = True
        for held in self._held.values():
            held.stop.set()
        self._stir.ring()
        seconds = (self._patience if within is None else within).total_seconds()
        self._hurrying = asyncio.get_running_loop().call_later(seconds, self._hurry)

    def _hurry(self) -> None:
        self._draining = self._hurried = True
        self._stir.ring()

    def _hear(self, wake: WakeHint) -> None:
        if wake.queue or wake.coming:
            self._work = True
            self._stir.ring()
        if self._held and (wake.everything or (wake.ended and self._holds_one_of(wake))):
            self._beat.hasten()

    def _holds_one_of(self, wake: WakeHint) -> bool:
        return any((held.lease.space_id, held.lease.run_id) in wake.ended for held in self._held.values())

    async def _claim(self) -> None:
        """Claim whatever there is a free slot for, until draining."""
        outage = StoreOutage("claiming runs")
        while not self._draining:
            room = min(self._concurrency - len(self._held), MAX_CLAIM_BATCH)
            if not (self._work and room > 0):
                await self._stir.wait()
                continue
            try:
                await self._fill(room)
            except Unavailable as exc:
                self._work = True
                await self._stir.wait(within=outage.pause(exc))
            else:
                outage.over()

    async def _fill(self, room: int) -> None:
        self._work = False  # what comes from here on sets it again
        asked = asyncio.get_running_loop().time()
        leases = await self._leases.claim(self._owner, lease=self._lease, limit=room)
        self._work |= len(leases) == room
        for lease in leases:
            self._hold(lease, since=asked)

    def _hold(self, lease: Lease, *, since: float) -> None:
        earlier = self._held.get(lease.run_key)
        held = self._held[lease.run_key] = ActiveRun(lease, since=since, earlier=earlier)
        held.task = self._tasks.create_task(self._execute(held), name=f"run {lease.run_id}")
        held.task.add_done_callback(partial(self._over, held))
        if earlier is not None:
            earlier.drop()
        if self._draining:
            held.drop()  # before it begins

    async def _execute(self, held: ActiveRun) -> Exception | None:
        """Work on a run and return what went wrong, if something did."""
        if held.earlier is not None:
            await asyncio.wait([held.earlier.task])
            held.earlier = None
        try:
            await self._executor.execute(held.lease, stop=held.stop)
        except Exception as exc:  # noqa: BLE001 - one run that fails must not end the others
            return exc
        return None

    def _over(self, held: ActiveRun, task: asyncio.Task[Exception | None]) -> None:
        error = None if task.cancelled() else task.result()
        if error is None and not (task.cancelled() or held.cut or held.stop.is_set()):
            self._letting_go.returned(held.lease)
            self._forget(held)
        else:
            self._begin_to_let_go(held, error)

    def _begin_to_let_go(self, held: ActiveRun, error: Exception | None) -> None:
        letting_go = self._let_go(held, error)
        try:
            self._tasks.create_task(letting_go)
        except RuntimeError:  # the group itself has failed and takes no task any more: the lease runs out by itself
            letting_go.close()
            self._forget(held)

    async def _let_go(self, held: ActiveRun, error: Exception | None) -> None:
        try:
            await self._letting_go.let_go(held, error)
        finally:
            self._forget(held)

    def _forget(self, held: ActiveRun) -> None:
        if self._held.get(held.lease.run_key) is held:
            del self._held[held.lease.run_key]
        if self._work or self._draining:  # else a free slot is of no use to anybody
            self._stir.ring()

    async def _sweep(self) -> None:
        """Take back what dead workers held, and what executors returned without giving it back."""
        await self._leases.expire()
        await self._letting_go.look()
        await asyncio.sleep(self._every)

    async def _until_drained(self, claiming: asyncio.Task[None]) -> None:
        try:
            await self._drained(claiming)
        except asyncio.CancelledError:
            self._hurry()
            await self._drained(claiming)
            raise
        finally:
            if self._hurrying is not None:
                self._hurrying.cancel()

    async def _drained(self, claiming: asyncio.Task[None]) -> None:
        """Wait until draining, and then until nothing is in hand; once hurried, cut off whatever is."""
        await asyncio.wait([claiming])
        while self._held:
            for held in list(self._held.values()) if self._hurried else ():
                held.drop()
            await self._stir.wait()


def _check_options(concurrency: int, *, lease: timedelta, beat: timedelta) -> None:
    if concurrency < 1:
        raise Invalid("a worker works on at least one run at a time", field="concurrency")
    if not timedelta() < beat < lease:
        raise Invalid("a beat must be shorter than the lease that it renews", field="beat")
