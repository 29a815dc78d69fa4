"""Ports of the run queue: leases, inbox, interrupts, timers, subscriptions and run counts."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

import msgspec

from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.ids import InterruptId, OwnerId, RunId, SpaceId, TimerId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import Interrupt, InterruptResponse, InterruptStatus
from holdfast.domain.message import NewMessage
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Run
from holdfast.domain.timer import NewTimer, Timer, TimerClaim


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

    async def queue_state(self) -> QueueState:
        """Say whether a run may be claimed now, and when the next delayed one may."""


class Inbox(Protocol):
    """What reaches a run from outside."""

    async def put(
        self,
        space: SpaceId,
        run: RunId,
        *,
        kind: InboxKind,
        data: Json,
        by: str | None = None,
        fires: TimerClaim | None = None,
    ) -> int:
        """Add an item and return its number; a waiting run is queued in the same transaction.

        A run that has ended is refused (`Conflict`), and so is a message under an id that one of its chain has, or one
        that it has not read yet (`IdTaken`), also where both come at once. A timer that it `fires` is settled in the
        same transaction.
        """


class Interrupts(Protocol):
    """What runs ask people."""

    async def get(self, space: SpaceId, interrupt: InterruptId) -> Interrupt:
        """Return the interrupt, or raise `NotFound`."""

    async def of_run(self, space: SpaceId, run: RunId, *, below: bool = False) -> list[Interrupt]:
        """Return the interrupts of `run`, the oldest first; with `below` also those of all runs below it."""

    async def open_for_run(self, space: SpaceId, run: RunId) -> list[Interrupt]:
        """Return the open questions of `run`, and those that it shows of children it waits for, the oldest first."""

    async def page(
        self,
        space: SpaceId,
        *,
        status: InterruptStatus | None = InterruptStatus.OPEN,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Interrupt]:
        """Return the interrupts of a space, the newest first."""

    async def expire(self, *, limit: int = 100) -> list[InterruptId]:
        """Close those that nobody answered in time, give each run its default outcome, and return them.

        However many processes ask at once, each is closed once; an answer that comes first wins.
        """

    async def next_expiry(self) -> Instant | None:
        """Return when the next open one runs out."""

    async def respond(self, space: SpaceId, interrupt: InterruptId, response: InterruptResponse) -> Interrupt:
        """Settle the interrupt, put the answer into its run's inbox and queue the run, in one transaction.

        Of many answers at once, one is accepted; the others are refused (`AlreadyAnswered`). Those above the run are
        told that the question is closed.
        """

    async def respond_all(
        self,
        space: SpaceId,
        run: RunId,
        responses: Mapping[InterruptId, InterruptResponse],
        *,
        segment: RunId | None = None,
        messages: Sequence[NewMessage] = (),
    ) -> int:
        """Settle interrupts of a run, or of those below it, all or none, and tell it what was said `besides`.

        Return the number of the event that ended the run's last segment.

        The segment after that is the one that the answers belong to. It is the `segment` that is named, unless the run
        is at work already. The name becomes another id of the run; one that was used before is refused (`IdTaken`), and
        so is an interrupt of another run (`NotFound`) and one that is not open (`AlreadyAnswered`).
        """


class Timers(Protocol):
    """What is to be done, and when."""

    async def set(self, space: SpaceId, new: NewTimer, *, run: RunId | None = None) -> Timer:
        """Set a timer; with a `run` it is cancelled when that run ends."""

    async def get(self, space: SpaceId, timer: TimerId) -> Timer:
        """Return the timer, or raise `NotFound`."""

    async def claim_due(self, owner: OwnerId, *, lease: timedelta, limit: int = 100) -> list[TimerClaim]:
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


class Subscriptions(Protocol):
    """Who wants to be told of whose end."""

    async def add(self, space: SpaceId, run: RunId, *, target: RunId, waits: str | None = None) -> Run:
        """Have `run` told, once, when `target` ends, and return `target` as it is now.

        Of one that has ended nothing is told. A step that `waits` for it gives its key, and what comes then has that
        key; for each key it comes once, however often it was asked for. A target that could only end after `run` cannot
        be waited for (`WouldDeadlock`). A `run` that has ended is refused (`Conflict`).
        """


class LiveRunCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of all spaces that have not ended, by where they stand."""

    pending: int
    ready: int
    """Queued, and may be claimed now."""
    delayed: int
    """Queued, and may be claimed later."""
    running: int
    waiting: int
    longest_wait_seconds: float
    """Seconds since the one of those that are ready was queued which has been in the queue for longest, else 0."""


class RunCounts(Protocol):
    """Counts runs."""

    async def live(self) -> LiveRunCounts:
        """Count the runs that have not ended. What it costs does not depend on how many have."""

    async def queued(self, space: SpaceId) -> int:
        """Count the runs of a space that wait for a worker, or for the run before them."""
