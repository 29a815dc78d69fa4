"""The event log: what every stream is read from."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import Instant, Millis, instant
from holdfast.domain.run import Run, RunStatus


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event as it is kept: `data` is its JSON, byte for byte what was first sent."""

    seq: int
    type: str
    data: bytes
    created_at: Instant


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run's log is."""

    space_id: SpaceId
    run_id: RunId
    status: RunStatus
    last_event_seq: int

    @property
    def name(self) -> tuple[SpaceId, RunId]:
        """Whose log it is."""
        return self.space_id, self.run_id


def head_of(run: Run) -> Head:
    """Return how far the log of a run is that was just read or made."""
    return Head(space_id=run.space_id, run_id=run.id, status=run.status, last_event_seq=run.last_event_seq)


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """What a run's log has grown by, and is on disk: whoever has it need not read it."""

    head: Head
    """How far the log is with it."""
    events: Sequence[tuple[str, str]] = ()
    """Type and JSON of each, in order; none if only the status changed."""
    at: Millis

    @property
    def first(self) -> int:
        """The number of the first event."""
        return self.head.last_event_seq - len(self.events) + 1

    @property
    def size(self) -> int:
        """How long the JSON is."""
        return sum([len(data) for _, data in self.events])

    def after(self, seq: int) -> list[LoggedEvent]:
        """Return the events above a number."""
        at, first = instant(self.at), self.first
        skipped = max(seq + 1 - first, 0)
        return [
            LoggedEvent(seq=number, type=type_, data=data.encode(), created_at=at)
            for number, (type_, data) in enumerate(self.events[skipped:], start=first + skipped)
        ]


class EventLog(Protocol):
    """The numbered facts of a run."""

    async def after(
        self,
        space: SpaceId,
        run: RunId,
        *,
        seq: int = 0,
        limit: int = 1000,
        types: Sequence[str] | None = None,
    ) -> list[LoggedEvent]:
        """Return up to `limit` events of `run` with a number above `seq`, in order; only those of `types`, if given."""

    async def heads(self, runs: Sequence[tuple[SpaceId, RunId]]) -> list[Head]:
        """Return how far each of `runs` is, in one query; a run that is gone is left out."""
