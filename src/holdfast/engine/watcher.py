"""`Watcher`: one per process; it knows when a run's log has grown and when runs can be claimed.

    bus ── hint ──┬──► every listener in this process
                  ├──► growth of logs, if the hint carries it ───┬──► every stream that waits for it
                  ├──► one read of all else that may have changed┘
    2 seconds ────┘
    a run is due ────► one read of the queue ──► the worker

A lost hint costs at most the rest of the two seconds. However many streams there are, one task reads. A tail may lag
behind its log and may begin anywhere, but its events are on disk, in order and without a gap.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, TypeAlias

from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import Instant, millis
from holdfast.engine.loops import WakeEvent
from holdfast.ports.bus import Bus, WakeHint, WakeListener
from holdfast.ports.log import EventLog, LogAppend, LoggedEvent, LogHead
from holdfast.ports.queue import Leases
from holdfast.ports.runtime import Clock

MAX_RECENT_TAILS: Final = 128
"""Runs of which the tail is kept although nobody watches: somebody may be about to."""
MAX_TAIL_BYTES: Final = 32 * 1024
"""Bytes of events that are kept of a run."""

RunRef: TypeAlias = tuple[SpaceId, RunId]


class Tail:
    """The end of one run's log."""

    __slots__ = ("_growths", "_size", "head")

    def __init__(self) -> None:
        self.head: LogHead | None = None
        """How far the log is; `None` if that must be read."""
        self._growths: deque[LogAppend] = deque()
        self._size = 0

    def update_head(self, head: LogHead | None) -> None:
        """Take note of what was read; `None` if the run is gone."""
        if head is None:
            self._drop_events()
        if head is None or self._is_newer(head):
            self.head = head

    def add_growth(self, growth: LogAppend) -> None:
        """Take note of what was told; hints of two writers may arrive in either order."""
        if not self._is_newer(growth.head):
            return
        self.head = growth.head
        if not growth.events:
            return
        if self._growths and growth.first != self._growths[-1].head.last_event_seq + 1:
            self._drop_events()
        self._growths.append(growth)
        self._size += growth.size
        while self._size > MAX_TAIL_BYTES:
            self._size -= self._growths.popleft().size

    def events_after(self, seq: int) -> list[LoggedEvent]:
        """Return the events that follow a number, as far as they are here; none if they must be read."""
        if not self._growths or seq + 1 < self._growths[0].first:
            return []
        return [event for growth in self._growths if growth.head.last_event_seq > seq for event in growth.after(seq)]

    def _drop_events(self) -> None:
        self._growths.clear()
        self._size = 0

    def _is_newer(self, head: LogHead) -> bool:
        known = self.head
        if known is None or head.last_event_seq > known.last_event_seq:
            return True
        return head.last_event_seq == known.last_event_seq and not known.status.terminal


class RecentTails:
    """The tails of runs that grew lately, and that nobody watches."""

    def __init__(self) -> None:
        self._tails: OrderedDict[RunRef, Tail] = OrderedDict()

    def add_growth(self, growth: LogAppend) -> None:
        """Add to the tail of a run, which is kept for a while."""
        name = growth.head.name
        tail = self._tails[name] = self.take(name)
        tail.add_growth(growth)
        if len(self._tails) > MAX_RECENT_TAILS:
            self._tails.popitem(last=False)

    def find(self, name: RunRef) -> Tail | None:
        """Return the tail of a run, if it was kept."""
        return self._tails.get(name)

    def take(self, name: RunRef) -> Tail:
        """Return the tail of a run, which is empty unless it was kept, and keep it no longer."""
        return self._tails.pop(name, None) or Tail()

    def forget(self, names: Iterable[RunRef]) -> None:
        """Forget runs to which something happened that was not told."""
        for name in names:
            self._tails.pop(name, None)

    def clear(self) -> None:
        """Forget all of them."""
        self._tails.clear()


WAKEUP_FALLBACK_SECONDS: Final = 2.0
"""Seconds that a lost hint may cost."""
MIN_QUEUE_POLL_SECONDS: Final = 0.02
"""Seconds between two looks at the queue, however many runs are put off."""
MAX_HEADS_BATCH: Final = 1000

_NEVER: Final = float("inf")


class RunWatch:
    """One run under observation, for as long as somebody is in a block with it."""

    def __init__(self, name: RunRef, events: EventLog, tail: Tail, *, forget: Callable[[RunRef], object]) -> None:
        """Watch a run; `forget` is called when nobody does any more."""
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
        """Wait until the log is longer than `seq` or the run has ended; `None` if the run is gone."""
        if self.tail.head is None:
            head = next(iter(await self._events.heads([self._name])), None)
            if head is not None:  # else the watcher may have seen one meanwhile
                self.update_head(head)
        while (known := self.tail.head) is not None and known.last_event_seq <= seq and not known.status.terminal:
            self._changed.clear()
            await self._changed.wait()
        return known

    def update_head(self, head: LogHead | None) -> None:
        """Take note of how far the run is."""
        before = _progress(self.tail.head)
        self.tail.update_head(head)
        self._notify_if_changed(before)

    def add_growth(self, growth: LogAppend) -> None:
        """Take note of what its log has grown by."""
        before = _progress(self.tail.head)
        self.tail.add_growth(growth)
        self._notify_if_changed(before)

    def _notify_if_changed(self, before: tuple[int, bool] | None) -> None:
        if _progress(self.tail.head) != before:
            self._changed.set()


