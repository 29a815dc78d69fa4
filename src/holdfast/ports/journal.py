"""The journal: a run's log in the hands of its lease holder. It is the one way in which a worker reads and writes."""

from typing import Protocol

from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.inbox import InboxItem
from holdfast.domain.message import Message
from holdfast.domain.opening import Opening


class Journal(Protocol):
    """A run's log. Every method needs a lease that still holds, and raises `LeaseLost` otherwise."""

    async def open(self, lease: Lease) -> Opening:
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
