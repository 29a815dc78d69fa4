"""Building blocks of the background loops: `WakeEvent`, and retry with backoff while the store is unavailable."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from holdfast.domain.errors import HoldfastError, Unavailable


class WakeEvent:
    """Rings for one sleeper. What rings while the sleeper is awake is heard as one ring when it sleeps again."""

    def __init__(self, *, min_interval: float = 0.0) -> None:
        """Make a bell that is heard at most every `gap` seconds; the first ring is heard at once."""
        self._min_interval = min_interval
        self._event = asyncio.Event()
        self._last_wake = float("-inf")

    def set(self) -> None:
        """Wake the sleeper."""
        self._event.set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Sleep until it rings, or for `seconds` at most; return whether it rang."""
        if seconds is None:
            await self._event.wait()
        elif not await self._wait_until_set(seconds):
            return False
        if self._min_interval:
            await self._wait_min_interval()
        self._event.clear()
        return True

    async def _wait_min_interval(self) -> None:
        loop = asyncio.get_running_loop()
        if (early := self._last_wake + self._min_interval - loop.time()) > 0:
            await asyncio.sleep(early)
        self._last_wake = loop.time()

    async def _wait_until_set(self, within: float) -> bool:
        try:
            async with asyncio.timeout(within):
                return await self._event.wait()
        except TimeoutError:
            return False


FIRST_RETRY_SECONDS: Final = 0.05
MAX_RETRY_SECONDS: Final = 2.0
"""Seconds."""

_log = logging.getLogger("holdfast.engine")


class StoreOutage:
    """What one loop knows of the store: whether it answered the last time, and how often it has not."""

    def __init__(self, doing: str) -> None:
        """Begin with a store that answers; `doing` says in the log what could not be done."""
        self._doing = doing
        self._failures = 0

    def next_delay(self, error: Exception) -> float:
        """Take note of a failure, and return how many seconds to wait before the next try."""
        if self._failures == 0:
            self._log_failure(error)
        self._failures += 1
        return min(FIRST_RETRY_SECONDS * (1 << min(self._failures - 1, 16)), MAX_RETRY_SECONDS)

    def note_recovered(self) -> None:
        """Take note that the store answers."""
        if self._failures:
            _log.info("%s: it works again", self._doing)
        self._failures = 0

    def _log_failure(self, error: Exception) -> None:
        if isinstance(error, Unavailable | TimeoutError):
            _log.warning("%s: the store does not answer, trying on: %s", self._doing, str(error) or "no answer in time")
        else:
            _log.error("%s: this failed, trying on", self._doing, exc_info=error)


async def run_forever(doing: str, do: Callable[[], Awaitable[None]]) -> NoReturn:
    """Do it again and again until cancelled, whatever the store says."""
    outage = StoreOutage(doing)
    while True:
        try:
            await do()
        except HoldfastError as exc:
            await asyncio.sleep(outage.next_delay(exc))
        else:
            outage.note_recovered()
