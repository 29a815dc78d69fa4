"""Threads: conversations, listed by their latest run."""

from typing import Protocol

from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.page import DEFAULT_LIMIT, Page
from holdfast.domain.thread import NewThread, Thread, ThreadFilter, ThreadPatch


class Threads(Protocol):
    """The threads of a space."""

    async def create(self, space: SpaceId, new: NewThread) -> Thread:
        """Make an active thread; a chosen id already used is refused (`IdTaken`)."""

    async def get(self, space: SpaceId, thread: ThreadId) -> Thread:
        """Return the thread, or raise `NotFound`."""

    async def page(
        self,
        space: SpaceId,
        *,
        where: ThreadFilter | None = None,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[Thread]:
        """Return threads, the one with the latest run first; one without a run stands where it was made.

        Paging shows no thread twice and leaves out none that was there and did not move, while others are added.
        """

    async def update(self, space: SpaceId, thread: ThreadId, patch: ThreadPatch) -> Thread:
        """Change what `patch` names and nothing else. A deleted thread stays deleted (`Conflict`).

        A thread with a live run is not deleted (`RunActive`), and one that is deleted takes no run, also where both
        come at once. Archiving lets live runs go on.
        """
