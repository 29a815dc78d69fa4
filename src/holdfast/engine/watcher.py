"""The one watcher of a process: it knows when a run's log has grown, and when there is work.

    bus ── hint ──┬──► everybody in this process who listens
                  ├──► what logs grew by, if the hint says it ───┬──► every stream that waits for it
                  ├──► one read of all else that may have changed┘
    2 seconds ────┘
    a run is due ────► one read of the queue ──► the worker

A hint that is lost costs the rest of the two seconds, nothing more. However many streams there are, one reads.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import Instant, millis
from holdfast.engine.tails import Name, Recent, Tail
from holdfast.ports.bus import Bus, Wake
from holdfast.ports.clock import Clock
from holdfast.ports.event_log import EventLog, Growth, Head, LoggedEvent
from holdfast.ports.leases import Leases

PATIENCE: Final = 2.0
"""Seconds that a lost hint may cost."""
QUEUE_GAP: Final = 0.02
"""Seconds between two looks at the queue, however many runs are put off."""
MOST_AT_ONCE: Final = 1000

Hear: TypeAlias = Callable[[Wake], None]

_NEVER: Final = float("inf")


class Watch:
    """One run under observation."""

    def __init__(self, name: Name, events: EventLog, tail: Tail) -> None:
        self._name = name
        self._events = events
        self.tail = tail
        self._moved = asyncio.Event()
        self.users = 0

    async def beyond(self, seq: int) -> Head | None:
        """Wait until the log is longer than `seq` or the run has ended; `None` if the run is gone."""
        if self.tail.head is None:
            head = next(iter(await self._events.heads([self._name])), None)
            if head is not None:  # else the watcher may have seen one meanwhile
                self.see(head)
        while (known := self.tail.head) is not None and known.last_event_seq <= seq and not known.status.terminal:
            self._moved.clear()
            await self._moved.wait()
        return known

    def fresh(self, seq: int) -> list[LoggedEvent]:
        """Return the events that follow `seq` and need not be read; none if they must be."""
        return self.tail.after(seq)

    def see(self, head: Head | None) -> None:
        """Take note of how far the run is."""
        before = _progress(self.tail.head)
        self.tail.see(head)
        self._stir(before)

    def grow(self, growth: Growth) -> None:
        """Take note of what its log has grown by."""
        before = _progress(self.tail.head)
        self.tail.grow(growth)
        self._stir(before)

    def _stir(self, before: tuple[int, bool] | None) -> None:
        if _progress(self.tail.head) != before:
            self._moved.set()


def _progress(head: Head | None) -> tuple[int, bool] | None:
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
        self._listeners: list[Hear] = []
        # Times of the event loop: when to look at everything, when at the queue, and when it was looked at last.
        self._all_at = self._queue_at = self._queue_seen = -_NEVER

    @contextmanager
    def watch(self, space: SpaceId, run: RunId) -> Iterator[Watch]:
        """Keep an eye on a run while the block runs."""
        name = space, run
        if name not in self._watches:
            self._watches[name] = Watch(name, self._events, self._recent.take(name))
        watch = self._watches[name]
        watch.users += 1
        try:
            yield watch
        finally:
            watch.users -= 1
            if watch.users == 0:
                del self._watches[name]

    @contextmanager
    def listen(self, hear: Hear) -> Iterator[None]:
        """Call `hear` with each hint while the block runs, and with one about the queue when a run may be claimed."""
        self._listeners.append(hear)
        try:
            yield
        finally:
            self._listeners.remove(hear)

    async def run(self) -> None:
        """Watch until cancelled; while the store does not answer, try again."""
        async with self._bus.subscribe() as hints:
            while True:
                wake = await self._next(hints)
                try:
                    await self._look(wake)
                except Unavailable:
                    self._all_at, self._queue_at = _now() + self._patience, _NEVER

    async def _next(self, hints: AsyncIterator[Wake]) -> Wake:
        """Return the next hint, or what stands for those that were lost when it is time to look."""
        if _now() >= self._all_at:  # also while hints about other things keep coming
            return Wake(everything=True)
        try:
            async with asyncio.timeout_at(min(self._all_at, self._queue_at)):
                wake = await anext(hints)
        except TimeoutError:
            return Wake()
        self._tell(wake)
        if wake.delayed:
            self._queue_at = min(self._queue_at, self._queue_seen + QUEUE_GAP)
        return wake

    def _tell(self, wake: Wake) -> None:
        for hear in self._listeners:
            hear(wake)

    async def _look(self, wake: Wake) -> None:
        self._grow(wake)
        untold = wake.runs.difference(growth.head.name for growth in wake.grown)
        self._recent.forget(untold)
        if wake.everything:
            self._recent.clear()
        names = list(self._watches if wake.everything else self._watches.keys() & untold)
        for start in range(0, len(names), MOST_AT_ONCE):
            await self._read(names[start : start + MOST_AT_ONCE])
        if wake.everything or _now() >= self._queue_at:
            await self._look_at_queue()
        if wake.everything:
            self._all_at = _now() + self._patience

    def _grow(self, wake: Wake) -> None:
        for growth in wake.grown:
            watch = self._watches.get(growth.head.name)
            if watch is not None:
                watch.grow(growth)
            else:
                self._recent.grow(growth)

    async def _read(self, names: Iterable[Name]) -> None:
        known = {name: self._watches[name].tail.head for name in names}
        heads = {head.name: head for head in await self._events.heads(list(names))}
        for name in names:
            watch = self._watches.get(name)
            if watch is not None and (name in heads or watch.tail.head is known[name]):  # else it was told meanwhile
                watch.see(heads.get(name))

    async def _look_at_queue(self) -> None:
        """Say that there is work, if there is, and look again when the next delayed run may be claimed."""
        state = await self._leases.queue()
        self._queue_seen = _now()
        self._queue_at = self._queue_seen + max(self._until(state.next_at), QUEUE_GAP)
        if state.ready:
            self._tell(Wake(queue=True))

    def _until(self, at: Instant | None) -> float:
        return _NEVER if at is None else (millis(at) - self._clock.now()) / 1000


def _now() -> float:
    return asyncio.get_running_loop().time()
