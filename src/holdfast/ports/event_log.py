"""The event log: what every stream is read from."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.run import RunStatus


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
