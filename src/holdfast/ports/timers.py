"""Timers: due rows, each fired once across processes."""

from datetime import timedelta
from typing import Protocol

from holdfast.domain.ids import OwnerId, RunId, SpaceId, TimerId
from holdfast.domain.instant import Instant
from holdfast.domain.timer import NewTimer, Timer, TimerClaim


class Timers(Protocol):
    """What is to be done, and when."""

    async def set(self, space: SpaceId, new: NewTimer, *, run: RunId | None = None) -> Timer:
        """Set a timer; with a `run` it is cancelled when that run ends."""

    async def get(self, space: SpaceId, timer: TimerId) -> Timer:
        """Return the timer, or raise `NotFound`."""

    async def due(self, owner: OwnerId, *, lease: timedelta, limit: int = 100) -> list[TimerClaim]:
        """Claim due timers, the earliest first. Two owners that ask at once never receive the same one.

        A claim that is not settled within `lease` may be taken over.
        """

    async def settle(self, claim: TimerClaim, *, next_due: Instant | None = None) -> None:
        """Mark a claimed timer as fired, or set it to be due again.

        A claim that was taken over is refused (`LeaseLost`).
        """

    async def cancel(self, space: SpaceId, timer: TimerId) -> None:
        """Stop a timer; one that has fired is refused (`Conflict`)."""

    async def next_due(self) -> Instant | None:
        """Return when the next timer is due, claimed ones left out."""
