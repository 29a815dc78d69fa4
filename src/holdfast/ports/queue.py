"""Ports of the run queue: leases, inbox, interrupts, timers, subscriptions, run counts, workers and store health."""

from collections.abc import Callable, Container, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple, Protocol

import msgspec

from holdfast.domain.commit import CommitNumber, Committed, Lease, LeaseRef
from holdfast.domain.content import Json
from holdfast.domain.ids import ApiKeyId, InterruptId, OwnerId, RunId, SpaceId, TimerId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.instant import Instant, Millis
from holdfast.domain.interrupt import Interrupt, InterruptFilter, InterruptResponse, InterruptStatus
from holdfast.domain.message import NewMessage
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Run, RunError
from holdfast.domain.timer import NewTimer, Timer, TimerClaim
from holdfast.domain.worker import DEFAULT_CLAIM, ClaimFilter, NewWorker, Queue, SpaceBacklogs, SpaceQueue, WorkerStatus


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a run may be claimed now, and when the next delayed run becomes claimable."""

    ready: bool
    next_at: Instant | None


class Leases(Protocol):
    """Leases of runs to workers. Each method is one transaction."""

    async def claim(
        self, owner: OwnerId, *, lease: timedelta, limit: int = 1, where: ClaimFilter = DEFAULT_CLAIM
    ) -> list[Lease]:
        """Lease up to `limit` queued runs of `where` to `owner`: in rounds over spaces, of each the most urgent first.

        - Each lease has a number greater than every earlier lease of its run.
        - Two owners that claim concurrently never receive the same run.
        - A run is not claimed before its `wait_until`.
        - Low priority runs wait longer, but not forever.
        - The spaces that wait are served in turn, each with as many runs as its weight: one with many runs delays the
          first of another by no more than one round.
        - A space never has more runs at work than its limit.
        - No run of another pool, or of another space, is returned.
        - The cost does not depend on the number of pending runs.
        - The first claim of a run with a maximum duration sets its deadline timer, which is paused while the run waits
          for a person.
        """

    async def renew(self, owner: OwnerId, leases: Sequence[Lease], *, lease: timedelta) -> list[Lease]:
        """Extend `leases` by `lease` from now, and return those that are still held; the others are lost."""

    async def release(self, lease: Lease, *, delay: timedelta = timedelta()) -> None:
        """Return a run to the queue, claimable after `delay`; this does not count as an attempt.

        If the run has been ended meanwhile, this records that its worker has stopped. A lost lease is refused
        (`LeaseLost`).
        """

    async def release_leftover(self, leases: Sequence[Lease]) -> None:
        """Release those of `leases` under which a run is still running, as `release` does."""

    async def fail(self, lease: Lease, error: RunError) -> None:
        """End the run and its active descendants as failed, if the lease is still held."""

    async def expire(self, *, cap: int = 5, spare: Container[int] = ()) -> list[RunId]:
        """Take back the runs of expired leases and return them, but not those whose keys are in `spare`.

        - Each run returns to the queue, claimable at once after its first attempt, then after a growing delay.
        - A run that was claimed `cap` times without a step settled by a live worker fails with `ATTEMPTS_EXHAUSTED`.
        - A worker spares the runs that it executes: after a pause of its process it renews them.
        """

    async def queue_state(self) -> QueueState:
        """Return whether a run may be claimed now, and when the next delayed run becomes claimable."""


class TokenBinding(NamedTuple):
    """What the leases of a claim are bound to."""

    hash_of: Callable[[LeaseRef], bytes]
    """Returns the hash of the token of a lease, always the same."""
    api_key: ApiKeyId | None
    """The key that claims."""


class SeenLease(NamedTuple):
    """A lease as it was read; every renewal changes its expiry."""

    run_key: int
    number: int
    expires_at: Millis


class WorkerLeases(Protocol):
    """Leases of workers without a database: the token that each is used with, and its last numbered commit."""

    async def claim(
        self,
        owner: OwnerId,
        *,
        lease: timedelta,
        limit: int = 1,
        where: ClaimFilter = DEFAULT_CLAIM,
        binding: TokenBinding,
    ) -> list[Lease]:
        """Claim as `Leases.claim` does, and bind each lease to a token in the same transaction."""

    async def find(self, ref: LeaseRef, *, token_hash: bytes, api_key: ApiKeyId | None) -> Lease:
        """Return a lease as its holder received it, without a snapshot.

        A token of another lease or key and a lease that is not held any more are both refused (`LeaseLost`).
        """

    async def repeated(
        self, ref: LeaseRef, number: CommitNumber, *, token_hash: bytes, api_key: ApiKeyId | None
    ) -> Committed | None:
        """Return the result of a commit that was applied under this lease, even if it ended the lease."""

    async def held_by(self, owner: OwnerId, *, api_key: ApiKeyId | None) -> frozenset[SeenLease]:
        """Return the leases that a worker holds, if it claimed them with this key."""

    async def take_back(self, owner: OwnerId, seen: Container[SeenLease], *, api_key: ApiKeyId | None) -> list[RunId]:
        """Take back the runs of a worker's leases that were not renewed since they were `seen`, as `expire` does."""


