"""Subscriptions: runs that are told when others end."""

from typing import Protocol

from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.run import Run


class Subscriptions(Protocol):
    """Who wants to be told of whose end."""

    async def add(self, space: SpaceId, run: RunId, *, target: RunId, waits: str | None = None) -> Run:
        """Have `run` told, once, when `target` ends, and return `target` as it is now.

        Of one that has ended nothing is told. A step that `waits` for it gives its key, and what comes then has that
        key; for each key it comes once, however often it was asked for. A target that could only end after `run` cannot
        be waited for (`WouldDeadlock`). A `run` that has ended is refused (`Conflict`).
        """
