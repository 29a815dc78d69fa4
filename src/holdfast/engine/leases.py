"""The leases of a worker: active runs, the heartbeat that renews their leases, and their release.

One heartbeat renews every lease of the process; a run whose lease is not renewed is cancelled at once. While the event
loop is blocked, `HeartbeatThread` renews them in its place. Release depends on how the executor ended:

    returned                a commit of its own ended the lease; if not, the next check releases it
    asked to stop           requeued, claimable at once
    cancelled, LeaseLost    the same; for an ended run this records that its worker has released it
    Unavailable             requeued with a growing delay; so is a run whose task cancelled itself
    any other error         the run fails with `INTERNAL`

A lease that cannot be released, because the store is unavailable, expires by itself.
"""

import asyncio
import logging
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from functools import partial
from itertools import islice
from threading import Event, Thread
from typing import Final, TypeAlias, TypeVar

from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, LeaseLost, Unavailable
from holdfast.domain.ids import OwnerId, RunId, SpaceId
from holdfast.domain.run import RunError
from holdfast.engine.loops import StoreOutage, WakeEvent
from holdfast.ports.queue import Leases


class ActiveRun:
    """A leased run and the task that executes it."""

    __slots__ = ("cancelled", "previous", "lease", "renewed_at", "stop", "task")

    def __init__(self, lease: Lease, *, renewed_at: float, previous: "ActiveRun | None" = None) -> None:
        self.lease = lease
        self.renewed_at = renewed_at
        """The event loop time just before the last successful claim or renewal was sent."""
        self.previous = previous
        """The same run under a lost lease, if its task has not ended yet."""
        self.stop = asyncio.Event()
        self.cancelled = False
        self.task: asyncio.Task[Exception | None]

    def cancel(self) -> None:
        """Cancel the task, once: its cleanup is not interrupted by a second cancellation."""
        if not self.cancelled:
            self.cancelled = True
            self.task.cancel()


MIN_HEARTBEAT_SECONDS: Final = 0.02
"""The shortest time between two heartbeats, however many runs are ended."""

_log = logging.getLogger("holdfast.engine")


class Heartbeat:
    """Renews the leases of a worker."""

    def __init__(
        self,
        leases: Leases,
        active: Mapping[int, ActiveRun],
        *,
        owner: OwnerId,
        lease: timedelta,
        interval: timedelta,
        max_unrenewed: timedelta,
    ) -> None:
        self._leases = leases
        self._active = active
        self._owner = owner
        self._lease = lease
        self._max_unrenewed = max_unrenewed.total_seconds()
        self._interval = interval.total_seconds()
        self._delay = self._interval
        self._wake = WakeEvent(min_interval=MIN_HEARTBEAT_SECONDS)
        self._outage = StoreOutage("renewing leases")
        self.last_beat_at = time.monotonic()
        """The time of the last heartbeat of the event loop."""

    def renew_now(self) -> None:
        """Renew without waiting for the interval: a run may have been ended."""
        self._wake.set()

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            await self._wake.wait(seconds=self._delay)
            self.last_beat_at = time.monotonic()
            if active := list(self._active.values()):
                await self._renew(active)

    async def _renew(self, active: Sequence[ActiveRun]) -> None:
        now, seconds = asyncio.get_running_loop().time(), self._max_unrenewed
        # Half of the time leaves some for a second attempt, but never past its end. A lease that should have expired
        # may still be valid: only the store knows.
        left = min(each.renewed_at for each in active) + seconds - now
        timeout = min(left, seconds / 2) if left > 0 else seconds / 2
        try:
            async with asyncio.timeout(timeout):
                leases = [each.lease for each in active]
                renewed = await self._leases.renew(self._owner, leases, lease=self._lease)
        except (Unavailable, TimeoutError) as exc:
            self._delay = min(self._outage.next_delay(exc), self._interval)
            self._cancel_expired(active)
            return
        self._delay = self._interval
        self._outage.note_recovered()
        keys = {(lease.run_key, lease.number) for lease in renewed}
        for each in active:
            if (each.lease.run_key, each.lease.number) in keys:
                each.renewed_at = now
            else:
                each.cancel()

    def _cancel_expired(self, active: Sequence[ActiveRun]) -> None:
        """Cancel the runs whose lease may have expired: another worker may reach the store and claim them."""
        expired_before = asyncio.get_running_loop().time() - self._max_unrenewed
        for each in active:
            if each.renewed_at <= expired_before and not each.cancelled:
                _log.warning("run %s is cancelled: its lease could not be renewed in time", each.lease.run_id)
                each.cancel()


MAX_BLOCKED_SECONDS: Final = 60.0
"""How long the event loop may be blocked before its leases are left to expire: it may never continue."""

OpenLeases: TypeAlias = Callable[[], AbstractAsyncContextManager[Leases]]
"""Opens leases over a connection of their own, on any event loop."""


