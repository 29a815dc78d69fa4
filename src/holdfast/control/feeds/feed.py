"""A feed: the newest of something that grows, in the hands of one reader, for any number of followers."""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Final

from holdfast.control.feeds.chunk import Chunk, chunks_of
from holdfast.domain.errors import NotFound, Unavailable

PAGE: Final = 256
"""Items that are read at once."""
FIRST_PAGE: Final = 32
"""Items that a follower reads at first, who does not know how large they are."""
WINDOW: Final = 256 * 1024
"""Bytes of items that are kept for those who are a little behind; who is further behind reads the log."""
OUTAGE: Final = 1.0
"""Seconds to wait while the store does not answer."""


class Ending(Enum):
    """Why a feed is over."""

    ENDED = "ended"
    """Nothing can come any more, and all of it was handed out."""
    GONE = "gone"
    """It was deleted."""
    CLOSING = "closing"
    """The process stops: go on elsewhere, or later."""
    BEHIND = "behind"
    """The follower is too far behind, and what it missed is not kept: begin anew."""


class Feed:
    """What is read once for all who follow the same thing."""

    missing: ClassVar[Ending] = Ending.GONE
    """What it means that something is not there any more which there was."""

    def __init__(self, start: int) -> None:
        """Make a feed of what comes after the number `start`."""
        self.floor = start
        """The window holds all that is above this number."""
        self.last = start
        self.ending: Ending | None = None
        self.followers = 0
        self.reader: asyncio.Task[None] | None = None
        self._chunks: deque[Chunk] = deque()
        self.size = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()

    @abstractmethod
    async def page(self, after: int, *, limit: int = PAGE) -> Sequence[Any]:
        """Return the next items of the log after a number, in order."""

    @abstractmethod
    async def _follow(self) -> None:
        """Add what comes until there is an ending."""

    async def run(self) -> None:
        """Read until the feed is over; while the store does not answer, try again."""
        try:
            while self.ending is None:
                try:
                    await self._follow()
                except NotFound:
                    self.end(Ending.GONE)
                except Unavailable:
                    await asyncio.sleep(OUTAGE)
        finally:
            self.stir()  # should it have failed, whoever waits learns of it

    def after(self, position: int) -> Chunk:
        """Return what follows a position that is in the window, and not its end."""
        newest = self._chunks[-1]
        if newest.first == position + 1:
            return newest
        return next(chunk for chunk in self._chunks if chunk.last > position).after(position)

    def moved(self) -> asyncio.Future[None]:
        """Return what is done when something came, the feed is over, or it is time to show a sign of life."""
        if self.reader is not None and self.reader.done():
            self.reader.result()
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        return future

    def add(self, items: Sequence[Any]) -> None:
        """Hand out what was read, at least one item."""
        for chunk in chunks_of(items):
            self._chunks.append(chunk)
            self.size += chunk.size
            self.last = chunk.last
        while self.size > WINDOW and len(self._chunks) > 1:
            oldest = self._chunks.popleft()
            self.size -= oldest.size
            self.floor = oldest.last
        self.stir()

    def end(self, ending: Ending) -> None:
        """Let followers go once they have what was read."""
        self.ending = self.ending or ending
        self.stir()

    def stir(self) -> None:
        """Wake all who wait."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
