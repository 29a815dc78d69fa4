"""What becomes of a run when its executor is done with it.

    it returned               a commit of its own ended the lease; if not, the next look gives the run back
    it was told to stop       back to the queue, to be claimed at once
    it was cut off, LeaseLost the same; of an ended run this says that its worker has let go
    Unavailable               back to the queue, to be claimed after a delay that grows
    any other error           the run fails with `INTERNAL`

A lease that cannot be given back, because the store does not answer, runs out by itself.
"""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable
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
from holdfast.engine.held import Held
from holdfast.engine.outage import Outage
from holdfast.ports.log import EventLog
from holdfast.ports.queue import Leases
from holdfast.ports.runs import Runs

FIRST_DELAY: Final = timedelta(milliseconds=100)
LONGEST_DELAY: Final = timedelta(seconds=30)
MOST_SETBACKS: Final = 10_000
"""Runs of which it is remembered how often they were put off; the oldest are forgotten."""
MOST_AT_ONCE: Final = 1000
LONGEST_MESSAGE: Final = 2000

_log = logging.getLogger(__name__)


class LettingGo:
    """Gives back what a worker held."""

    def __init__(self, *, leases: Leases, runs: Runs, events: EventLog, owner: OwnerId, lease: timedelta) -> None:
        self._leases = leases
        self._runs = runs
        self._events = events
        self._owner = owner
        self._lease = lease
        self._returned: dict[tuple[SpaceId, RunId], Lease] = {}
        self._setbacks: dict[int, int] = {}

    def returned(self, lease: Lease) -> None:
        """Take note of a run whose executor says that it gave the lease back."""
        self._returned[lease.space_id, lease.run_id] = lease
        self._setbacks.pop(lease.run_key, None)

    async def look(self) -> None:
        """Give back what was returned with its lease still in force: one read for all since the last look."""
        while batch := dict(islice(self._returned.items(), MOST_AT_ONCE)):
            for head in await self._events.heads(list(batch)):
                if head.status is RunStatus.RUNNING:
                    await self._release(batch[head.space_id, head.run_id])
            for name, lease in batch.items():
                if self._returned[name] is lease:  # it may have been returned again meanwhile
                    del self._returned[name]

    async def let_go(self, held: Held, error: Exception | None) -> None:
        """Give back a run that was not finished, and try on until its lease has run out."""
        try:
            async with asyncio.timeout(self._lease.total_seconds()):
                await self._give_back(held, error)
        except TimeoutError:
            _log.warning("run %s could not be given back in time: its lease runs out by itself", held.lease.run_id)
        except HoldfastError:
            _log.exception("run %s could not be given back: its lease runs out by itself", held.lease.run_id)

    async def _give_back(self, held: Held, error: Exception | None) -> None:
        lease, delay = held.lease, timedelta()
        match error:
            case LeaseLost():
                _log.info("run %s is no longer ours: %s", lease.run_id, error)
            case Unavailable() if not held.cut:
                delay = self._setback(lease)
                _log.warning("run %s is put off for %s: %s", lease.run_id, delay, error)
            case None if not held.cut and not held.stop.is_set():
                delay = self._setback(lease)
                _log.warning("run %s was cancelled from inside: it is put off for %s", lease.run_id, delay)
            case None | Unavailable():
                pass
            case _:
                _log.error("run %s failed", lease.run_id, exc_info=error)
                if not held.cut:
                    await _until_answered(partial(self._fail, lease, error))
        await _until_answered(partial(self._release, lease, delay=delay))

    async def _release(self, lease: Lease, *, delay: timedelta = timedelta()) -> None:
        with suppress(LeaseLost):
            await self._leases.release(lease, delay=delay)

    async def _fail(self, lease: Lease, error: Exception) -> None:
        """End the run, if it is still ours."""
        if not await self._leases.renew(self._owner, [lease], lease=self._lease):
            return
        with suppress(Conflict, NotFound):  # somebody else ended or deleted it first
            await self._runs.end(
                lease.space_id, lease.run_id, to=RunStatus.FAILED, reason="internal error", error=_why(error)
            )

    def _setback(self, lease: Lease) -> timedelta:
        """Return how long a run is put off that was put off so often in a row."""
        times = self._setbacks.pop(lease.run_key, 0)
        if len(self._setbacks) >= MOST_SETBACKS:
            del self._setbacks[next(iter(self._setbacks))]
        self._setbacks[lease.run_key] = times + 1
        return min(FIRST_DELAY * (1 << min(times, 16)), LONGEST_DELAY)


async def _until_answered(do: Callable[[], Awaitable[None]]) -> None:
    outage = Outage("giving runs back")
    while True:
        try:
            return await do()
        except Unavailable as exc:
            await asyncio.sleep(outage.pause(exc))


def _why(error: Exception) -> RunError:
    details: dict[str, Json] = {"error": type(error).__name__}
    if isinstance(error, HoldfastError):
        details["code"] = error.code
    return RunError(code=HoldfastError.code, message=_in_words(error), details=details)


def _in_words(error: Exception) -> str:
    """Return what can be kept of an error's message: text of a sane length, whatever it was made of."""
    words = "".join(traceback.format_exception_only(error)).strip()[:LONGEST_MESSAGE]
    return words.replace("\x00", "�").encode(errors="replace").decode()
