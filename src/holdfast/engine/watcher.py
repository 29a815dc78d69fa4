"""The one watcher of a process: it knows when a run's log has grown, and when there is work.

    bus ── hint ──┐
                  ├──► one read of all that may have changed ──► every stream that waits for it
    2 seconds ────┘

A hint that is lost costs the rest of the two seconds, nothing more. However many streams there are, one reads.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import RunId, SpaceId
from holdfast.ports.bus import Bus, Wake
from holdfast.ports.event_log import EventLog, Head
from holdfast.ports.leases import Leases

PATIENCE: Final = 2.0
"""Seconds that a lost hint may cost."""
MOST_AT_ONCE: Final = 1000

Name: TypeAlias = tuple[SpaceId, RunId]


class Watch:
    """One run under observation."""

    def __init__(self, name: Name, events: EventLog) -> None:
        self._name = name
        self._events = events
        self._head: Head | None = None
        self._moved = asyncio.Event()
        self.users = 0

    async def beyond(self, seq: int) -> Head | None:
        """Wait until the log is longer than `seq` or the run has ended; `None` if the run is gone."""
        if self._head is None:
            self.see(next(iter(await self._events.heads([self._name])), None))
        while self._head is not None and self._head.last_event_seq <= seq and not self._head.status.terminal:
            self._moved.clear()
            await self._moved.wait()
        return self._head

    def see(self, head: Head | None) -> None:
        """Take note of how far the run is."""
        if head != self._head:
            self._head = head
            self._moved.set()


class Watcher:
    """Watches runs and the queue for everybody in this process."""

    def __init__(self, *, bus: Bus, events: EventLog, leases: Leases, patience: float = PATIENCE) -> None:
        self._bus = bus
        self._events = events
        self._leases = leases
        self._patience = patience
        self._watches: dict[Name, Watch] = {}
        self._work = asyncio.Event()

    @contextmanager
    def watch(self, space: SpaceId, run: RunId) -> Iterator[Watch]:
        """Keep an eye on a run while the block runs."""
        watch = self._watches.setdefault((space, run), Watch((space, run), self._events))
        watch.users += 1
        try:
            yield watch
        finally:
            watch.users -= 1
            if watch.users == 0:
                del self._watches[space, run]

    async def work(self) -> None:
        """Wait until a run may be claimed."""
        await self._work.wait()
        self._work.clear()

    async def run(self) -> None:
        """Watch until cancelled; while the store does not answer, try again."""
        async with self._bus.subscribe() as hints:
            while True:
                wake = await self._next(hints)
                try:
                    await self._look(wake)
                except Unavailable:
                    await asyncio.sleep(self._patience)

    async def _next(self, hints: AsyncIterator[Wake]) -> Wake:
        try:
            async with asyncio.timeout(self._patience):
                return await anext(hints)
        except TimeoutError:
            return Wake(everything=True)

    async def _look(self, wake: Wake) -> None:
        names = list(self._watches if wake.everything else self._watches.keys() & wake.runs)
        for start in range(0, len(names), MOST_AT_ONCE):
            await self._read(names[start : start + MOST_AT_ONCE])
        if wake.queue or (wake.everything and (await self._leases.queue()).ready):
            self._work.set()

    async def _read(self, names: Iterable[Name]) -> None:
        heads = {(head.space_id, head.run_id): head for head in await self._events.heads(list(names))}
        for name in names:
            if name in self._watches:
                self._watches[name].see(heads.get(name))
