"""Ports of a run's log: the journal that the lease holder writes, and the views that everyone else reads.

Event log, messages, steps, contexts and values are read by run; each method is one transaction.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.domain.commit import Commit, Committed, Lease, RunSnapshot
from holdfast.domain.content import Json
from holdfast.domain.context import ReadContext
from holdfast.domain.ids import MessageId, RunId, SpaceId, ThreadId
from holdfast.domain.inbox import InboxItem
from holdfast.domain.instant import Instant, Millis, instant
from holdfast.domain.limits import Usage
from holdfast.domain.message import Message
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import RecordedStep, Step


class Journal(Protocol):
    """The log of a leased run. Every method but `charge_ended` raises `LeaseLost` unless the lease is still held."""

    async def open(self, lease: Lease) -> RunSnapshot:
        """Return a consistent snapshot of the run."""

    async def history(self, lease: Lease, *, before: int, limit: int) -> list[Message]:
        """Return up to `limit` messages of the run's chain before the sequence `before`, oldest first."""

    async def commit(self, commit: Commit) -> Committed:
        """Write everything in `commit` in one transaction, or nothing.

        - When it returns, the commit is on disk.
        - Events are numbered without gaps. Messages get their sequence, after any input that still waits for one.
        - A lost lease writes nothing (`LeaseLost`).
        - A move to `waiting` or to a terminal status is refused while an inbox item is unread (`InboxNotEmpty`).
        - A step settles once (`Conflict`).
        - A model call may start only while every budget of the run and its ancestors has something left
          (`BudgetExceeded`). A run with a strict token budget may complete only within it.
        - Child runs are created with the commit, or not at all.
        - A wait for a run that waits for this one is refused (`WouldDeadlock`).
        - A move releases the lease. A terminal move also queues the runs based on this one and notifies the parent.
        - Commits of one lease are applied in the order in which they were submitted.
        - A numbered commit that was applied before returns the same result and changes nothing. Its number with other
          content, or a lower number, is refused (`Conflict`).
        - A failed commit does not affect other commits.
        """

    async def charge_ended(self, lease: Lease, usage: Usage) -> bool:
        """Add the usage of a cut-off call to a run that was ended from outside, and to its budgets.

        Return whether it was added: only until the worker of the ended run has released it.
        """

    async def inbox(self, lease: Lease) -> list[InboxItem]:
        """Return the unread inbox items, oldest first."""

    async def next_task_id(self, lease: Lease, *, step: str) -> int:
        """Reserve the next plan item number on the run's thread; a repeated call for the same step returns the same.

        No two steps receive the same number.
        """


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A stored event; `data` is its JSON, byte for byte as it was first sent."""

    seq: int
    type: str
    data: bytes
    created_at: Instant


class LogHead(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a run and the number of its last event."""

    space_id: SpaceId
    run_id: RunId
    status: RunStatus
    last_event_seq: int

    @property
    def name(self) -> tuple[SpaceId, RunId]:
        """The space and id of the run."""
        return self.space_id, self.run_id


def log_head(run: Run) -> LogHead:
    """Return the log head of a run that was just read or created."""
    return LogHead(space_id=run.space_id, run_id=run.id, status=run.status, last_event_seq=run.last_event_seq)


class LogAppend(msgspec.Struct, frozen=True, kw_only=True):
    """Events appended to a run's log and already on disk, so that a subscriber need not read them."""

    head: LogHead
    """The log head after the append."""
    events: Sequence[tuple[str, str]] = ()
    """Type and JSON of each event, in order; empty if only the status changed."""
    at: Millis

    @property
    def first(self) -> int:
        """The number of the first event."""
        return self.head.last_event_seq - len(self.events) + 1

    @property
    def size(self) -> int:
        """The length of the JSON in characters."""
        return sum([len(data) for _, data in self.events])

    def after(self, seq: int) -> list[LoggedEvent]:
        """Return the events with a number above `seq`."""
        at, first = instant(self.at), self.first
        skipped = max(seq + 1 - first, 0)
        return [
            LoggedEvent(seq=number, type=type_, data=data.encode(), created_at=at)
            for number, (type_, data) in enumerate(self.events[skipped:], start=first + skipped)
        ]


class EventLog(Protocol):
    """The numbered events of a run."""

    async def after(
        self,
        space: SpaceId,
        run: RunId,
        *,
        seq: int = 0,
        limit: int = 1000,
        types: Sequence[str] | None = None,
    ) -> list[LoggedEvent]:
        """Return up to `limit` events of `run` with a number above `seq`, in order; only those of `types`, if given."""

    async def heads(self, runs: Sequence[tuple[SpaceId, RunId]]) -> list[LogHead]:
        """Return the log head of each of `runs`, in one query; deleted runs are left out."""


class Messages(Protocol):
    """The conversation along a run's chain."""

    async def history(
        self, space: SpaceId, run: RunId, *, limit: int = DEFAULT_PAGE_SIZE, before: int | MessageId | None = None
    ) -> list[Message]:
        """Return the last `limit` messages of `run`'s chain, or the last before a given message, oldest first.

        A base continued from an earlier sequence shows only messages up to that sequence. Sequences ascend. Input of
        runs on the chain that have not started comes last, without a sequence. `before` is the sequence of a message or
        its id, which it keeps when it gets a sequence; a message that is not on this chain is refused (`Invalid`). The
        cost does not depend on the length of the chain.
        """

    async def of_run(self, space: SpaceId, run: RunId) -> list[Message]:
        """Return the messages of `run` alone, oldest first."""

    async def after(
        self, space: SpaceId, run: RunId, *, sequence: int | None = None, limit: int = DEFAULT_PAGE_SIZE
    ) -> list[Message]:
        """Return the first `limit` messages of `run`'s chain after a sequence, or from its beginning, oldest first.

        A sequence that is not on this chain is refused (`Invalid`). The cost does not depend on the chain's length.
        """

    async def get(self, space: SpaceId, run: RunId, message: MessageId) -> Message:
        """Return the message with that id on `run`'s chain; a revision with that id on another branch is ignored."""

    async def revisions(
        self,
        space: SpaceId,
        thread: ThreadId,
        message: MessageId,
        *,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Message]:
        """Return all versions of a message of `thread`, on any branch, oldest first, or raise `NotFound`.

        A message that revises another is a version of it, and has the same versions.
        """

    async def find_in_thread(self, space: SpaceId, thread: ThreadId, message: MessageId) -> list[Message]:
        """Return the messages of `thread` with that id, one per branch that has its own, newest first."""


class Steps(Protocol):
    """The model and tool calls of a run, and how each settled."""

    async def of_run(self, space: SpaceId, run: RunId) -> list[Step]:
        """Return the steps of `run` by number."""

    async def page(
        self,
        space: SpaceId,
        run: RunId,
        *,
        tree: bool = False,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[RecordedStep]:
        """Return steps of `run` by number; with `tree` then those of its descendants, by run, parents first.

        The cost of a page does not depend on the number of steps before it.
        """


class Contexts(Protocol):
    """The full request of each model call of a run."""

    async def steps(self, space: SpaceId, run: RunId) -> list[int]:
        """Return the numbers of the steps of `run` that have a stored context, ascending."""

    async def get(self, space: SpaceId, run: RunId, step: int) -> ReadContext:
        """Return exactly what was sent to the model in a step, or raise `NotFound`."""


class Values(Protocol):
    """The named values of a run, such as `state` and `plan`."""

    async def of_run(self, space: SpaceId, run: RunId) -> dict[str, Json]:
        """Return the values of `run`: its own, else those its base had at the sequence it continues from."""
