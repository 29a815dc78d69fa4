"""What a transaction will tell those who watch, once it has happened."""

from typing import Final

from msgspec.structs import replace

from holdfast.domain.ids import RunId, SpaceId
from holdfast.ports.bus import MOST_GROWN, Wake
from holdfast.ports.event_log import Growth

LARGE: Final = 32 * 1024
"""Bytes past which what a log grew by must be read, and only how far it is is told."""


class Waking:
    """Hints, gathered."""

    __slots__ = ("delayed", "emptied", "ended", "grown", "news", "queue", "runs", "timers")

    def __init__(self) -> None:
        self.runs: set[tuple[SpaceId, RunId]] = set()
        self.ended: set[tuple[SpaceId, RunId]] = set()
        self.grown: list[Growth] = []
        self.queue = False
        self.emptied = False
        self.delayed = False
        self.news = False
        self.timers = False

    def add(
        self,
        *,
        run: tuple[SpaceId, RunId] | None = None,
        ended: tuple[SpaceId, RunId] | None = None,
        grown: Growth | None = None,
        queue: bool = False,
        emptied: bool = False,
        delayed: bool = False,
        news: bool = False,
        timers: bool = False,
    ) -> None:
        """Remember one more."""
        if run is not None:
            self.runs.add(run)
        if grown is not None:
            self.runs.add(grown.head.name)
            self.grown.append(grown if grown.size <= LARGE else replace(grown, events=()))
        if ended is not None:
            self.ended.add(ended)
        self.queue = queue or (self.queue and not emptied)
        self.emptied = self.emptied or emptied
        self.delayed = self.delayed or delayed
        self.news = self.news or news
        self.timers = self.timers or timers

    def merge(self, other: "Waking") -> None:
        """Remember what another has that comes after this."""
        self.runs |= other.runs
        self.ended |= other.ended
        self.grown += other.grown
        self.queue = other.queue or (self.queue and not other.emptied)
        self.delayed = self.delayed or other.delayed
        self.news = self.news or other.news
        self.timers = self.timers or other.timers

    def wake(self) -> Wake | None:
        """Return all of it as one hint."""
        if not (self.runs or self.ended or self.queue or self.delayed or self.news or self.timers):
            return None
        return Wake(
            runs=frozenset(self.runs),
            ended=frozenset(self.ended),
            grown=tuple(self.grown[-MOST_GROWN:]),
            queue=self.queue,
            delayed=self.delayed,
            news=self.news,
            timers=self.timers,
        )
