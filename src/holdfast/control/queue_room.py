"""How many runs of a space may wait at once."""

from typing import Final

from holdfast.control.keys.errors import QueueFull
from holdfast.domain.ids import SpaceId
from holdfast.ports.queue import RunCounts

COME_BACK: Final = 5
"""Seconds after which somebody may try again."""


class QueueRoom:
    """Whether one more may. Who asks at the same moment is not counted, so it may be a few more."""

    def __init__(self, census: RunCounts, *, most: int) -> None:
        self._census = census
        self._most = most

    async def check(self, space: SpaceId) -> None:
        """Raise `QueueFull` unless there is room for one more run of a space."""
        if await self._census.queued(space) >= self._most:
            raise QueueFull(
                f"{self._most} runs of the space wait already: try again in {COME_BACK} s",
                limit=self._most,
                retry_after=COME_BACK,
            )
