"""Broadcast of a growing log: one reader per channel, shared batches, many subscribers.

    watcher ── "it grew" ──► one reader per channel ──► a window of batches ──► every subscriber, at its own position
                                                              ▲
    log ── pages, for subscribers behind the window ──────────┘

A subscriber holds only a position, so a slow one costs no memory. Nothing is lost or repeated between a page and the
window, because both are counted by the sequence numbers of the log.
"""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from enum import Enum
from types import TracebackType
from typing import Any, ClassVar, Final, Protocol, TypeVar

from holdfast.domain.errors import NotFound, Unavailable

MAX_BATCH_BYTES: Final = 64 * 1024
"""Bytes of a chunk, unless it is a single item: it is written at once, so this is what a slow reader can hold up."""

T = TypeVar("T")


class StreamItem(Protocol):
    """Something with a number, one higher than the one before it; `data` is its JSON."""

    @property
    def seq(self) -> int:
        """Its number."""

    @property
    def type(self) -> str:
        """What it is."""

    @property
    def data(self) -> bytes:
        """Its JSON."""


class EventBatch:
    """Items without a gap, and the bytes that their followers share."""

    __slots__ = ("_rendered", "first", "items", "last", "size")

    def __init__(self, items: Sequence[Any]) -> None:
        """Make a chunk of at least one item."""
        self.items = items
        self.first: int = items[0].seq
        self.last: int = items[-1].seq
        self.size = sum([len(item.data) for item in items])
        self._rendered: dict[Any, Any] = {}

    def after(self, position: int) -> "EventBatch":
        """Return what of it is above `position`, which is below its end."""
        return self if position < self.first else EventBatch(self.items[position - self.first + 1 :])

    def rendered(self, render: Callable[[Sequence[Any]], T]) -> T:
        """Return what `render` makes of the items, made once."""
        found: T | None = self._rendered.get(render)
        if found is None:
            found = self._rendered[render] = render(self.items)
        return found


def split_batches(items: Sequence[Any], *, max_bytes: int = MAX_BATCH_BYTES) -> Iterator[EventBatch]:
    """Yield items without a gap as chunks of at most so many bytes, or of a single item."""
    start = size = 0
    for number, item in enumerate(items):
        size += len(item.data)
        if size > max_bytes and number > start:
            yield EventBatch(items[start:number])
            start, size = number, len(item.data)
    if items:
        yield EventBatch(items[start:])


PAGE_ITEMS: Final = 256
"""Items that are read at once."""
FIRST_PAGE_ITEMS: Final = 32
"""Items that a follower reads at first, who does not know how large they are."""
WINDOW_BYTES: Final = 256 * 1024
"""Bytes of items that are kept for those who are a little behind; who is further behind reads the log."""
OUTAGE_RETRY_SECONDS: Final = 1.0
"""Seconds to wait while the store does not answer."""


class StreamEnd(Enum):
    """Why a feed is over."""

    ENDED = "ended"
    """Nothing can come any more, and all of it was handed out."""
    GONE = "gone"
    """It was deleted."""
    CLOSING = "closing"
    """The process stops: go on elsewhere, or later."""
    BEHIND = "behind"
    """The follower is too far behind, and what it missed is not kept: begin anew."""