class HeartbeatThread:
    """Renews the leases of a worker from a thread while its event loop is blocked, for example by a tool.

    The heartbeat of the event loop decides everything else: here no run is cancelled. A connection is opened only while
    it is needed.
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        open_leases: OpenLeases,
        active: Mapping[int, ActiveRun],
        *,
        owner: OwnerId,
        lease: timedelta,
        interval: timedelta,
        max_blocked_seconds: float,
    ) -> None:
        self._heartbeat = heartbeat
        self._open_leases = open_leases
        self._active = active
        self._owner = owner
        self._lease = lease
        self._late_seconds = 1.5 * interval.total_seconds()
        self._poll_seconds = interval.total_seconds() / 3
        self._max_blocked_seconds = max_blocked_seconds
        self._stop = Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the thread while the block runs."""
        thread = Thread(target=self._run, name="holdfast-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            await asyncio.to_thread(thread.join)

    def _run(self) -> None:
        was_blocked = False
        while not self._stop.wait(self._poll_seconds):
            blocked_seconds = time.monotonic() - self._heartbeat.last_beat_at
            active = [each for each in list(self._active.values()) if not each.cancelled]
            blocked = blocked_seconds > self._late_seconds and bool(active)
            if blocked and blocked_seconds <= self._max_blocked_seconds:
                if not was_blocked:
                    _log.warning("the event loop is blocked: its leases are renewed from a thread")
                self._renew(active)
            was_blocked = blocked

    def _renew(self, active: Sequence[ActiveRun]) -> None:
        now = time.monotonic()
        try:
            renewed = asyncio.run(self._renew_leases([each.lease for each in active]))
        except (HoldfastError, TimeoutError) as exc:
            _log.warning("the event loop is blocked, and its leases could not be renewed: %s", exc or "timeout")
            return
        keys = {(lease.run_key, lease.number) for lease in renewed}
        for each in active:
            if (each.lease.run_key, each.lease.number) in keys:
                each.renewed_at = now

    async def _renew_leases(self, leases: Sequence[Lease]) -> list[Lease]:
        async with asyncio.timeout(self._lease.total_seconds() / 2), self._open_leases() as own:
            return await own.renew(self._owner, leases, lease=self._lease)


FIRST_REQUEUE_DELAY: Final = timedelta(milliseconds=100)
MAX_REQUEUE_DELAY: Final = timedelta(seconds=30)
MAX_TRACKED_REQUEUES: Final = 10_000
"""Runs whose number of requeues is remembered; the oldest are forgotten."""
MAX_RETURNED_BATCH: Final = 1000
MAX_ERROR_MESSAGE_CHARS: Final = 2000


class LeaseRelease:
    """Releases the leases of a worker."""

    def __init__(self, *, leases: Leases, lease: timedelta) -> None:
        self._leases = leases
        self._lease = lease
        self._returned: dict[tuple[SpaceId, RunId], Lease] = {}
        self._requeues: dict[int, int] = {}

    def note_returned(self, lease: Lease) -> None:
        """Record that the executor returned: it should have ended the lease with a commit."""
        self._returned[lease.space_id, lease.run_id] = lease
        self._requeues.pop(lease.run_key, None)

    async def release_returned(self) -> None:
        """Release the leases that are still valid although their executor returned, with one read per batch."""
        while batch := dict(islice(self._returned.items(), MAX_RETURNED_BATCH)):
            await self._leases.release_leftover(list(batch.values()))
            for name, lease in batch.items():
                if self._returned[name] is lease:  # else the run was claimed and returned again
                    del self._returned[name]

    async def release(self, active: ActiveRun, error: Exception | None) -> None:
        """Release an unfinished run, retrying until its lease has expired."""
        run_id = active.lease.run_id
        try:
            async with asyncio.timeout(self._lease.total_seconds()):
                await self._fail_and_release(active, error)
        except TimeoutError:
            _log.warning("run %s could not be released in time: its lease expires by itself", run_id)
        except HoldfastError:
            _log.exception("run %s could not be released: its lease expires by itself", run_id)

    async def _fail_and_release(self, active: ActiveRun, error: Exception | None) -> None:
        lease, delay = active.lease, timedelta()
        match error:
            case LeaseLost():
                _log.info("run %s: lease lost: %s", lease.run_id, error)
            case Unavailable() if not active.cancelled:
                delay = self._next_delay(lease)
                _log.warning("run %s is requeued with a delay of %s: %s", lease.run_id, delay, error)
            case None if not active.cancelled and not active.stop.is_set():
                delay = self._next_delay(lease)
                _log.warning("run %s cancelled itself: it is requeued with a delay of %s", lease.run_id, delay)
            case None | Unavailable():
                pass
            case _:
                _log.error("run %s failed", lease.run_id, exc_info=error)
                if not active.cancelled:
                    await _retry_until_available(partial(self._leases.fail, lease, _to_run_error(error)))
        released = await _retry_until_available(partial(self._release_lease, lease, delay=delay))
        if released and active.stop.is_set():
            _log.info("run %s released: its worker drains", lease.run_id)

    async def _release_lease(self, lease: Lease, *, delay: timedelta = timedelta()) -> bool:
        """Release a lease; return whether it was still held."""
        try:
            await self._leases.release(lease, delay=delay)
        except LeaseLost:
            return False
        return True

    def _next_delay(self, lease: Lease) -> timedelta:
        """Return the delay of the next requeue, which doubles with each one in a row."""
        count = self._requeues.pop(lease.run_key, 0)
        if len(self._requeues) >= MAX_TRACKED_REQUEUES:
            del self._requeues[next(iter(self._requeues))]
        self._requeues[lease.run_key] = count + 1
        return min(FIRST_REQUEUE_DELAY * (1 << min(count, 16)), MAX_REQUEUE_DELAY)


def _to_run_error(error: Exception) -> RunError:
    """Return an error that can be stored: of limited length, without NUL and lone surrogates."""
    details: dict[str, Json] = {"error": type(error).__name__}
    if isinstance(error, HoldfastError):
        details["code"] = error.code
    message = "".join(traceback.format_exception_only(error)).strip()[:MAX_ERROR_MESSAGE_CHARS]
    message = message.replace("\x00", "\ufffd").encode(errors="replace").decode()
    return RunError(code=HoldfastError.code, message=message, details=details)


_T = TypeVar("_T")


async def _retry_until_available(do: Callable[[], Awaitable[_T]]) -> _T:
    outage = StoreOutage("releasing runs")
    while True:
        try:
            return await do()
        except Unavailable as exc:
            await asyncio.sleep(outage.next_delay(exc))
