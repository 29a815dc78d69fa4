"""`Watcher`: one per process; it knows when a run's log has grown and when runs can be claimed.

    bus ── hint ──┬──► every listener in this process
                  ├──► appended events, if the hint has them ────┬──► every stream that waits for them
                  ├──► one read of the other changed runs ───────┘
    2 seconds ────┘
    a run is due ────► one read of the queue ──► the worker

A lost hint costs at most the rest of the two seconds. However many streams there are, one task reads. A tail may lag
behind its log and may start anywhere, but its events are on disk, in order and without a gap.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, TypeAlias

from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import millis
from holdfast.engine.loops import WakeEvent
from holdfast.ports.bus import WAKEUP_FALLBACK_SECONDS, Bus, WakeHint, WakeListener
from holdfast.ports.log import EventLog, LogAppend, LoggedEvent, LogHead
from holdfast.ports.queue import Leases
from holdfast.ports.runtime import Clock

MAX_RECENT_TAILS: Final = 128
"""Unwatched runs whose tail is kept: a stream may be about to watch one."""
MAX_TAIL_CHARS: Final = 32 * 1024
"""Characters of event JSON that are kept of a run."""

RunRef: TypeAlias = tuple[SpaceId, RunId]


class Tail:
    """The last events of one run's log."""

    __slots__ = ("_appends", "_size", "head")

    def __init__(self) -> None:
        self.head: LogHead | None = None
        """The head of the log; `None` if it must be read."""
        self._appends: deque[LogAppend] = deque()
        self._size = 0

    def update_head(self, head: LogHead | None) -> None:
        """Record the head that was read; `None` if the run does not exist any more."""
        if head is None:
            self._drop_events()
        if head is None or self._is_newer(head):
            self.head = head

    def add(self, append: LogAppend) -> None:
        """Add the events of a hint; hints of two writers may arrive in either order."""
        if not self._is_newer(append.head):
            return
        self.head = append.head
        if not append.events:
            return
        if self._appends and append.first != self._appends[-1].head.last_event_seq + 1:
            self._drop_events()
        self._appends.append(append)
        self._size += append.size
        while self._size > MAX_TAIL_CHARS:
            self._size -= self._appends.popleft().size

    def events_after(self, seq: int) -> list[LoggedEvent]:
        """Return the events after `seq`; an empty list if they must be read from the store."""
        if not self._appends or seq + 1 < self._appends[0].first:
            return []
        return [event for append in self._appends if append.head.last_event_seq > seq for event in append.after(seq)]

    def _drop_events(self) -> None:
        self._appends.clear()
        self._size = 0

    def _is_newer(self, head: LogHead) -> bool:
        current = self.head
        if current is None or head.last_event_seq > current.last_event_seq:
            return True
        return head.last_event_seq == current.last_event_seq and not current.status.terminal


class RecentTails:
    """The tails of runs that grew recently and are not watched."""

    def __init__(self) -> None:
        self._tails: OrderedDict[RunRef, Tail] = OrderedDict()

    def add(self, append: LogAppend) -> None:
        """Add events to the tail of a run, and drop the oldest tail if there are too many."""
        name = append.head.name
        tail = self._tails[name] = self.take(name)
        tail.add(append)
        if len(self._tails) > MAX_RECENT_TAILS:
            self._tails.popitem(last=False)

    def find(self, name: RunRef) -> Tail | None:
        """Return the tail of a run, if there is one."""
        return self._tails.get(name)

    def take(self, name: RunRef) -> Tail:
        """Remove and return the tail of a run, or an empty one."""
        return self._tails.pop(name, None) or Tail()

    def forget(self, names: Iterable[RunRef]) -> None:
        """Drop the tails of runs that changed in an unknown way."""
        for name in names:
            self._tails.pop(name, None)

    def clear(self) -> None:
        """Drop all tails."""
        self._tails.clear()


MIN_QUEUE_POLL_SECONDS: Final = 0.02
"""The shortest time between two reads of the queue, however many runs are delayed."""
MAX_HEADS_BATCH: Final = 1000

_NEVER: Final = float("inf")


class RunWatch:
    """A watched run, for as long as a block uses it as a context manager."""

    def __init__(self, name: RunRef, events: EventLog, tail: Tail, *, forget: Callable[[RunRef], object]) -> None:
        """Watch a run; `forget` is called when its last block ends."""
        self._name = name
        self._events = events
        self.tail = tail
        self._forget = forget
        self._changed = asyncio.Event()
        self._user_count = 0

    def __enter__(self) -> "RunWatch":
        self._user_count += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._user_count -= 1
        if not self._user_count:
            self._forget(self._name)

    async def wait_past(self, seq: int) -> LogHead | None:
        """Wait until the log is longer than `seq` or the run has ended; `None` if the run does not exist."""
        if self.tail.head is None:
            head = next(iter(await self._events.heads([self._name])), None)
            if head is not None:  # else the watcher may have received one meanwhile
                self.update_head(head)
        while (head := self.tail.head) is not None and head.last_event_seq <= seq and not head.status.terminal:
            self._changed.clear()
            await self._changed.wait()
        return head

    def update_head(self, head: LogHead | None) -> None:
        """Record the head that was read, and wake the waiting blocks if it is new."""
        before = self.tail.head
        self.tail.update_head(head)
        self._notify_if_changed(before)

    def add(self, append: LogAppend) -> None:
        """Add the events of a hint, and wake the waiting blocks if they are new."""
        before = self.tail.head
        self.tail.add(append)
        self._notify_if_changed(before)

    def _notify_if_changed(self, before: LogHead | None) -> None:
        head = self.tail.head
        if head is None or before is None:
            changed = head is not before
        else:
            changed = (head.last_event_seq, head.status.terminal) != (before.last_event_seq, before.status.terminal)
        if changed:
            self._changed.set()