def _progress(head: LogHead | None) -> tuple[int, bool] | None:
    """Return what those who wait for a run wait for."""
    return None if head is None else (head.last_event_seq, head.status.terminal)


class Watcher:
    """Watches runs and the queue for everybody in this process."""

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
        """Of those that are watched, the runs of which it was only hinted that they changed."""
        self._queue_changed = self._recheck_all = False
        """Whether it was hinted that a run was put off, or that anything may have changed."""
        # Times of the event loop: when to look at everything, when at the queue, and when it was looked at last.
        self._recheck_all_at = self._check_queue_at = self._queue_checked_at = -_NEVER

    def watch(self, space: SpaceId, run: RunId) -> RunWatch:
        """Keep an eye on a run while the block runs."""
        name = space, run
        watch = self._watches.get(name)
        if watch is None:
            tail = self._recent.take(name)
            watch = self._watches[name] = RunWatch(name, self._events, tail, forget=self._watches.pop)
        return watch

    def recent_events(self, space: SpaceId, run: RunId, seq: int) -> list[LoggedEvent]:
        """Return the events of a run that follow `seq` and need not be read; none if they must be."""
        watch = self._watches.get((space, run))
        tail = self._recent.find((space, run)) if watch is None else watch.tail
        return [] if tail is None else tail.events_after(seq)

    @contextmanager
    def listen(self, listener: WakeListener) -> Iterator[None]:
        """Call `hear` with each hint while the block runs, and with one about the queue when a run may be claimed."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    async def run(self) -> None:
        """Watch until cancelled; while the store does not answer, try again."""
        with self._bus.subscribe(self._on_wake):
            while True:
                try:
                    await self._check()
                except Unavailable:
                    self._recheck_all_at, self._check_queue_at = _loop_time() + self._fallback_seconds, _NEVER
                await self._wake.wait(seconds=max(min(self._recheck_all_at, self._check_queue_at) - _loop_time(), 0.0))

    def _on_wake(self, wake: WakeHint) -> None:
        """Pass on a hint, and take note of what it tells; ring for what is to be read because of it."""
        self._notify_listeners(wake)
        for growth in wake.grown:
            self._add_growth(growth)
        untold = wake.runs.difference([growth.head.name for growth in wake.grown])
        if untold:
            self._recent.forget(untold)
            self._unread_runs |= self._watches.keys() & untold
        self._queue_changed |= wake.delayed
        self._recheck_all |= wake.everything
        if self._unread_runs or self._queue_changed or self._recheck_all:
            self._wake.set()

    def _notify_listeners(self, wake: WakeHint) -> None:
        for hear in self._listeners:
            hear(wake)

    def _add_growth(self, growth: LogAppend) -> None:
        watch = self._watches.get(growth.head.name)
        if watch is not None:
            watch.add_growth(growth)
        else:
            self._recent.add_growth(growth)

    async def _check(self) -> None:
        """Read what hints did not tell, and when it is time, whatever they may have told that were lost."""
        everything = self._recheck_all or _loop_time() >= self._recheck_all_at
        names = list(self._watches if everything else self._watches.keys() & self._unread_runs)
        if everything:
            self._recent.clear()
        if self._queue_changed:
            self._check_queue_at = min(self._check_queue_at, self._queue_checked_at + MIN_QUEUE_POLL_SECONDS)
        self._unread_runs, self._queue_changed, self._recheck_all = (
            set(),
            False,
            False,
        )  # what comes from here on is for the next
        for start in range(0, len(names), MAX_HEADS_BATCH):
            await self._read_heads(names[start : start + MAX_HEADS_BATCH])
        if everything or _loop_time() >= self._check_queue_at:
            await self._check_queue()
        if everything:
            self._recheck_all_at = _loop_time() + self._fallback_seconds

    async def _read_heads(self, names: Iterable[RunRef]) -> None:
        known = {name: watch.tail.head for name in names if (watch := self._watches.get(name)) is not None}
        heads = {head.name: head for head in await self._events.heads(list(known))}
        for name, before in known.items():
            watch = self._watches.get(name)
            if watch is not None and (name in heads or watch.tail.head is before):  # else it was told meanwhile
                watch.update_head(heads.get(name))

    async def _check_queue(self) -> None:
        """Say that there is work, if there is, and look again when the next delayed run may be claimed."""
        state = await self._leases.queue_state()
        self._queue_checked_at = _loop_time()
        self._check_queue_at = self._queue_checked_at + max(self._seconds_until(state.next_at), MIN_QUEUE_POLL_SECONDS)
        if state.ready:
            self._notify_listeners(WakeHint(queue=True))

    def _seconds_until(self, at: Instant | None) -> float:
        return _NEVER if at is None else (millis(at) - self._clock.now()) / 1000


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
