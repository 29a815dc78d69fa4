"""Live streams of a process: opens, limits and closes the channels that clients subscribe to."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import TracebackType
from typing import Final, TypeAlias

import msgspec

from holdfast.concurrency import start_background
from holdfast.control.errors import BadCursor, TooManyStreams
from holdfast.control.streams.broadcast import PAGE_ITEMS, Channel, StreamEnd, Subscriber
from holdfast.control.streams.channels import NotificationChannel, RunChannel, SpaceChannel
from holdfast.domain.errors import NotFound, Unavailable
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.run import Run
from holdfast.ports.bus import RunWatcher
from holdfast.ports.log import EventLog, LogHead, log_head
from holdfast.ports.runs import Runs
from holdfast.ports.spaces import Notifications, Spaces

KEEPALIVE_SLICES: Final = 15
"""Parts of the time between two signs of life: feeds take turns, so that not all streams are written to at once."""
SHUTDOWN_CUTOFF_SECONDS: Final = 0.3
"""Seconds after which a follower is cut off that takes nothing, once the process stops; up to twice as many."""

ChannelKey: TypeAlias = tuple[str, ...]
"""What is followed: of which kind, and its ids."""

_log: Final = logging.getLogger("holdfast.streams")


class StreamLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How streams are kept."""

    keepalive_seconds: float = 15.0
    """Seconds of silence after which a stream shows a sign of life."""
    stall_timeout_seconds: float = 10.0
    """Seconds after which a follower is cut off that takes nothing; up to twice as many."""
    max_streams: int = 10_000
    """Streams that may be open at once."""


