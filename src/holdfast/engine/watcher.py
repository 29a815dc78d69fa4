"""The one watcher of a process: it knows when a run's log has grown, and when there is work.

    bus ── hint ──┬──► everybody in this process who listens
                  ├──► what logs grew by, if the hint says it ───┬──► every stream that waits for it
                  ├──► one read of all else that may have changed┘
    2 seconds ────┘
    a run is due ────► one read of the queue ──► the worker

A hint that is lost costs the rest of the two seconds, nothing more. However many streams there are, one reads.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import Instant, millis
from holdfast.engine.bell import Bell
from holdfast.engine.tails import Name, Recent, Tail
from holdfast.ports.bus import Bus, WakeHint, WakeListener
from holdfast.ports.log import EventLog, LogAppend, LoggedEvent, LogHead
from holdfast.ports.queue import Leases
from holdfast.ports.runtime import Clock

PATIENCE: Final = 2.0
"""Seconds that a lost hint may cost."""
QUEUE_GAP: Final = 0.02
"""Seconds between two looks at the queue, however many runs are put off."""
MOST_AT_ONCE: Final = 1000

_NEVER: Final = float("inf")


class Watch:
    """One run under observation, for as long as somebody is in a block with it."""

    def __init__(self, name: Name, events: EventLog, tail: Tail, *, forget: Callable[[Name], object]) -> None:
        """Watch a run; `forget` is called when nobody does any more."""
        self._name = name
        self._events = events
        self.tail = tail
        self._forget = forget
        self._moved = asyncio.Event()
        self._users = 0

    def __enter__(self) -> "Watch":
        self._users += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._users -= 1
        if not self._users:
            self._forget(self._name)

    async def beyond(self, seq: int) -> LogHead | None:
        """Wait until the log is longer than `seq` or the run has ended; `None` if the run is gone."""
        if self.tail.head is None:
            head = next(iter(await self._events.heads([self._name])), None)
            if head is not None:  # else the watcher may have seen one meanwhile
                self.see(head)
        while (known := self.tail.head) is not None and known.last_event_seq <= seq and not known.status.terminal:
            self._moved.clear()
            await self._moved.wait()
        return known

    def see(self, head: LogHead | None) -> None:
        """Take note of how far the run is."""
        before = _progress(self.tail.head)
        self.tail.see(head)
        self._stir(before)

    def grow(self, growth: LogAppend) -> None:
        """Take note of what its log has grown by."""
        before = _progress(self.tail.head)
        self.tail.grow(growth)
        self._stir(before)

    def _stir(self, before: tuple[int, bool] | None) -> None:
        if _progress(self.tail.head) != before:
            self._moved.set()


def _progress(head: LogHead | None) -> tuple[int, bool] | None:
    """Return what those who wait for a run wait for."""
    return None if head is None else (head.last_event_seq, head.status.terminal)


class Watcher:
    """Watches runs and the queue for everybody in this process."""

    def __init__(self, *, bus: Bus, events: EventLog, leases: Leases, clock: Clock, patience: float = PATIENCE) -> None:
        self._bus = bus
        self._events = events
        self._leases = leases
        self._clock = clock
        self._patience = patience
        self._watches: dict[Name, Watch] = {}
        self._recent = Recent()
        self._listeners: list[WakeListener] = []
        self._bell = Bell()
        self._unread: set[Name] = set()
        """Of those that are watched, the runs of which it was only hinted that they changed."""
        self._delayed = self._everything = False
        """Whether it was hinted that a run was put off, or that anything may have changed."""
        # Times of the event loop: when to look at everything, when at the queue, and when it was looked at last.
        self._all_at = self._queue_at = self._queue_seen = -_NEVER

    def watch(self, space: SpaceId, run: RunId) -> Watch:
        """Keep an eye on a run while the block runs."""
        name = space, run
        watch = self._watches.get(name)
        if watch is None:
            tail = self._recent.take(name)
            watch = self._watches[name] = Watch(name, self._events, tail, forget=self._watches.pop)
        return watch

    def fresh(self, space: SpaceId, run: RunId, seq: int) -> list[LoggedEvent]:
        """Return the events of a run that follow `seq` and need not be read; none if they must be."""
        watch = self._watches.get((space, run))
        tail = self._recent.find((space, run)) if watch is None else watch.tail
        return [] if tail is None else tail.after(seq)

    @contextmanager
    def listen(self, hear: WakeListener) -> Iterator[None]:
        """Call `hear` with each hint while the block runs, and with one about the queue when a run may be claimed."""
        self._listeners.append(hear)
        try:
            yield
        finally:
            self._listeners.remove(hear)

    async def run(self) -> None:
        """Watch until cancelled; while the store does not answer, try again."""
        with self._bus.subscribe(self._hear):
            while True:
                try:
                    await self._look()
                except Unavailable:
                    self._all_at, self._queue_at = _now() + self._patience, _NEVER
                await self._bell.wait(within=max(min(self._all_at, self._queue_at) - _now(), 0.0))

    def _hear(self, wake: WakeHint) -> None:
        """Pass on a hint, and take note of what it tells; ring for what is to be read because of it."""
        self._tell(wake)
        for growth in wake.grown:
            self._grow(growth)
        untold = wake.runs.difference([growth.head.name for growth in wake.grown])
        if untold:
            self._recent.forget(untold)
            self._unread |= self._watches.keys() & untold
        self._delayed |= wake.delayed
        self._everything |= wake.everything
        if self._unread or self._delayed or self._everything:
            self._bell.ring()

    def _tell(self, wake: WakeHint) -> None:
        for hear in self._listeners:
            hear(wake)

    def _grow(self, growth: LogAppend) -> None:
        watch = self._watches.get(growth.head.name)
        if watch is not None:
            watch.grow(growth)
        else:
            self._recent.grow(growth)

    async def _look(self) -> None:
        """Read what hints did not tell, and when it is time, whatever they may have told that were lost."""
        everything = self._everything or _now() >= self._all_at
        names = list(self._watches if everything else self._watches.keys() & self._unread)
        if everything:
            self._recent.clear()
        if self._delayed:
            self._queue_at = min(self._queue_at, self._queue_seen + QUEUE_GAP)
        self._unread, self._delayed, self._everything = set(), False, False  # what comes from here on is for the next
        for start in range(0, len(names), MOST_AT_ONCE):
            await self._read(names[start : start + MOST_AT_ONCE])
        if everything or _now() >= self._queue_at:
            await self._look_at_queue()
        if everything:
            self._all_at = _now() + self._patience

    async def _read(self, names: Iterable[Name]) -> None:
        known = {name: watch.tail.head for name in names if (watch := self._watches.get(name)) is not None}
        heads = {head.name: head for head in await self._events.heads(list(known))}
        for name, before in known.items():
            watch = self._watches.get(name)
            if watch is not None and (name in heads or watch.tail.head is before):  # else it was told meanwhile
                watch.see(heads.get(name))

    async def _look_at_queue(self) -> None:
        """Say that there is work, if there is, and look again when the next delayed run may be claimed."""
        state = await self._leases.queue()
        self._queue_seen = _now()
        self._queue_at = self._queue_seen + max(self._until(state.next_at), QUEUE_GAP)
        if state.ready:
            self._tell(WakeHint(queue=True))

    def _until(self, at: Instant | None) -> float:
        return _NEVER if at is None else (millis(at) - self._clock.now()) / 1000


def _now() -> float:
    return asyncio.get_running_loop().time()