class Inbox(Protocol):
    """The inbox of a run: messages, responses, edits and other items from outside the run."""

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

        A run that has ended is refused (`Conflict`). A message is refused if its id is used on the run's chain or by an
        unread message in the inbox (`IdTaken`), also when both arrive concurrently. The timer claim in `fires` is
        settled in the same transaction.
        """


class Interrupts(Protocol):
    """Interrupts: requests of runs to people, for an approval, an input or a client tool call."""

    async def get(self, space: SpaceId, interrupt: InterruptId) -> Interrupt:
        """Return the interrupt, or raise `NotFound`."""

    async def of_run(self, space: SpaceId, run: RunId, *, below: bool = False) -> list[Interrupt]:
        """Return the interrupts of `run`, oldest first; with `below` also those of all its descendants."""

    async def open_for_run(self, space: SpaceId, run: RunId) -> list[Interrupt]:
        """Return the open interrupts of `run`, and those it shows of children that it waits for, oldest first."""

    async def page(
        self,
        space: SpaceId,
        *,
        status: InterruptStatus | None = InterruptStatus.OPEN,
        where: InterruptFilter | None = None,
        oldest: bool = False,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Interrupt]:
        """Return the interrupts of a space, newest first; open ones with `oldest` the oldest first.

        The cost of a page of open ones does not depend on the number of others.
        """

    async def count_open(self, space: SpaceId) -> int:
        """Return the number of open interrupts of a space."""

    async def expire(self, *, limit: int = 100) -> list[InterruptId]:
        """Close interrupts that expired without a response, give their runs the default outcome, and return them.

        Each interrupt is closed once, however many processes call this concurrently; an earlier response wins.
        """

    async def next_expiry(self) -> Instant | None:
        """Return when the next open interrupt expires."""

    async def respond(self, space: SpaceId, interrupt: InterruptId, response: InterruptResponse) -> Interrupt:
        """Settle the interrupt, put the response into its run's inbox and queue the run, in one transaction.

        Of several concurrent responses one is accepted; the others are refused (`AlreadyAnswered`). All ancestors of
        the run are notified that the interrupt is closed.
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
        """Settle interrupts of a run or its descendants, all or none, and put `messages` into the run's inbox.

        Return the number of the event that ended the run's last segment. The responses belong to the segment after it.

        `segment` names that next segment, unless the run is running already. The name becomes another id of the run,
        and may be used again for it; an id of another run is refused (`IdTaken`). So is a message id that the run's
        chain has already. An interrupt of another run is refused (`NotFound`), and so is one that is not open
        (`AlreadyAnswered`).
        """


