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
"""Bytes of a batch of several items. A batch is written at once, so this bounds what a slow subscriber can buffer."""
PAGE_ITEMS: Final = 256
"""Items of one read of the log."""
FIRST_PAGE_ITEMS: Final = 32
"""Items of a subscriber's first own read of the log, before it knows how large they are."""
WINDOW_BYTES: Final = 256 * 1024
"""Bytes of recent items that a channel buffers; a subscriber further behind reads the log."""
OUTAGE_RETRY_SECONDS: Final = 1.0
"""Seconds between two attempts while the store is unavailable."""

T = TypeVar("T")


class StreamItem(Protocol):
    """An item of a log; sequence numbers have no gaps."""

    @property
    def seq(self) -> int:
        """Sequence number."""

    @property
    def type(self) -> str:
        """Event type."""

    @property
    def data(self) -> bytes:
        """Encoded JSON."""


class EventBatch:
    """Consecutive items, with rendered bytes that all subscribers share."""

    __slots__ = ("_rendered", "first", "items", "last", "size")

    def __init__(self, items: Sequence[Any]) -> None:
        """Create a batch of at least one item."""
        self.items = items
        self.first: int = items[0].seq
        self.last: int = items[-1].seq
        self.size = sum([len(item.data) for item in items])
        self._rendered: dict[Any, Any] = {}

    def after(self, position: int) -> "EventBatch":
        """Return the items after `position`, which is before the last one."""
        return self if position < self.first else EventBatch(self.items[position - self.first + 1 :])

    def rendered(self, render: Callable[[Sequence[Any]], T]) -> T:
        """Return the items rendered by `render`, cached per renderer."""
        rendered: T | None = self._rendered.get(render)
        if rendered is None:
            rendered = self._rendered[render] = render(self.items)
        return rendered


def split_batches(items: Sequence[Any], *, max_bytes: int = MAX_BATCH_BYTES) -> Iterator[EventBatch]:
    """Yield consecutive items as batches of at most `max_bytes`, or of a single larger item."""
    start = size = 0
    for number, item in enumerate(items):
        size += len(item.data)
        if size > max_bytes and number > start:
            yield EventBatch(items[start:number])
            start, size = number, len(item.data)
    if items:
        yield EventBatch(items[start:])


class StreamEnd(Enum):
    """The reason why a stream ends."""

    ENDED = "ended"
    """The log is complete, and all of it was delivered."""
    GONE = "gone"
    """The subject was deleted."""
    CLOSING = "closing"
    """The process shuts down: reconnect."""
    BEHIND = "behind"
    """The subscriber is too far behind, and the missed items are not stored: start again."""


