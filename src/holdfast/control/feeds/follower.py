"""A follower: one stream's place in a feed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any

from holdfast.control.feeds.chunk import Chunk, chunks_of
from holdfast.control.feeds.feed import FIRST_PAGE, OUTAGE, PAGE, Ending, Feed
from holdfast.domain.errors import NotFound, Unavailable


class Follower:
    """Follows a feed from a position on, until the block that it is entered for ends."""

    __slots__ = ("_busy", "_leave", "_limit", "_read", "_seen", "_taken", "cut_off", "feed", "joined_at", "position")

    def __init__(self, feed: Feed, position: int, *, joined_at: int, leave: Callable[["Follower"], None]) -> None:
        self.feed = feed
        self.position = position
        self.joined_at = joined_at
        """The last number there was when it joined: up to it everything is history."""
        self.cut_off: Callable[[], object] | None = None
        """Called when it is too slow: it took something, and did not come back for more."""
        self._leave = leave
        self._limit = FIRST_PAGE
        self._read: Chunk | Ending | None = None
        self._busy = False
        self._taken = self._seen = 0

    def __enter__(self) -> "Follower":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(self)

    async def next(self) -> Chunk | Ending | None:
        """Return what comes next, or why nothing does any more; nothing at all if it is time for a sign of life."""
        found = self.take()
        if found is None:
            await self.more()
            found = self.take()
        return found

    def take(self) -> Chunk | Ending | None:
        """Return what is at hand, if something is: `next` in two steps, for those who make no coroutine for each."""
        self._busy = True
        self._taken += 1
        feed = self.feed
        if self._read is not None:
            found, self._read = self._read, None
        elif self.position >= feed.last:  # it may have seen more than the reader of the feed
            return feed.ending
        elif self.position >= feed.floor:
            found = feed.after(self.position)
        else:
            return None if feed.ending is Ending.ENDED else feed.ending
        if isinstance(found, Chunk):
            self.position = found.last
        return found

    def more(self) -> Awaitable[None]:
        """Wait until there is something to take, or it is time for a sign of life."""
        self._busy = False
        feed = self.feed
        if self.position < feed.floor:
            return self._catch_up()
        if self.position < feed.last or feed.ending is not None:  # it came while what was there before was sent
            return asyncio.sleep(0)
        return feed.moved()

    def look(self) -> bool:
        """Cut it off if it has been busy with the same thing since the last look, and tell whether it was."""
        cut_off = self.cut_off if self._busy and self._taken == self._seen else None
        self._seen = self._taken
        if cut_off is not None:
            cut_off()
        return cut_off is not None

    async def _catch_up(self) -> None:
        """Read what is no longer in the window; while the store does not answer, give it time."""
        try:
            items = await self.feed.page(self.position, limit=self._limit)
        except Unavailable:
            await asyncio.sleep(OUTAGE)
        except NotFound:
            self._read = Ending.GONE
        else:
            self._read = self._first_of(items) if items else self.feed.missing

    def _first_of(self, items: Sequence[Any]) -> Chunk:
        """Return as much as is written at once; the rest is read again, so that nothing is kept for a slow reader."""
        first = next(chunks_of(items))
        self._limit = min(2 * len(first.items), PAGE)
        return first
