"""Leases: who may work on which run."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import msgspec

from holdfast.domain.commit import Lease
from holdfast.domain.ids import OwnerId, RunId
from holdfast.domain.instant import Instant


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a run may be claimed now, and else when the next one may that waits for its time."""

    ready: bool
    next_at: Instant | None


class Leases(Protocol):
    """Who may work on which run. Each method is one transaction."""

    async def claim(self, owner: OwnerId, *, lease: timedelta, limit: int = 1) -> list[Lease]:
        """Lease up to `limit` queued runs to `owner`, the most urgent first.

        Each lease has a number greater than every earlier one of its run. Two owners that claim at once never
        receive the same run. A run whose `wait_until` has not passed is left. Low priority waits longer, but not
        for ever. The cost does not depend on how many runs are pending. The first claim of a run that may work only
        for so long sets its deadline: a timer, which is paused while the run waits for a person.
        """

    async def renew(self, owner: OwnerId, leases: Sequence[Lease], *, lease: timedelta) -> list[Lease]:
        """Extend `leases` from now on and return those that still hold; the others are lost."""

    async def release(self, lease: Lease, *, delay: timedelta = timedelta()) -> None:
        """Give a run back to the queue, to be claimed after `delay`; it does not count as an attempt.

        If the run was ended meanwhile, this says that its worker has let go. A lease that was lost is refused
        (`LeaseLost`).
        """

    async def expire(self, *, cap: int = 5) -> list[RunId]:
        """Take back what dead workers held and return those runs.

        A run goes back to the queue, to be claimed after a delay that grows with its attempts, or fails with
        `ATTEMPTS_EXHAUSTED` when it was claimed `cap` times without a step settled by a live worker.
        """

    async def queue(self) -> QueueState:
        """Say whether a run may be claimed now, and when the next delayed one may."""
