"""How many runs there are that have not ended, for those who watch over a system."""

from typing import Protocol

import msgspec

from holdfast.domain.ids import SpaceId


class LiveRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of all spaces that have not ended, by where they stand."""

    pending: int
    ready: int
    """Queued, and may be claimed now."""
    delayed: int
    """Queued, and may be claimed later."""
    running: int
    waiting: int
    longest_wait: float
    """Seconds since the one of those that are ready was queued which has been in the queue for longest, else 0."""


class Census(Protocol):
    """Counts runs."""

    async def live(self) -> LiveRuns:
        """Count the runs that have not ended. What it costs does not depend on how many have."""

    async def queued(self, space: SpaceId) -> int:
        """Count the runs of a space that wait for a worker, or for the run before them."""
