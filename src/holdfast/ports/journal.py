"""The journal: the one way in which a worker writes."""

from typing import Protocol

from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.inbox import InboxItem


class Journal(Protocol):
    """A run's log, in the hands of its lease holder."""

    async def commit(self, commit: Commit) -> Committed:
        """Add everything in `commit` in one transaction, or nothing.

        When it returns, the commit is on disk. Events are numbered without gaps. Messages get their sequence; input
        that waited gets its own first. A lease that is no longer the run's writes nothing (`LeaseLost`). A move to
        `waiting` or to an end is refused while an inbox item is unread (`InboxNotEmpty`). A step settles once
        (`Conflict`). A move gives the lease back; an end lets the runs based on this one go, and tells the parent.
        Commits of one lease are applied in the order in which they were made. A commit that fails does so alone.
        """

    async def inbox(self, lease: Lease) -> list[InboxItem]:
        """Return what is unread, the oldest first."""