class Channel:
    """What is read once for all who follow the same thing."""

    missing_end: ClassVar[StreamEnd] = StreamEnd.GONE
    """What it means that something is not there any more which there was."""

    def __init__(self, start: int) -> None:
        """Make a feed of what comes after the number `start`."""
        self.window_start = start
        """The window holds all that is above this number."""
        self.last_seq = start
        self.end_reason: StreamEnd | None = None
        self.subscribers = 0
        self.reader: asyncio.Task[None] | None = None
        self._chunks: deque[EventBatch] = deque()
        self.buffered_bytes = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()

    @abstractmethod
    async def page(self, after: int, *, limit: int = PAGE_ITEMS) -> Sequence[Any]:
        """Return the next items of the log after a number, in order."""

    @abstractmethod
    async def _read_log(self) -> None:
        """Add what comes until there is an ending."""

    async def run(self) -> None:
        """Read until the feed is over; while the store does not answer, try again."""
        try:
            while self.end_reason is None:
                try:
                    await self._read_log()
                except NotFound:
                    self.close(StreamEnd.GONE)
                except Unavailable:
                    await asyncio.sleep(OUTAGE_RETRY_SECONDS)
        finally:
            self.wake_subscribers()  # should it have failed, whoever waits learns of it

    def batch_after(self, position: int) -> EventBatch:
        """Return what follows a position that is in the window, and not its end."""
        newest = self._chunks[-1]
        if newest.first == position + 1:
            return newest
        return next(chunk for chunk in self._chunks if chunk.last > position).after(position)

    def wait_for_change(self) -> asyncio.Future[None]:
        """Return what is done when something came, the feed is over, or it is time to show a sign of life."""
        if self.reader is not None and self.reader.done():
            self.reader.result()
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        return future

    def publish(self, items: Sequence[Any]) -> None:
        """Hand out what was read, at least one item."""
        for chunk in split_batches(items):
            self._chunks.append(chunk)
            self.buffered_bytes += chunk.size
            self.last_seq = chunk.last
        while self.buffered_bytes > WINDOW_BYTES and len(self._chunks) > 1:
            oldest = self._chunks.popleft()
            self.buffered_bytes -= oldest.size
            self.window_start = oldest.last
        self.wake_subscribers()

    def close(self, ending: StreamEnd) -> None:
        """Let followers go once they have what was read."""
        self.end_reason = self.end_reason or ending
        self.wake_subscribers()

    def wake_subscribers(self) -> None:
        """Wake all who wait."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class Subscriber:
    """Follows a feed from a position on, until the block that it is entered for ends."""

    __slots__ = (
        "_busy",
        "_leave",
        "_limit",
        "_read",
        "_seen",
        "_taken",
        "on_stalled",
        "channel",
        "joined_at",
        "position",
    )

    def __init__(self, feed: Channel, position: int, *, joined_at: int, leave: Callable[["Subscriber"], None]) -> None:
        self.channel = feed
        self.position = position
        self.joined_at = joined_at
        """The last number there was when it joined: up to it everything is history."""
        self.on_stalled: Callable[[], object] | None = None
        """Called when it is too slow: it took something, and did not come back for more."""
        self._leave = leave
        self._limit = FIRST_PAGE_ITEMS
        self._read: EventBatch | StreamEnd | None = None
        self._busy = False
        self._taken = self._seen = 0

    def __enter__(self) -> "Subscriber":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(self)

    async def next(self) -> EventBatch | StreamEnd | None:
        """Return what comes next, or why nothing does any more; nothing at all if it is time for a sign of life."""
        found = self.poll()
        if found is None:
            await self.wait()
            found = self.poll()
        return found

    def poll(self) -> EventBatch | StreamEnd | None:
        """Return what is at hand, if something is: `next` in two steps, for those who make no coroutine for each."""
        self._busy = True
        self._taken += 1
        feed = self.channel
        if self._read is not None:
            found, self._read = self._read, None
        elif self.position >= feed.last_seq:  # it may have seen more than the reader of the feed
            return feed.end_reason
        elif self.position >= feed.window_start:
            found = feed.batch_after(self.position)
        else:
            return None if feed.end_reason is StreamEnd.ENDED else feed.end_reason
        if isinstance(found, EventBatch):
            self.position = found.last
        return found

    def wait(self) -> Awaitable[None]:
        """Wait until there is something to take, or it is time for a sign of life."""
        self._busy = False
        feed = self.channel
        if self.position < feed.window_start:
            return self._catch_up()
        if self.position < feed.last_seq or feed.end_reason is not None:  # it came while what was there before was sent
            return asyncio.sleep(0)
        return feed.wait_for_change()

    def check_stalled(self) -> bool:
        """Cut it off if it has been busy with the same thing since the last look, and tell whether it was."""
        cut_off = self.on_stalled if self._busy and self._taken == self._seen else None
        self._seen = self._taken
        if cut_off is not None:
            cut_off()
        return cut_off is not None

    async def _catch_up(self) -> None:
        """Read what is no longer in the window; while the store does not answer, give it time."""
        try:
            items = await self.channel.page(self.position, limit=self._limit)
        except Unavailable:
            await asyncio.sleep(OUTAGE_RETRY_SECONDS)
        except NotFound:
            self._read = StreamEnd.GONE
        else:
            self._read = self._first_batch(items) if items else self.channel.missing_end

    def _first_batch(self, items: Sequence[Any]) -> EventBatch:
        """Return as much as is written at once; the rest is read again, so that nothing is kept for a slow reader."""
        first = next(split_batches(items))
        self._limit = min(2 * len(first.items), PAGE_ITEMS)
        return first
