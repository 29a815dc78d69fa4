"""The leases of a worker: active runs, the heartbeat that renews their leases, and their release.

One heartbeat renews every lease of the process; a run whose lease is not renewed is cancelled at once. Release depends
on how the executor ended:

    returned                a commit of its own ended the lease; if not, the next check releases it
    told to stop            requeued, claimable at once
    cancelled, LeaseLost    the same; for an ended run this records that its worker has let go
    Unavailable             requeued with a growing delay
    any other error         the run fails with `INTERNAL`

A lease that cannot be released, because the store does not answer, expires by itself.
"""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Final

from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, HoldfastError, LeaseLost, NotFound, Unavailable
from holdfast.domain.ids import OwnerId, RunId, SpaceId
from holdfast.domain.run import RunError, RunStatus
from holdfast.engine.loops import StoreOutage, WakeEvent
from holdfast.ports.log import EventLog
from holdfast.ports.queue import Leases
from holdfast.ports.runs import Runs


class ActiveRun:
    """A lease, the task that works under it, and how to make it stop."""

    __slots__ = ("cancelled", "previous", "lease", "renewed_at", "stop", "task")

    def __init__(self, lease: Lease, *, renewed_at: float, previous: "ActiveRun | None" = None) -> None:
        self.lease = lease
        self.renewed_at = renewed_at
        """The time of the event loop before the store was last asked and said that the lease holds."""
        self.previous = previous
        """The same run under a lease that was lost, if its task is not over yet."""
        self.stop = asyncio.Event()
        self.cancelled = False
        self.task: asyncio.Task[Exception | None]

    def cancel(self) -> None:
        """Stop the work at once. It is told so once: what it then does to clean up is not disturbed."""
        if not self.cancelled:
            self.cancelled = True
            self.task.cancel()


MIN_HEARTBEAT_SECONDS: Final = 0.02
"""Seconds between two beats, however many runs were ended."""

_log = logging.getLogger("holdfast.engine")


class Heartbeat:
    """Keeps the leases of a worker alive for as long as it does itself."""

    def __init__(
        self, leases: Leases, active: Mapping[int, ActiveRun], *, owner: OwnerId, lease: timedelta, interval: timedelta
    ) -> None:
        self._leases = leases
        self._active = active
        self._owner = owner
        self._lease = lease
        self._interval = interval.total_seconds()
        self._delay = self._interval
        self._wake = WakeEvent(min_interval=MIN_HEARTBEAT_SECONDS)
        self._outage = StoreOutage("renewing leases")

    def renew_now(self) -> None:
        """Beat now: one of the runs may have been ended."""
        self._wake.set()

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await self._wake.wait(seconds=self._delay)
            if held := list(self._active.values()):
                await self._renew(held)

    async def _renew(self, held: Sequence[ActiveRun]) -> None:
        asked = asyncio.get_running_loop().time()
        leases = [each.lease for each in held]
        try:
            async with asyncio.timeout(self._renew_timeout(held, asked)):
                kept = await self._leases.renew(self._owner, leases, lease=self._lease)
        except (Unavailable, TimeoutError) as exc:
            self._delay = min(self._outage.next_delay(exc), self._interval)
            self._cancel_expired(held)
        else:
            self._delay = self._interval
            self._outage.note_recovered()
            _apply_renewal(held, {(lease.run_key, lease.number) for lease in kept}, asked)

    def _renew_timeout(self, held: Sequence[ActiveRun], now: float) -> float:
        """Return for how many seconds to wait: half a lease leaves time for another try, but never past its end.

        A lease that should have run out may still hold: only the store knows.
        """
        lease = self._lease.total_seconds()
        left = min(each.renewed_at for each in held) + lease - now
        return min(left, lease / 2) if left > 0 else lease / 2

    def _cancel_expired(self, held: Sequence[ActiveRun]) -> None:
        """Stop what may be somebody else's by now: that the store does not answer us says nothing about others."""
        oldest = asyncio.get_running_loop().time() - self._lease.total_seconds()
        for each in held:
            if each.renewed_at <= oldest and not each.cancelled:
                _log.warning("run %s is dropped: its lease could not be renewed in time", each.lease.run_id)
                each.cancel()


def _apply_renewal(held: Sequence[ActiveRun], kept: set[tuple[int, int]], asked: float) -> None:
    for each in held:
        if (each.lease.run_key, each.lease.number) in kept:
            each.renewed_at = asked
        else:
            each.cancel()