class Timers(Protocol):
    """Durable timers with a due time."""

    async def set(self, space: SpaceId, new: NewTimer, *, run: RunId | None = None) -> Timer:
        """Set a timer; with `run` it is cancelled when that run ends."""

    async def get(self, space: SpaceId, timer: TimerId) -> Timer:
        """Return the timer, or raise `NotFound`."""

    async def claim_due(self, owner: OwnerId, *, lease: timedelta, limit: int = 100) -> list[TimerClaim]:
        """Claim due timers, earliest first. Two owners that claim concurrently never receive the same timer.

        A claim that is not settled within `lease` may be taken over.
        """

    async def settle(self, claim: TimerClaim, *, next_due: Instant | None = None) -> None:
        """Mark a claimed timer as fired, or make it due again at `next_due`.

        A claim that was taken over is refused (`LeaseLost`).
        """

    async def cancel(self, space: SpaceId, timer: TimerId) -> None:
        """Cancel a timer; a timer that has fired is refused (`Conflict`)."""

    async def next_due(self) -> Instant | None:
        """Return when the next unclaimed timer is due."""

    async def follow_clock(self) -> timedelta:
        """Note the store's clock, and return how far it went back since the last note of any process, or zero.

        What ends after a duration is then moved back as far, so that it lasts no longer: leases, claims, timers of kind
        `wake` and `deadline`, delays of retries, the expiry of interrupts and tickets. The queue keeps its order. What
        names an instant stays: timers of other kinds, `wait_until` of a new run, the expiry of API keys.
        """


class Subscriptions(Protocol):
    """Subscriptions of runs to the end of other runs."""

    async def add(self, space: SpaceId, run: RunId, *, target: RunId, waits: str | None = None) -> Run:
        """Notify `run` once, through its inbox, when `target` ends, and return the current `target`.

        A target that has ended already sends no notification. A step that waits for the target passes its key as
        `waits`; the notification carries that key, and is sent once per key, however often it was added. A target that
        could end only after `run` cannot be waited for (`WouldDeadlock`). A `run` that has ended is refused
        (`Conflict`).
        """


class ActiveRunCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the runs of all spaces that have not ended, by status."""

    pending: int
    ready: int
    """Queued and claimable now."""
    delayed: int
    """Queued and claimable later."""
    running: int
    waiting: int
    longest_wait_seconds: float
    """Time since the oldest ready run was queued; 0 if no run is ready."""


class RunCounts(Protocol):
    """Counts of active runs."""

    async def active(self) -> ActiveRunCounts:
        """Count the runs that have not ended. The cost does not depend on the number of ended runs."""

    async def queued(self, space: SpaceId) -> int:
        """Count the runs of a space that wait for a worker or for their base run."""


class WorkerBeats(Protocol):
    """What a worker tells about itself."""

    async def beat(self, worker: NewWorker, *, api_key: ApiKeyId | None = None) -> None:
        """Note that a worker lives; the first beat is its start. A worker of another key is left as it is."""

    async def leave(self, worker: OwnerId, *, api_key: ApiKeyId | None = None) -> None:
        """Forget a worker of this key that has stopped, and those that were not heard of for a day."""


class Workers(WorkerBeats, Protocol):
    """The processes that execute runs, and the queue they take them from."""

    async def of_space(self, space: SpaceId) -> list[WorkerStatus]:
        """Return all workers, oldest first, with the runs of `space` that each holds and the number of others."""

    async def queue(self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Queue:
        """Return the runs of `space` that wait: ready ones in the order of their claim, delayed ones, pending ones.

        The cost does not depend on the number of ended runs.
        """

    async def backlogs(self, *, limit: int = DEFAULT_PAGE_SIZE) -> SpaceBacklogs:
        """Return the spaces with queued runs or runs at work, those whose oldest ready run waits longest first.

        The cost does not depend on the number of ended runs.
        """

    async def space_queue(self, space: SpaceId) -> SpaceQueue:
        """Return how a space shares the workers with others."""

    async def put_space_queue(self, space: SpaceId, queue: SpaceQueue) -> SpaceQueue:
        """Set how a space shares the workers; runs at work go on, and the next claim knows it."""


class StoreHealth(Protocol):
    """Whether the store works."""

    async def check_write(self) -> None:
        """Write a little to the disk of the store and commit it, or raise the error that any other write would get."""
