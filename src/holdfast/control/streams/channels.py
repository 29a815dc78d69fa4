"""Channels: the log of a run, the notifications of a space, and status hints about its runs.

A hint says where a run stands now, not how it got there: of many changes at once only the last is sent.
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
from holdfast.domain.notification import Notification
from holdfast.domain.run import Run, RunStatus
from holdfast.ports.bus import RunWatcher, WakeHint
from holdfast.ports.log import EventLog, LoggedEvent, LogHead
from holdfast.ports.runs import Runs
from holdfast.ports.spaces import Notifications


class RunChannel(Channel):
    """The events of a run."""

    def __init__(self, start: int, *, head: LogHead, events: EventLog, watching: RunWatcher) -> None:
        """Make a feed of a run that is known to be as far as `head` says, with what need not be read of it."""
        super().__init__(start)
        self._space = head.space_id
        self._run = head.run_id
        self._known = head.last_event_seq
        self._events = events
        self._watching = watching
        if fresh := self._fresh():
            self.publish(fresh)

    async def page(self, after: int, *, limit: int = PAGE_ITEMS) -> Sequence[LoggedEvent]:
        """Return events after a number."""
        return await self._events.after(self._space, self._run, seq=after, limit=limit)

    async def _read_log(self) -> None:
        with self._watching.watch(self._space, self._run) as watch:
            await self._read(self._known)  # at once: the first event need not wait for a look at the run
            while self.end_reason is None:
                head = await watch.wait_past(self.last_seq)
                if head is None:
                    self.close(StreamEnd.GONE)
                    return
                await self._read(head.last_event_seq)
                if head.status.terminal and self.last_seq >= head.last_event_seq:
                    self.close(StreamEnd.ENDED)

    async def _read(self, through: int) -> None:
        while self.last_seq < through and (events := self._fresh() or await self.page(self.last_seq)):
            self.publish(events)

    def _fresh(self) -> Sequence[LoggedEvent]:
        return self._watching.recent_events(self._space, self._run, self.last_seq)


WAKEUP_FALLBACK_SECONDS: Final = 2.0
"""Seconds that a lost hint may cost."""


class NotificationItem(msgspec.Struct, frozen=True, kw_only=True):
    """A notification on its way to those who follow."""

    seq: int
    type: str
    data: bytes


class NotificationChannel(Channel):
    """The notifications of a space."""

    def __init__(self, start: int, *, space: SpaceId, notifications: Notifications, watching: RunWatcher) -> None:
        super().__init__(start)
        self._space = space
        self._notifications = notifications
        self._watching = watching
        self._woken = asyncio.Event()

    async def page(self, after: int, *, limit: int = PAGE_ITEMS) -> Sequence[NotificationItem]:
        """Return notifications after a number."""
        return [_notification_item(each) for each in await self._notifications.after(self._space, after, limit=limit)]

    async def _read_log(self) -> None:
        with self._watching.listen(self._on_wake):
            while self.end_reason is None:
                self._woken.clear()
                while news := await self.page(self.last_seq):
                    self.publish(news)
                await wait_for_event(self._woken, within=WAKEUP_FALLBACK_SECONDS)

    def _on_wake(self, wake: WakeHint) -> None:
        if wake.news or wake.everything:
            self._woken.set()


async def wait_for_event(event: asyncio.Event, *, within: float) -> bool:
    """Wait until a bell rings, or for a time; return whether it rang."""
    try:
        async with asyncio.timeout(within):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _notification_item(notification: Notification) -> NotificationItem:
    return NotificationItem(seq=notification.number, type=notification.kind, data=msgspec.json.encode(notification))


HINT_INTERVAL_SECONDS: Final = 0.1
"""Seconds between two looks: nobody reads a list faster."""
MAX_TRACKED_RUNS: Final = 2000
"""Runs of which it is remembered where they stand."""
MAX_RECENT_RUNS: Final = 50
"""Runs that are looked at when hints may have been lost."""


class RunHint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands."""

    run_id: RunId
    thread_id: ThreadId
    status: RunStatus
    last_event_seq: int


