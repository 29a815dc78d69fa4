"""Channels: the log of a run, the notifications of a space, and status hints about its runs.

A hint carries the current status of a run: of several changes at once, only the last is sent.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import ClassVar, Final

import msgspec
from msgspec.structs import replace

from holdfast.control.streams.broadcast import PAGE_ITEMS, Channel, StreamEnd
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.run import Run, RunStatus
from holdfast.ports.bus import WAKEUP_FALLBACK_SECONDS, RunWatcher, WakeHint
from holdfast.ports.log import EventLog, LoggedEvent, LogHead
from holdfast.ports.runs import Runs
from holdfast.ports.spaces import Notifications

HINT_INTERVAL_SECONDS: Final = 0.1
"""Seconds between two batches of hints: no list is refreshed faster."""
MAX_TRACKED_RUNS: Final = 2000
"""Runs whose last hint is remembered."""
MAX_RECENT_RUNS: Final = 50
"""Newest runs that are read when hints may have been lost."""


class RunChannel(Channel):
    """The events of a run."""

    def __init__(self, start: int, *, head: LogHead, events: EventLog, watcher: RunWatcher) -> None:
        """Open the channel of a run whose log has at least the events up to `head`."""
        super().__init__(start)
        self._space = head.space_id
        self._run = head.run_id
        self._head_seq = head.last_event_seq
        self._events = events
        self._watcher = watcher
        if recent := self._recent_events():
            self.publish(recent)

    async def page(self, after: int, *, limit: int = PAGE_ITEMS) -> Sequence[LoggedEvent]:
        """Return events after a position."""
        return await self._events.after(self._space, self._run, seq=after, limit=limit)

    async def _read_log(self) -> None:
        with self._watcher.watch(self._space, self._run) as watch:
            await self._read(self._head_seq)  # at once: the first events need not wait for the watcher
            while self.end_reason is None:
                head = await watch.wait_past(self.last_seq)
                if head is None:
                    self.close(StreamEnd.GONE)
                    return
                await self._read(head.last_event_seq)
                if head.status.terminal and self.last_seq >= head.last_event_seq:
                    self.close(StreamEnd.ENDED)

    async def _read(self, through: int) -> None:
        while self.last_seq < through and (events := self._recent_events() or await self.page(self.last_seq)):
            self.publish(events)

    def _recent_events(self) -> Sequence[LoggedEvent]:
        return self._watcher.recent_events(self._space, self._run, self.last_seq)


class NotificationItem(msgspec.Struct, frozen=True, kw_only=True):
    """A notification as a stream item."""

    seq: int
    type: str
    data: bytes


class NotificationChannel(Channel):
    """The notifications of a space."""

    def __init__(self, start: int, *, space: SpaceId, notifications: Notifications, watcher: RunWatcher) -> None:
        super().__init__(start)
        self._space = space
        self._notifications = notifications
        self._watcher = watcher
        self._woken = asyncio.Event()

    async def page(self, after: int, *, limit: int = PAGE_ITEMS) -> Sequence[NotificationItem]:
        """Return notifications after a position."""
        return [
            NotificationItem(seq=each.number, type=each.kind, data=msgspec.json.encode(each))
            for each in await self._notifications.after(self._space, after, limit=limit)
        ]

    async def _read_log(self) -> None:
        with self._watcher.listen(self._on_wake):
            while self.end_reason is None:
                self._woken.clear()
                while notifications := await self.page(self.last_seq):
                    self.publish(notifications)
                await _wait_for_event(self._woken, seconds=WAKEUP_FALLBACK_SECONDS)

    def _on_wake(self, hint: WakeHint) -> None:
        if hint.news or hint.everything:
            self._woken.set()


async def _wait_for_event(event: asyncio.Event, *, seconds: float) -> bool:
    """Wait until an event is set, or for a timeout; return whether it was set."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


class RunHint(msgspec.Struct, frozen=True, kw_only=True):
    """The current status of a run."""

    run_id: RunId
    thread_id: ThreadId
    status: RunStatus
    last_event_seq: int


class RunHintItem(msgspec.Struct, frozen=True, kw_only=True):
    """A hint as a stream item; its number is valid in this process only."""

    seq: int
    type: str = "run"
    data: bytes


class SpaceChannel(Channel):
    """Status hints about the runs of a space, from now on."""

    missing_end: ClassVar[StreamEnd] = StreamEnd.BEHIND

    def __init__(self, start: int, *, space: SpaceId, runs: Runs, events: EventLog, watcher: RunWatcher) -> None:
        super().__init__(start)
        self._space = space
        self._runs = runs
        self._events = events
        self._watcher = watcher
        self._woken = asyncio.Event()
        self._hinted: set[RunId] = set()
        self._refresh_all = False
        self._tracked: OrderedDict[RunId, RunHint] = OrderedDict()

    async def page(self, after: int, *, limit: int = PAGE_ITEMS) -> Sequence[RunHintItem]:
        """Return nothing: hints are not stored, so a subscriber that is too far behind reads the list again."""
        return []

    async def _read_log(self) -> None:
        with self._watcher.listen(self._on_wake):
            if self._tracked:  # after an outage: publish what changed meanwhile
                await self._refresh(everything=True)
            for run in await self._newest():
                self._remember(_run_hint(run))
            while self.end_reason is None:
                timed_out = not await _wait_for_event(self._woken, seconds=WAKEUP_FALLBACK_SECONDS)
                await self._refresh(everything=timed_out or self._refresh_all)
                await asyncio.sleep(HINT_INTERVAL_SECONDS)

    def _on_wake(self, hint: WakeHint) -> None:
        self._refresh_all = self._refresh_all or hint.everything
        self._hinted |= {run for space, run in hint.runs if space == self._space}
        if self._hinted or self._refresh_all:
            self._woken.set()

    async def _refresh(self, *, everything: bool) -> None:
        self._woken.clear()
        self._refresh_all = False
        hinted, self._hinted = self._hinted, set()
        if everything:
            self._publish_changed([_run_hint(run) for run in await self._newest()])
            hinted |= {run for run, hint in self._tracked.items() if not hint.status.terminal}
        heads = await self._events.heads([(self._space, run) for run in hinted & self._tracked.keys()])
        hints = []
        for run in hinted - self._tracked.keys():
            with suppress(NotFound):
                hints.append(_run_hint(await self._runs.get(self._space, run)))
        self._publish_changed([*(self._updated_hint(head) for head in heads), *hints])

    async def _newest(self) -> list[Run]:
        return (await self._runs.page(self._space, limit=MAX_RECENT_RUNS)).items

    def _updated_hint(self, head: LogHead) -> RunHint:
        return replace(self._tracked[head.run_id], status=head.status, last_event_seq=head.last_event_seq)

    def _publish_changed(self, hints: Iterable[RunHint]) -> None:
        changed = [hint for hint in hints if self._tracked.get(hint.run_id) != hint]
        for hint in changed:
            self._remember(hint)
        if changed:
            encode = msgspec.json.encode
            self.publish(
                [RunHintItem(seq=seq, data=encode(hint)) for seq, hint in enumerate(changed, start=self.last_seq + 1)]
            )

    def _remember(self, hint: RunHint) -> None:
        self._tracked[hint.run_id] = hint
        self._tracked.move_to_end(hint.run_id)
        if len(self._tracked) > MAX_TRACKED_RUNS:
            self._tracked.popitem(last=False)


def _run_hint(run: Run) -> RunHint:
    return RunHint(run_id=run.id, thread_id=run.thread_id, status=run.status, last_event_seq=run.last_event_seq)
