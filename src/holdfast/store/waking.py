"""What a transaction will tell those who watch, once it has happened."""

from holdfast.domain.ids import RunId, SpaceId
from holdfast.ports.bus import Wake


class Waking:
    """Hints, gathered."""

    __slots__ = ("ended", "news", "queue", "runs", "timers")

    def __init__(self) -> None:
        self.runs: set[tuple[SpaceId, RunId]] = set()
        self.ended: set[tuple[SpaceId, RunId]] = set()
        self.queue = False
        self.news = False
        self.timers = False

    def add(
        self,
        *,
        run: tuple[SpaceId, RunId] | None = None,
        ended: tuple[SpaceId, RunId] | None = None,
        queue: bool = False,
        news: bool = False,
        timers: bool = False,
    ) -> None:
        """Remember one more."""
        if run is not None:
            self.runs.add(run)
        if ended is not None:
            self.ended.add(ended)
        self.queue = self.queue or queue
        self.news = self.news or news
        self.timers = self.timers or timers

    def merge(self, other: "Waking") -> None:
        """Remember what another has."""
        self.runs |= other.runs
        self.ended |= other.ended
        self.queue = self.queue or other.queue
        self.news = self.news or other.news
        self.timers = self.timers or other.timers

    def wake(self) -> Wake | None:
        """Return all of it as one hint."""
        if not (self.runs or self.ended or self.queue or self.news or self.timers):
            return None
        return Wake(
            runs=frozenset(self.runs),
            ended=frozenset(self.ended),
            queue=self.queue,
            news=self.news,
            timers=self.timers,
        )
