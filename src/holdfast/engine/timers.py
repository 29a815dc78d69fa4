"""The timer loop claims and fires due timers, each once across all processes.

A timer is settled in the transaction of its action. So a process that dies in between has done nothing, and another
one claims the timer when the claim has expired. The loop also expires interrupts without a response.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Final, TypeAlias

from holdfast.domain.errors import Conflict, DeadlineExceeded, Invalid, LeaseLost, NotFound, Unavailable
from holdfast.domain.ids import OwnerId, RunId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.instant import millis
from holdfast.domain.limits import deadline_exceeded
from holdfast.domain.run import RunError, RunStatus
from holdfast.domain.timer import Timer, TimerClaim
from holdfast.engine.loops import WakeEvent, run_forever
from holdfast.engine.watcher import Watcher
from holdfast.ports.bus import WAKEUP_FALLBACK_SECONDS, WakeHint
from holdfast.ports.queue import Inbox, Interrupts, Timers
from holdfast.ports.runs import Runs
from holdfast.ports.runtime import Clock

TimerAction: TypeAlias = Callable[[TimerClaim], Awaitable[None]]
"""Performs the action of a timer, and settles its claim in the same transaction."""

TIMER_CLAIM_LEASE: Final = timedelta(seconds=10)
MIN_TIMER_POLL_SECONDS: Final = 0.02
"""The shortest time between two polls, however many timers are set."""
MAX_TIMER_BATCH: Final = 100

_log = logging.getLogger("holdfast.engine")


class TimerLoop:
    """Fires due timers and expires interrupts."""

    def __init__(
        self,
        *,
        timers: Timers,
        interrupts: Interrupts,
        runs: Runs,
        inbox: Inbox,
        watcher: Watcher,
        clock: Clock,
        owner: OwnerId,
        actions: Mapping[str, TimerAction] | None = None,
        lease: timedelta = TIMER_CLAIM_LEASE,
        fallback_seconds: float = WAKEUP_FALLBACK_SECONDS,
    ) -> None:
        """Create a loop that fires timers of kind `deadline` and `wake`, and of the kinds in `actions`."""
        self._timers = timers
        self._interrupts = interrupts
        self._runs = runs
        self._inbox = inbox
        self._watcher = watcher
        self._clock = clock
        self._owner = owner
        self._actions: Mapping[str, TimerAction] = {
            "deadline": self._fire_deadline,
            "wake": self._fire_wake,
            **(actions or {}),
        }
        self._lease = lease
        self._fallback_seconds = fallback_seconds
        self._wake_event = WakeEvent(min_interval=MIN_TIMER_POLL_SECONDS)

    async def run(self) -> None:
        """Fire timers until cancelled, retrying while the store is unavailable."""
        with self._watcher.listen(self._on_wake):
            await run_forever("firing timers", self._fire_once)

    def _on_wake(self, hint: WakeHint) -> None:
        if hint.timers or hint.everything:
            self._wake_event.set()

    async def _fire_once(self) -> None:
        if went_back := await self._timers.follow_clock():
            _log.warning("the clock went back by %g s: waits and leases keep their length", went_back.total_seconds())
        await self._fire_due()
        while len(await self._interrupts.expire(limit=MAX_TIMER_BATCH)) == MAX_TIMER_BATCH:
            pass
        # Sleep until the next timer is due, at most for the fallback interval, in case a hint is lost.
        now = asyncio.get_running_loop().time
        until = now() + min(await self._seconds_until_due(), self._fallback_seconds)
        while (left := until - now()) > 0 and await self._wake_event.wait(seconds=left):
            until = min(until, now() + await self._seconds_until_due())

    async def _seconds_until_due(self) -> float:
        times = await asyncio.gather(self._timers.next_due(), self._interrupts.next_expiry())
        left = [(millis(at) - self._clock.now()) / 1000 for at in times if at is not None]
        # A timer that is due by this clock but was not fired is not due yet by the store's clock.
        return max(MIN_TIMER_POLL_SECONDS, min(left, default=self._fallback_seconds))

    async def _fire_due(self) -> None:
        while True:
            claims = await self._timers.claim_due(self._owner, lease=self._lease, limit=MAX_TIMER_BATCH)
            outcomes = await asyncio.gather(*map(self._fire, claims), return_exceptions=True)
            # A timer that failed is fired again when its claim has expired.
            for claim, outcome in zip(claims, outcomes, strict=True):
                if outcome is not None and not isinstance(outcome, Unavailable):
                    _log.error("timer %s of kind `%s` failed", claim.timer.id, claim.timer.kind, exc_info=outcome)
            for outcome in outcomes:
                if isinstance(outcome, Unavailable):
                    raise outcome
            if len(claims) < MAX_TIMER_BATCH:
                return

    async def _fire(self, claim: TimerClaim) -> None:
        timer = claim.timer
        action = self._actions.get(timer.kind)
        try:
            if action is not None:
                await action(claim)
                return
            _log.error("timer %s has the unknown kind `%s`", timer.id, timer.kind)
        except LeaseLost:
            return  # settled by another process, or cancelled with its run
        except (Conflict, NotFound, Invalid) as exc:
            _log.warning("timer %s can no longer be fired: %s", timer.id, exc)
        with suppress(LeaseLost):
            await self._timers.settle(claim)

    async def _fire_deadline(self, claim: TimerClaim) -> None:
        timer = claim.timer
        match timer.data:
            case {"seconds": int(seconds)}:
                error = deadline_exceeded(seconds)
            case _:
                error = DeadlineExceeded("the run exceeded its maximum duration")
        await self._runs.end(
            timer.space_id,
            _timer_run_id(timer),
            to=RunStatus.FAILED,
            reason="deadline exceeded",
            error=RunError(code=error.code, message=error.message, details=error.details),
            fires=claim,
        )

    async def _fire_wake(self, claim: TimerClaim) -> None:
        timer = claim.timer
        data = {"timer_id": timer.id}
        await self._inbox.put(timer.space_id, _timer_run_id(timer), kind=InboxKind.TIMER, data=data, fires=claim)


def _timer_run_id(timer: Timer) -> RunId:
    if timer.run_id is None:
        raise Invalid(f"a timer of kind `{timer.kind}` belongs to a run: set it with its `run`", field="run")
    return timer.run_id