class RunHintItem(msgspec.Struct, frozen=True, kw_only=True):
    """A hint on its way to those who follow; its number is of this process only."""

    seq: int
    type: str = "run"
    data: bytes


class SpaceChannel(Channel):
    """The changes of a space's runs, from now on."""

    missing_end: ClassVar[StreamEnd] = StreamEnd.BEHIND

    def __init__(self, *, space: SpaceId, runs: Runs, events: EventLog, watching: RunWatcher) -> None:
        super().__init__(0)
        self._space = space
        self._runs = runs
        self._events = events
        self._watching = watching
        self._woken = asyncio.Event()
        self._hinted: set[RunId] = set()
        self._all = False
        self._tracked: OrderedDict[RunId, RunHint] = OrderedDict()

    async def page(self, after: int, *, limit: int = PAGE_ITEMS) -> Sequence[RunHintItem]:
        """Return nothing: hints are not kept, so who is too far behind reads the list again."""
        return []

    async def _read_log(self) -> None:
        with self._watching.listen(self._on_wake):
            await self._begin()
            while self.end_reason is None:
                lost = not await wait_for_event(self._woken, within=WAKEUP_FALLBACK_SECONDS)
                await self._refresh(everything=lost or self._all)
                await asyncio.sleep(HINT_INTERVAL_SECONDS)

    async def _begin(self) -> None:
        """Take note of where runs stand; after an outage, tell what changed meanwhile."""
        if self._tracked:
            await self._refresh(everything=True)
        for run in await self._newest():
            self._remember(_run_hint(run))

    def _on_wake(self, wake: WakeHint) -> None:
        self._all = self._all or wake.everything
        self._hinted |= {run for space, run in wake.runs if space == self._space}
        if self._hinted or self._all:
            self._woken.set()

    async def _refresh(self, *, everything: bool) -> None:
        self._woken.clear()
        self._all = False
        hinted, self._hinted = self._hinted, set()
        if everything:
            self._publish_changed([_run_hint(run) for run in await self._newest()])
            hinted |= {run for run, hint in self._tracked.items() if not hint.status.terminal}
        heads = await self._events.heads([(self._space, run) for run in hinted & self._tracked.keys()])
        fresh = [await self._read(run) for run in hinted - self._tracked.keys()]
        self._publish_changed(
            [*(self._updated_hint(head) for head in heads), *(hint for hint in fresh if hint is not None)]
        )

    async def _newest(self) -> list[Run]:
        return (await self._runs.page(self._space, limit=MAX_RECENT_RUNS)).items

    async def _read(self, run: RunId) -> RunHint | None:
        with suppress(NotFound):
            return _run_hint(await self._runs.get(self._space, run))
        return None

    def _updated_hint(self, head: LogHead) -> RunHint:
        return replace(self._tracked[head.run_id], status=head.status, last_event_seq=head.last_event_seq)

    def _publish_changed(self, hints: Iterable[RunHint]) -> None:
        news = [hint for hint in hints if self._tracked.get(hint.run_id) != hint]
        for hint in news:
            self._remember(hint)
        if news:
            encode = msgspec.json.encode
            self.publish(
                [RunHintItem(seq=seq, data=encode(hint)) for seq, hint in enumerate(news, start=self.last_seq + 1)]
            )

    def _remember(self, hint: RunHint) -> None:
        self._tracked[hint.run_id] = hint
        self._tracked.move_to_end(hint.run_id)
        if len(self._tracked) > MAX_TRACKED_RUNS:
            self._tracked.popitem(last=False)


def _run_hint(run: Run) -> RunHint:
    return RunHint(run_id=run.id, thread_id=run.thread_id, status=run.status, last_event_seq=run.last_event_seq)
