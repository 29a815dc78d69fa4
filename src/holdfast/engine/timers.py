"""The timer loop: what is due is claimed and fired, once across all processes.

A timer is settled in the transaction of what it does. So a process that dies in between has done nothing, and another
claims the timer when the claim has run out. Questions that nobody answered in time are closed here too.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from holdfast.engine.watcher import WAKEUP_FALLBACK_SECONDS, Watcher
from holdfast.ports.bus import WakeHint
from holdfast.ports.queue import Inbox, Interrupts, Timers
from holdfast.ports.runs import Runs
from holdfast.ports.runtime import Clock

TimerAction: TypeAlias = Callable[[TimerClaim], Awaitable[None]]
"""Does what a timer was set for, and settles its claim in the same transaction."""

TIMER_CLAIM_LEASE: Final = timedelta(seconds=10)
MIN_TIMER_POLL_SECONDS: Final = 0.02
"""Seconds between two looks, however many timers are set."""
MAX_TIMER_BATCH: Final = 100

_log = logging.getLogger("holdfast.engine")


class TimerLoop:
    """Fires what is due."""

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
        """Make a loop that fires `deadline` and `wake`, and what `kinds` names."""
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
        """Fire until cancelled; while the store does not answer, try again."""
        with self._watcher.listen(self._on_wake):
            await run_forever("firing timers", self._fire_once)

    def _on_wake(self, wake: WakeHint) -> None:
        if wake.timers or wake.everything:
            self._wake_event.set()

    async def _fire_once(self) -> None:
        await self._fire_due()
        await self._expire_interrupts()
        await self._sleep_until_due()

    async def _sleep_until_due(self) -> None:
        """Sleep until the next one is due, but only as long as a hint that was lost may cost."""
        now = asyncio.get_running_loop().time
        left = min(await self._seconds_until_due(), self._fallback_seconds)
        until = now() + left
        while (rest := until - now()) > 0 and await self._wake_event.wait(seconds=rest):
            left = await self._seconds_until_due()
            until = min(until, now() + left)

    async def _seconds_until_due(self) -> float:
        """Return the seconds until the next one is due."""
        times = await asyncio.gather(self._timers.next_due(), self._interrupts.next_expiry())
        left = [(millis(at) - self._clock.now()) / 1000 for at in times if at is not None]
        # What should be due by our clock, but was not fired, is not due yet by the store's.
        return max(MIN_TIMER_POLL_SECONDS, min(left, default=self._fallback_seconds))

    async def _fire_due(self) -> None:
        full = True
        while full:
            claims = await self._timers.claim_due(self._owner, lease=self._lease, limit=MAX_TIMER_BATCH)
            outcomes = await asyncio.gather(*map(self._fire, claims), return_exceptions=True)
            _log_failures(claims, outcomes)
            full = len(claims) == MAX_TIMER_BATCH

    async def _expire_interrupts(self) -> None:
        while len(await self._interrupts.expire(limit=MAX_TIMER_BATCH)) == MAX_TIMER_BATCH:
            pass

    async def _fire(self, claim: TimerClaim) -> None:
        fire = self._actions.get(claim.timer.kind)
        if fire is None:
            _log.error("timer %s is of kind `%s`, which nobody here fires", claim.timer.id, claim.timer.kind)
            await self._settle(claim)
            return
        try:
            await fire(claim)
        except LeaseLost:
            pass  # settled by another, or stopped with its run
        except (Conflict, NotFound, Invalid) as exc:
            _log.warning("timer %s can no longer be fired: %s", claim.timer.id, exc)
            await self._settle(claim)

    async def _settle(self, claim: TimerClaim) -> None:
        with suppress(LeaseLost):
            await self._timers.settle(claim)

    async def _fire_deadline(self, claim: TimerClaim) -> None:
        timer = claim.timer
        error = _deadline_error(timer)
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
        raise Invalid(f"a timer of kind `{timer.kind}` is one of a run: set it with its `run`", field="run")
    return timer.run_id


def _deadline_error(timer: Timer) -> DeadlineExceeded:
    match timer.data:
        case {"seconds": int(seconds)}:
            return deadline_exceeded(seconds)
        case _:
            return DeadlineExceeded("the run worked for as long as it may")


def _log_failures(claims: Sequence[TimerClaim], outcomes: Sequence[BaseException | None]) -> None:
    """Log what failed for no good reason: it is tried again when its claim has run out."""
    for claim, outcome in zip(claims, outcomes, strict=True):
        if outcome is not None and not isinstance(outcome, Unavailable):
            _log.error("timer %s of kind `%s` failed", claim.timer.id, claim.timer.kind, exc_info=outcome)
    for outcome in outcomes:
        if isinstance(outcome, Unavailable):
            raise outcome
