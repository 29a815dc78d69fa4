"""Ports of a run's log: the journal that a lease holder writes, and what everybody else reads.

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
from holdfast.domain.message import Message
from holdfast.domain.page import DEFAULT_PAGE_SIZE
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import Step


class Journal(Protocol):
    """A run's log. Every method needs a lease that still holds, and raises `LeaseLost` otherwise."""

    async def open(self, lease: Lease) -> RunSnapshot:
        """Return where the run stands, all of it at one moment."""

    async def history(self, lease: Lease, *, before: int, limit: int) -> list[Message]:
        """Return up to `limit` messages of the run's chain before a sequence on it, oldest first."""

    async def commit(self, commit: Commit) -> Committed:
        """Add everything in `commit` in one transaction, or nothing.

        When it returns, the commit is on disk. Events are numbered without gaps. Messages get their sequence; input
        that waited gets its own first. A lease that is no longer the run's writes nothing (`LeaseLost`). A move to
        `waiting` or to an end is refused while an inbox item is unread (`InboxNotEmpty`). A step settles once
        (`Conflict`). A model call may begin only while every budget above it has something left (`BudgetExceeded`).
        Children are made with it, or not at all. A wait for a run that waits for this one is refused
        (`WouldDeadlock`). A move gives the lease back; an end lets the runs based on this one go, and tells the
        parent. Commits of one lease are applied in the order in which they were made. A commit that fails does so
        alone.
        """

    async def inbox(self, lease: Lease) -> list[InboxItem]:
        """Return what is unread, the oldest first."""

    async def next_task_id(self, lease: Lease, *, step: str) -> int:
        """Take the next number for an item of a plan on the run's thread; a step that asks again gets the same.

        No two steps receive the same number.
        """


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event as it is kept: `data` is its JSON, byte for byte what was first sent."""

    seq: int
    type: str
    data: bytes
    created_at: Instant


class LogHead(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run's log is."""

    space_id: SpaceId
    run_id: RunId
    status: RunStatus
    last_event_seq: int

    @property
    def name(self) -> tuple[SpaceId, RunId]:
        """Whose log it is."""
        return self.space_id, self.run_id


def log_head(run: Run) -> LogHead:
    """Return how far the log of a run is that was just read or made."""
    return LogHead(space_id=run.space_id, run_id=run.id, status=run.status, last_event_seq=run.last_event_seq)


class LogAppend(msgspec.Struct, frozen=True, kw_only=True):
    """What a run's log has grown by, and is on disk: whoever has it need not read it."""

    head: LogHead
    """How far the log is with it."""
    events: Sequence[tuple[str, str]] = ()
    """Type and JSON of each, in order; none if only the status changed."""
    at: Millis

    @property
    def first(self) -> int:
        """The number of the first event."""
        return self.head.last_event_seq - len(self.events) + 1

    @property
    def size(self) -> int:
        """How long the JSON is."""
        return sum([len(data) for _, data in self.events])

    def after(self, seq: int) -> list[LoggedEvent]:
        """Return the events above a number."""
        at, first = instant(self.at), self.first
        skipped = max(seq + 1 - first, 0)
        return [
            LoggedEvent(seq=number, type=type_, data=data.encode(), created_at=at)
            for number, (type_, data) in enumerate(self.events[skipped:], start=first + skipped)
        ]


class EventLog(Protocol):
    """The numbered facts of a run."""

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
        """Return how far each of `runs` is, in one query; a run that is gone is left out."""


class Messages(Protocol):
    """What was said, as one run sees it."""

    async def history(
        self, space: SpaceId, run: RunId, *, limit: int = DEFAULT_PAGE_SIZE, before: int | MessageId | None = None
    ) -> list[Message]:
        """Return the last `limit` messages of `run`'s chain, or of those before a message, oldest first.

        A base that was cut shows only what is before the cut. Sequences ascend. Input that waits for its run to begin,
        or for one that must begin first, comes last, without a sequence. `before` is the sequence of a message, or its
        id, which it keeps when it enters; one that is not on this chain is refused (`Invalid`).
        The cost does not depend on how long the chain is.
        """

    async def of_run(self, space: SpaceId, run: RunId) -> list[Message]:
        """Return the messages of `run` alone, oldest first."""

    async def get(self, space: SpaceId, run: RunId, message: MessageId) -> Message:
        """Return the message with that id on `run`'s chain; where a revision has the same id, the one on this chain."""

    async def find_in_thread(self, space: SpaceId, thread: ThreadId, message: MessageId) -> list[Message]:
        """Return the messages of `thread` with that id, one for each branch that has its own, the newest first."""


class Steps(Protocol):
    """What a run called, and how it settled."""

    async def of_run(self, space: SpaceId, run: RunId) -> list[Step]:
        """Return the steps of `run` by number."""


class Contexts(Protocol):
    """What each model call of a run was told."""

    async def steps(self, space: SpaceId, run: RunId) -> list[int]:
        """Return the steps of `run` whose context is kept, by number."""

    async def get(self, space: SpaceId, run: RunId, step: int) -> ReadContext:
        """Return what the model was told in a step, to the letter, or raise `NotFound`."""


class Values(Protocol):
    """What a run holds beside its messages."""

    async def of_run(self, space: SpaceId, run: RunId) -> dict[str, Json]:
        """Return the values of `run`: its own, else those its base had where it was cut."""