FIRST_REQUEUE_DELAY: Final = timedelta(milliseconds=100)
MAX_REQUEUE_DELAY: Final = timedelta(seconds=30)
MAX_TRACKED_SETBACKS: Final = 10_000
"""Runs of which it is remembered how often they were put off; the oldest are forgotten."""
MAX_RETURNED_BATCH: Final = 1000
MAX_ERROR_MESSAGE_CHARS: Final = 2000


class LeaseRelease:
    """Gives back what a worker held."""

    def __init__(self, *, leases: Leases, runs: Runs, events: EventLog, owner: OwnerId, lease: timedelta) -> None:
        self._leases = leases
        self._runs = runs
        self._events = events
        self._owner = owner
        self._lease = lease
        self._returned: dict[tuple[SpaceId, RunId], Lease] = {}
        self._setbacks: dict[int, int] = {}

    def note_returned(self, lease: Lease) -> None:
        """Take note of a run whose executor says that it gave the lease back."""
        self._returned[lease.space_id, lease.run_id] = lease
        self._setbacks.pop(lease.run_key, None)

    async def release_returned(self) -> None:
        """Give back what was returned with its lease still in force: one read for all since the last look."""
        while batch := dict(islice(self._returned.items(), MAX_RETURNED_BATCH)):
            for head in await self._events.heads(list(batch)):
                if head.status is RunStatus.RUNNING:
                    await self._release_lease(batch[head.space_id, head.run_id])
            for name, lease in batch.items():
                if self._returned[name] is lease:  # it may have been returned again meanwhile
                    del self._returned[name]

    async def release(self, active: ActiveRun, error: Exception | None) -> None:
        """Give back a run that was not finished, and try on until its lease has run out."""
        try:
            async with asyncio.timeout(self._lease.total_seconds()):
                await self._fail_and_release(active, error)
        except TimeoutError:
            _log.warning("run %s could not be given back in time: its lease runs out by itself", active.lease.run_id)
        except HoldfastError:
            _log.exception("run %s could not be given back: its lease runs out by itself", active.lease.run_id)

    async def _fail_and_release(self, active: ActiveRun, error: Exception | None) -> None:
        lease, delay = active.lease, timedelta()
        match error:
            case LeaseLost():
                _log.info("run %s is no longer ours: %s", lease.run_id, error)
            case Unavailable() if not active.cancelled:
                delay = self._next_delay(lease)
                _log.warning("run %s is put off for %s: %s", lease.run_id, delay, error)
            case None if not active.cancelled and not active.stop.is_set():
                delay = self._next_delay(lease)
                _log.warning("run %s was cancelled from inside: it is put off for %s", lease.run_id, delay)
            case None | Unavailable():
                pass
            case _:
                _log.error("run %s failed", lease.run_id, exc_info=error)
                if not active.cancelled:
                    await _retry_until_available(partial(self._fail, lease, error))
        await _retry_until_available(partial(self._release_lease, lease, delay=delay))

    async def _release_lease(self, lease: Lease, *, delay: timedelta = timedelta()) -> None:
        with suppress(LeaseLost):
            await self._leases.release(lease, delay=delay)

    async def _fail(self, lease: Lease, error: Exception) -> None:
        """End the run, if it is still ours."""
        if not await self._leases.renew(self._owner, [lease], lease=self._lease):
            return
        with suppress(Conflict, NotFound):  # somebody else ended or deleted it first
            await self._runs.end(
                lease.space_id, lease.run_id, to=RunStatus.FAILED, reason="internal error", error=_to_run_error(error)
            )

    def _next_delay(self, lease: Lease) -> timedelta:
        """Return how long a run is put off that was put off so often in a row."""
        times = self._setbacks.pop(lease.run_key, 0)
        if len(self._setbacks) >= MAX_TRACKED_SETBACKS:
            del self._setbacks[next(iter(self._setbacks))]
        self._setbacks[lease.run_key] = times + 1
        return min(FIRST_REQUEUE_DELAY * (1 << min(times, 16)), MAX_REQUEUE_DELAY)


async def _retry_until_available(do: Callable[[], Awaitable[None]]) -> None:
    outage = StoreOutage("giving runs back")
    while True:
        try:
            return await do()
        except Unavailable as exc:
            await asyncio.sleep(outage.next_delay(exc))


def _to_run_error(error: Exception) -> RunError:
    details: dict[str, Json] = {"error": type(error).__name__}
    if isinstance(error, HoldfastError):
        details["code"] = error.code
    return RunError(code=HoldfastError.code, message=_error_message(error), details=details)


def _error_message(error: Exception) -> str:
    """Return what can be kept of an error's message: text of a sane length, whatever it was made of."""
    words = "".join(traceback.format_exception_only(error)).strip()[:MAX_ERROR_MESSAGE_CHARS]
    return words.replace("\x00", "�").encode(errors="replace").decode()
