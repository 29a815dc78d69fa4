"""What a transaction will tell those who watch, once it has happened."""

from holdfast.domain.ids import RunId, SpaceId
from holdfast.ports.bus import Wake


class Waking:
    """Hints, gathered."""

    __slots__ = ("news", "queue", "runs")

    def __init__(self) -> None:
        self.runs: set[tuple[SpaceId, RunId]] = set()
        self.queue = False
        self.news = False

    def add(self, *, run: tuple[SpaceId, RunId] | None, queue: bool, news: bool) -> None:
        """Remember one more."""
        if run is not None:
            self.runs.add(run)
        self.queue = self.queue or queue
        self.news = self.news or news

    def merge(self, other: "Waking") -> None:
        """Remember what another has."""
        self.runs |= other.runs
        self.queue = self.queue or other.queue
        self.news = self.news or other.news

    def wake(self) -> Wake | None:
        """Return all of it as one hint."""
        if not (self.runs or self.queue or self.news):
            return None
        return Wake(runs=frozenset(self.runs), queue=self.queue, news=self.news)
