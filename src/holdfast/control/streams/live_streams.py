"""Live streams of a process: opens, limits and closes the channels that clients subscribe to."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
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
"""Parts of the keepalive interval: channels take turns, so that not all streams are written to at once."""
SHUTDOWN_CUTOFF_SECONDS: Final = 0.3
"""Seconds after which a stalled subscriber is disconnected during shutdown; at most twice as many."""

ChannelKey: TypeAlias = tuple[str, ...]
"""The kind of a channel, and the ids of its subject."""

_log: Final = logging.getLogger("holdfast.streams")


class StreamLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the live streams of a process."""

    keepalive_seconds: float = 15.0
    """Seconds without an event after which a stream sends a keepalive."""
    stall_timeout_seconds: float = 10.0
    """Seconds after which a subscriber that reads nothing is disconnected; at most twice as many."""
    max_streams: int = 10_000
    """Streams that may be open at once."""


class LiveStreams:
    """The live streams of a process: run logs, notifications and run hints. Leaving the context closes all of them."""

    def __init__(
        self,
        *,
        spaces: Spaces,
        runs: Runs,
        events: EventLog,
        notifications: Notifications,
        watcher: RunWatcher,
        limits: StreamLimits | None = None,
    ) -> None:
        self._spaces = spaces
        self._runs = runs
        self._events = events
        self._notifications = notifications
        self._watcher = watcher
        self._limits = limits or StreamLimits()
        self._channels: dict[ChannelKey, Channel] = {}
        self._keepalive_slices: dict[Channel, int] = {}
        self._next_slice = count()
        self._subscribers: dict[Subscriber, ChannelKey] = {}
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
        tasks = [self._keepalive_task, *(channel.reader for channel in self._channels.values())]
        for task in tasks:
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)

    @property
    def open_count(self) -> int:
        """The number of open streams."""
        return len(self._subscribers)

    @property
    def buffered_bytes(self) -> int:
        """The bytes of events that are buffered for all streams."""
        return sum(channel.buffered_bytes for channel in self._channels.values())

    def close(self) -> None:
        """End all streams and refuse new ones. It may be called from a signal handler of the event loop."""
        if not self._closing:
            self._closing = True
            for channel in self._channels.values():
                channel.close(StreamEnd.CLOSING)
            for callback in list(self._close_callbacks.values()):
                callback()
            self._disconnect_until_empty()

    @contextmanager
    def on_close(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call `callback` if the streams are closed while the block runs: for requests that wait without a stream."""
        key = object()
        self._close_callbacks[key] = callback
        try:
            if self._closing:
                callback()
            yield
        finally:
            del self._close_callbacks[key]

    def _disconnect_until_empty(self) -> None:
        """Disconnect stalled subscribers repeatedly until none is left."""
        self._disconnect_stalled()
        if self._subscribers:
            asyncio.get_running_loop().call_later(SHUTDOWN_CUTOFF_SECONDS, self._disconnect_until_empty)

    async def subscribe_run(self, space: SpaceId, run: RunId, *, after: int | None = 0) -> Subscriber:
        """Subscribe to the log of a run after a position, by default its start; `None` means its end.

        A position beyond the end raises `BadCursor`.
        """
        head = next(iter(await self._events.heads([(space, run)])), None)
        if head is None:
            raise NotFound(f"there is no run `{run}`", id=run)
        self.check_capacity()
        return self._subscribe_run(head, head.last_event_seq if after is None else after)

    def check_capacity(self) -> None:
        """Raise `TooManyStreams` if no further stream may be opened, `Unavailable` during shutdown."""
        if self._closing:
            raise Unavailable("the server is shutting down: connect to another one, or retry in a moment")
        limit = self._limits.max_streams
        if len(self._subscribers) >= limit:
            raise TooManyStreams(f"{limit} streams are open, which is the maximum: close some", limit=limit)

    def subscribe_new_run(self, run: Run) -> Subscriber:
        """Subscribe to a new run from its start; the caller checks the capacity before it creates the run."""
        return self._subscribe_run(log_head(run), 0)

    async def subscribe_notifications(self, space: SpaceId, *, after: int | None = None) -> Subscriber:
        """Subscribe to the notifications of a space after a position, by default from now on."""
        latest = await self._notifications.latest(space, limit=1)
        last = latest[0].number if latest else 0
        position = last if after is None else after
        _check_position(position, last)
        self.check_capacity()
        channel = partial(NotificationChannel, space=space, notifications=self._notifications, watcher=self._watcher)
        return self._subscribe(("news", space), position, last, channel)

    async def subscribe_space(self, space: SpaceId) -> Subscriber:
        """Subscribe to status hints about the runs of a space, from now on."""
        await self._spaces.get(space)
        self.check_capacity()
        key = ("space", space)
        last = self._channels[key].last_seq if key in self._channels else 0
        channel = partial(SpaceChannel, space=space, runs=self._runs, events=self._events, watcher=self._watcher)
        return self._subscribe(key, last, last, channel)

    def _subscribe_run(self, head: LogHead, position: int) -> Subscriber:
        _check_position(position, head.last_event_seq)
        channel = partial(RunChannel, head=head, events=self._events, watcher=self._watcher)
        return self._subscribe(("run", head.space_id, head.run_id), position, head.last_event_seq, channel)

    def _subscribe(self, key: ChannelKey, position: int, last: int, make: Callable[[int], Channel]) -> Subscriber:
        channel = self._channels.get(key)
        if channel is None or channel.end_reason is not None:
            # A subscriber far behind reads the log by itself; the window of the channel holds only recent items.
            channel = self._channels[key] = make(position if last - position <= PAGE_ITEMS else last)
            self._keepalive_slices[channel] = next(self._next_slice) % KEEPALIVE_SLICES
            channel.reader = start_background(channel.run(), name="holdfast-channel", ended_by="LiveStreams")
        if self._closing:
            channel.close(StreamEnd.CLOSING)
        channel.subscribers += 1
        subscriber = Subscriber(channel, position, joined_at=last, leave=self._unsubscribe)
        self._subscribers[subscriber] = key
        return subscriber

    def _unsubscribe(self, subscriber: Subscriber) -> None:
        key = self._subscribers.pop(subscriber)
        channel = subscriber.channel
        channel.subscribers -= 1
        if channel.subscribers:
            return
        self._keepalive_slices.pop(channel, None)
        if self._channels.get(key) is channel:
            del self._channels[key]
        if channel.reader is not None:
            channel.reader.cancel()

    async def _send_keepalives(self) -> None:
        """Wake idle streams so that they send a keepalive, and disconnect stalled subscribers."""
        limits = self._limits
        interval = min(limits.keepalive_seconds / KEEPALIVE_SLICES, limits.stall_timeout_seconds)
        ticks_per_stall_check = max(round(limits.stall_timeout_seconds / interval), 1)
        for tick in count(1):
            await asyncio.sleep(interval)
            for channel, slice_number in list(self._keepalive_slices.items()):
                if tick % KEEPALIVE_SLICES == slice_number:
                    channel.wake_subscribers()
            if tick % ticks_per_stall_check == 0:
                self._disconnect_stalled()

    def _disconnect_stalled(self) -> None:
        for subscriber, (kind, *ids) in list(self._subscribers.items()):
            if subscriber.check_stalled():
                name = "/".join(ids)
                fields = {"stream": kind, "of": name}
                _log.warning("disconnected a stalled subscriber of %s %s", kind, name, extra={"fields": fields})


def _check_position(position: int, last: int) -> None:
    if position > last:
        raise BadCursor(f"there is no event {position} yet: the last one is {last}", last_event_id=position, last=last)