class LiveStreams:
    """What can be followed. Entered, it cares for the streams of a process; at its end none is left."""

    def __init__(
        self,
        *,
        spaces: Spaces,
        runs: Runs,
        events: EventLog,
        notifications: Notifications,
        watching: RunWatcher,
        limits: StreamLimits | None = None,
    ) -> None:
        self._spaces = spaces
        self._runs = runs
        self._events = events
        self._notifications = notifications
        self._watching = watching
        self._habits = limits or StreamLimits()
        self._feeds: dict[ChannelKey, Channel] = {}
        self._phases: dict[Channel, int] = {}
        self._turn = count()
        self._followers: dict[Subscriber, ChannelKey] = {}
        self._close_callbacks: dict[object, Callable[[], None]] = {}
        self._closing = False
        self._keepalive_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "LiveStreams":
        self._keepalive_task = start_background(
            self._send_keepalives(), name="holdfast-keepalives", ended_by="LiveStreams"
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        tasks = [self._keepalive_task, *(feed.reader for feed in self._feeds.values())]
        for task in tasks:
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)

    @property
    def open_count(self) -> int:
        """How many streams there are."""
        return len(self._followers)

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of events are kept for them."""
        return sum(feed.buffered_bytes for feed in self._feeds.values())

    def close(self) -> None:
        """Let all followers go, and take no new one. It may be called from a signal handler of the event loop."""
        if not self._closing:
            self._closing = True
            for feed in self._feeds.values():
                feed.close(StreamEnd.CLOSING)
            for leave in list(self._close_callbacks.values()):
                leave()
            self._cut_off_until_empty()

    @contextmanager
    def on_close(self, leave: Callable[[], None]) -> Iterator[None]:
        """Have `leave` called for who waits in the block for something else than a stream, when all are let go."""
        key = object()
        self._close_callbacks[key] = leave
        try:
            if self._closing:
                leave()
            yield
        finally:
            del self._close_callbacks[key]

    def _cut_off_until_empty(self) -> None:
        """Cut off those who hold up the end."""
        self._disconnect_stalled()
        if self._followers:
            asyncio.get_running_loop().call_later(SHUTDOWN_CUTOFF_SECONDS, self._cut_off_until_empty)

    async def subscribe_run(self, space: SpaceId, run: RunId, *, after: int | None = 0) -> Subscriber:
        """Follow the log of a run after a number, or from now on; a number beyond its end raises `BadCursor`."""
        head = next(iter(await self._events.heads([(space, run)])), None)
        if head is None:
            raise NotFound(f"there is no run `{run}`", id=run)
        self.check_capacity()
        return self._run(head, head.last_event_seq if after is None else after)

    def check_capacity(self) -> None:
        """Raise `TooManyStreams` unless there may be one more stream now, `Unavailable` when the process stops."""
        if self._closing:
            raise Unavailable("the server is shutting down: follow another one, or come back in a moment")
        most = self._habits.max_streams
        if len(self._followers) >= most:
            raise TooManyStreams(f"{most} streams are open, and there may be no more: close some", limit=most)

    def subscribe_new_run(self, run: Run) -> Subscriber:
        """Follow a run that was just made, from its beginning; whether there is room is asked before it is made."""
        return self._run(log_head(run), 0)

    async def subscribe_notifications(self, space: SpaceId, *, after: int | None = None) -> Subscriber:
        """Follow the notifications of a space after a number, or from now on."""
        latest = await self._notifications.latest(space, limit=1)
        last = latest[0].number if latest else 0
        start = last if after is None else after
        _check_position(start, last)
        self.check_capacity()
        return self._join(("news", space), start, last, lambda floor: self._news_feed(space, floor))

    async def subscribe_space(self, space: SpaceId) -> Subscriber:
        """Follow where the runs of a space stand, from now on."""
        await self._spaces.get(space)
        self.check_capacity()
        key = ("space", space)
        now = self._feeds[key].last_seq if key in self._feeds else 0
        return self._join(key, now, now, lambda _: self._space_feed(space))

    def _run(self, head: LogHead, after: int) -> Subscriber:
        _check_position(after, head.last_event_seq)
        key = ("run", head.space_id, head.run_id)
        return self._join(key, after, head.last_event_seq, lambda floor: self._run_feed(head, floor))

    def _join(self, key: ChannelKey, position: int, last: int, make: Callable[[int], Channel]) -> Subscriber:
        feed = self._feeds.get(key)
        if feed is None or feed.end_reason is not None:
            # Who is far behind reads the log alone; the window is for what is new.
            feed = self._feeds[key] = make(position if last - position <= PAGE_ITEMS else last)
            self._phases[feed] = next(self._turn) % KEEPALIVE_SLICES
            feed.reader = start_background(feed.run(), name="holdfast-channel", ended_by="LiveStreams")
        if self._closing:
            feed.close(StreamEnd.CLOSING)
        feed.subscribers += 1
        follower = Subscriber(feed, position, joined_at=last, leave=self._leave)
        self._followers[follower] = key
        return follower

    def _leave(self, follower: Subscriber) -> None:
        key = self._followers.pop(follower)
        feed = follower.channel
        feed.subscribers -= 1
        if feed.subscribers:
            return
        self._phases.pop(feed, None)
        if self._feeds.get(key) is feed:
            del self._feeds[key]
        if feed.reader is not None:
            feed.reader.cancel()

    async def _send_keepalives(self) -> None:
        """Let streams show signs of life, and cut off those that are too slow."""
        step = min(self._habits.keepalive_seconds / KEEPALIVE_SLICES, self._habits.stall_timeout_seconds)
        looks = max(round(self._habits.stall_timeout_seconds / step), 1)
        for turn in count(1):
            await asyncio.sleep(step)
            for feed, phase in list(self._phases.items()):
                if turn % KEEPALIVE_SLICES == phase:
                    feed.wake_subscribers()
            if turn % looks == 0:
                self._disconnect_stalled()

    def _disconnect_stalled(self) -> None:
        for follower, key in list(self._followers.items()):
            if follower.check_stalled():
                kind, *ids = key
                said = {"stream": kind, "of": "/".join(ids)}
                _log.warning("cut off a reader of %s %s that took nothing", kind, said["of"], extra={"said": said})

    def _run_feed(self, head: LogHead, floor: int) -> RunChannel:
        return RunChannel(floor, head=head, events=self._events, watching=self._watching)

    def _news_feed(self, space: SpaceId, floor: int) -> NotificationChannel:
        return NotificationChannel(floor, space=space, notifications=self._notifications, watching=self._watching)

    def _space_feed(self, space: SpaceId) -> SpaceChannel:
        return SpaceChannel(space=space, runs=self._runs, events=self._events, watching=self._watching)


def _check_position(position: int, last: int) -> None:
    if position > last:
        raise BadCursor(f"there is no event {position} yet: the last one is {last}", last_event_id=position, last=last)
