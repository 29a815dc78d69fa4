"""How a loop bears that the store does not answer: it says so once, and waits longer each time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from holdfast.domain.errors import HoldfastError, Unavailable

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0
"""Seconds."""

_log = logging.getLogger(__name__)


class Outage:
    """What one loop knows of the store: whether it answered the last time, and how often it has not."""

    def __init__(self, doing: str) -> None:
        """Begin with a store that answers; `doing` says in the log what could not be done."""
        self._doing = doing
        self._failures = 0

    def pause(self, error: Exception) -> float:
        """Take note of a failure, and return how many seconds to wait before the next try."""
        if self._failures == 0:
            self._say(error)
        self._failures += 1
        return min(FIRST_PAUSE * (1 << min(self._failures - 1, 16)), LONGEST_PAUSE)

    def over(self) -> None:
        """Take note that the store answers."""
        if self._failures:
            _log.info("%s: it works again", self._doing)
        self._failures = 0

    def _say(self, error: Exception) -> None:
        if isinstance(error, Unavailable | TimeoutError):
            _log.warning("%s: the store does not answer, trying on: %s", self._doing, str(error) or "no answer in time")
        else:
            _log.error("%s: this failed, trying on", self._doing, exc_info=error)


async def keep_on(doing: str, do: Callable[[], Awaitable[None]]) -> NoReturn:
    """Do it again and again until cancelled, whatever the store says."""
    outage = Outage(doing)
    while True:
        try:
            await do()
        except HoldfastError as exc:
            await asyncio.sleep(outage.pause(exc))
        else:
            outage.over()