class Watcher:
    """Watches runs and the queue for all streams and loops of this process."""

    def __init__(
        self,
        *,
        bus: Bus,
        events: EventLog,
        leases: Leases,
        clock: Clock,
        fallback_seconds: float = WAKEUP_FALLBACK_SECONDS,
    ) -> None:
        self._bus = bus
        self._events = events
        self._leases = leases
        self._clock = clock
        self._fallback_seconds = fallback_seconds
        self._watches: dict[RunRef, RunWatch] = {}
        self._recent = RecentTails()
        self._listeners: list[WakeListener] = []
        self._wake = WakeEvent()
        self._unread_runs: set[RunRef] = set()
        """Watched runs that changed according to a hint without their new events."""
        self._queue_changed = self._recheck_all = False
        # Event loop times: of the next check of everything, of the next read of the queue, and of the last one.
        self._recheck_all_at = self._check_queue_at = self._queue_checked_at = -_NEVER

    def watch(self, space: SpaceId, run: RunId) -> RunWatch:
        """Return the watch of a run, to be used as a context manager."""
        name = space, run
        watch = self._watches.get(name)
        if watch is None:
            tail = self._recent.take(name)
            watch = self._watches[name] = RunWatch(name, self._events, tail, forget=self._watches.pop)
        return watch

    def recent_events(self, space: SpaceId, run: RunId, seq: int) -> list[LoggedEvent]:
        """Return the events of a run after `seq`; an empty list if they must be read from the store."""
        watch = self._watches.get((space, run))
        tail = self._recent.find((space, run)) if watch is None else watch.tail
        return [] if tail is None else tail.events_after(seq)

    @contextmanager
    def listen(self, listener: WakeListener) -> Iterator[None]:
        """Call `listener` with each hint while the block runs, and with a queue hint when a run becomes due."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    async def run(self) -> None:
        """Watch until cancelled, retrying while the store is unavailable."""
        with self._bus.subscribe(self._on_wake):
            while True:
                try:
                    await self._check()
                except Unavailable:
                    self._recheck_all_at, self._check_queue_at = _loop_time() + self._fallback_seconds, _NEVER
                await self._wake.wait(seconds=max(min(self._recheck_all_at, self._check_queue_at) - _loop_time(), 0.0))

    def _on_wake(self, hint: WakeHint) -> None:
        """Pass a hint to the listeners, add its events to their runs, and wake the reader for all other changes."""
        for listener in self._listeners:
            listener(hint)
        for append in hint.grown:
            (self._watches.get(append.head.name) or self._recent).add(append)
        unread = hint.runs.difference([append.head.name for append in hint.grown])
        if unread:
            self._recent.forget(unread)
            self._unread_runs |= self._watches.keys() & unread
        self._queue_changed |= hint.delayed
        self._recheck_all |= hint.everything
        if self._unread_runs or self._queue_changed or self._recheck_all:
            self._wake.set()

    async def _check(self) -> None:
        """Read the runs and the queue that changed according to hints; when it is time, all of them."""
        everything = self._recheck_all or _loop_time() >= self._recheck_all_at
        names = list(self._watches if everything else self._watches.keys() & self._unread_runs)
        if everything:
            self._recent.clear()
        if self._queue_changed:
            self._check_queue_at = min(self._check_queue_at, self._queue_checked_at + MIN_QUEUE_POLL_SECONDS)
        # Hints that arrive from here on are for the next check.
        self._unread_runs, self._queue_changed, self._recheck_all = set(), False, False
        for start in range(0, len(names), MAX_HEADS_BATCH):
            await self._read_heads(names[start : start + MAX_HEADS_BATCH])
        if everything or _loop_time() >= self._check_queue_at:
            await self._check_queue()
        if everything:
            self._recheck_all_at = _loop_time() + self._fallback_seconds

    async def _read_heads(self, names: Iterable[RunRef]) -> None:
        before = {name: watch.tail.head for name in names if (watch := self._watches.get(name)) is not None}
        heads = {head.name: head for head in await self._events.heads(list(before))}
        for name, old_head in before.items():
            watch = self._watches.get(name)
            if watch is not None and (name in heads or watch.tail.head is old_head):  # else a hint was newer
                watch.update_head(heads.get(name))

    async def _check_queue(self) -> None:
        """Tell the listeners if a run can be claimed, and schedule the read for the next delayed run."""
        state = await self._leases.queue_state()
        self._queue_checked_at = _loop_time()
        delay = _NEVER if state.next_at is None else (millis(state.next_at) - self._clock.now()) / 1000
        self._check_queue_at = self._queue_checked_at + max(delay, MIN_QUEUE_POLL_SECONDS)
        if state.ready:
            for listener in self._listeners:
                listener(WakeHint(queue=True))


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