class Channel:
    """A log that is read once for all its subscribers."""

    missing_end: ClassVar[StreamEnd] = StreamEnd.GONE
    """The end reason if items before the window cannot be read any more."""

    def __init__(self, start: int) -> None:
        """Create a channel for the items after position `start`."""
        self.window_start = start
        """The window holds all items after this position."""
        self.last_seq = start
        self.end_reason: StreamEnd | None = None
        self.subscribers = 0
        self.reader: asyncio.Task[None] | None = None
        self._batches: deque[EventBatch] = deque()
        self.buffered_bytes = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()

    @abstractmethod
    async def page(self, after: int, *, limit: int = PAGE_ITEMS) -> Sequence[Any]:
        """Return the next items of the log after a position, in order."""

    @abstractmethod
    async def _read_log(self) -> None:
        """Publish new items until the channel has an end reason."""

    async def run(self) -> None:
        """Read the log until the channel ends; retry while the store is unavailable."""
        try:
            while self.end_reason is None:
                try:
                    await self._read_log()
                except NotFound:
                    self.close(StreamEnd.GONE)
                except Unavailable:
                    await asyncio.sleep(OUTAGE_RETRY_SECONDS)
        finally:
            self.wake_subscribers()  # also after a failure: `wait_for_change` raises it

    def batch_after(self, position: int) -> EventBatch:
        """Return the batch after a position inside the window."""
        newest = self._batches[-1]
        if newest.first == position + 1:
            return newest
        return next(batch for batch in self._batches if batch.last > position).after(position)

    def wait_for_change(self) -> asyncio.Future[None]:
        """Return a future that is done on new items, at the end of the channel, or when a keepalive is due."""
        if self.reader is not None and self.reader.done():
            self.reader.result()
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        return future

    def publish(self, items: Sequence[Any]) -> None:
        """Add one or more items to the window and wake the subscribers."""
        for batch in split_batches(items):
            self._batches.append(batch)
            self.buffered_bytes += batch.size
            self.last_seq = batch.last
        while self.buffered_bytes > WINDOW_BYTES and len(self._batches) > 1:
            oldest = self._batches.popleft()
            self.buffered_bytes -= oldest.size
            self.window_start = oldest.last
        self.wake_subscribers()

    def close(self, reason: StreamEnd) -> None:
        """End the channel; subscribers still receive what is in the window."""
        self.end_reason = self.end_reason or reason
        self.wake_subscribers()

    def wake_subscribers(self) -> None:
        """Complete the futures of all waiting subscribers."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class Subscriber:
    """Reads a channel from a position on, until its context is left."""

    __slots__ = (
        "_busy",
        "_leave",
        "_checked_polls",
        "_page_items",
        "_polls",
        "_read",
        "on_stalled",
        "channel",
        "joined_at",
        "position",
    )

    def __init__(
        self, channel: Channel, position: int, *, joined_at: int, leave: Callable[["Subscriber"], None]
    ) -> None:
        self.channel = channel
        self.position = position
        self.joined_at = joined_at
        """The last sequence number of the log at the time of subscribing: items up to it are history."""
        self.on_stalled: Callable[[], object] | None = None
        """Called when the subscriber is stalled: it took a batch and did not ask for the next."""
        self._leave = leave
        self._page_items = FIRST_PAGE_ITEMS
        self._read: EventBatch | StreamEnd | None = None
        self._busy = False
        self._polls = self._checked_polls = 0

    def __enter__(self) -> "Subscriber":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(self)

    async def next(self) -> EventBatch | StreamEnd | None:
        """Return the next batch, the end reason, or `None` when a keepalive is due."""
        item = self.poll()
        if item is None:
            await self.wait()
            item = self.poll()
        return item

    def poll(self) -> EventBatch | StreamEnd | None:
        """Return the next batch or the end reason if available: half of `next`, without a coroutine per call."""
        self._busy = True
        self._polls += 1
        channel = self.channel
        if self._read is not None:
            item, self._read = self._read, None
        elif self.position >= channel.last_seq:  # `>`: this subscriber may have read ahead of the channel
            return channel.end_reason
        elif self.position >= channel.window_start:
            item = channel.batch_after(self.position)
        else:
            return None if channel.end_reason is StreamEnd.ENDED else channel.end_reason
        if isinstance(item, EventBatch):
            self.position = item.last
        return item

    def wait(self) -> Awaitable[None]:
        """Wait until `poll` has something to return, or a keepalive is due."""
        self._busy = False
        channel = self.channel
        if self.position < channel.window_start:
            return self._catch_up()
        if self.position < channel.last_seq or channel.end_reason is not None:  # published during the last send
            return asyncio.sleep(0)
        return channel.wait_for_change()

    def check_stalled(self) -> bool:
        """Call `on_stalled` if the subscriber is busy with the same batch as at the last check; return whether."""
        callback = self.on_stalled if self._busy and self._polls == self._checked_polls else None
        self._checked_polls = self._polls
        if callback is not None:
            callback()
        return callback is not None

    async def _catch_up(self) -> None:
        """Read a page that is no longer in the window; pause while the store is unavailable."""
        try:
            items = await self.channel.page(self.position, limit=self._page_items)
        except Unavailable:
            await asyncio.sleep(OUTAGE_RETRY_SECONDS)
        except NotFound:
            self._read = StreamEnd.GONE
        else:
            if not items:
                self._read = self.channel.missing_end
                return
            # Only one batch is kept; the rest is read again, so that a slow subscriber buffers nothing.
            self._read = batch = next(split_batches(items))
            self._page_items = min(2 * len(batch.items), PAGE_ITEMS)
