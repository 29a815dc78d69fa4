"""Building blocks of the background loops: `WakeEvent`, and retry with backoff while the store is unavailable."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from holdfast.domain.errors import HoldfastError, Unavailable


class WakeEvent:
    """Rings for one sleeper. What rings while the sleeper is awake is heard as one ring when it sleeps again."""

    def __init__(self, *, gap: float = 0.0) -> None:
        """Make a bell that is heard at most every `gap` seconds; the first ring is heard at once."""
        self._gap = gap
        self._rung = asyncio.Event()
        self._heard = float("-inf")

    def ring(self) -> None:
        """Wake the sleeper."""
        self._rung.set()

    async def wait(self, within: float | None = None) -> bool:
        """Sleep until it rings, or for `within` seconds at most; return whether it rang."""
        if within is None:
            await self._rung.wait()
        elif not await self._rings(within):
            return False
        if self._gap:
            await self._keep_gap()
        self._rung.clear()
        return True

    async def _keep_gap(self) -> None:
        loop = asyncio.get_running_loop()
        if (early := self._heard + self._gap - loop.time()) > 0:
            await asyncio.sleep(early)
        self._heard = loop.time()

    async def _rings(self, within: float) -> bool:
        try:
            async with asyncio.timeout(within):
                return await self._rung.wait()
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

    def pause(self, error: Exception) -> float:
        """Take note of a failure, and return how many seconds to wait before the next try."""
        if self._failures == 0:
            self._say(error)
        self._failures += 1
        return min(FIRST_RETRY_SECONDS * (1 << min(self._failures - 1, 16)), MAX_RETRY_SECONDS)

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


async def run_forever(doing: str, do: Callable[[], Awaitable[None]]) -> NoReturn:
    """Do it again and again until cancelled, whatever the store says."""
    outage = StoreOutage(doing)
    while True:
        try:
            await do()
        except HoldfastError as exc:
            await asyncio.sleep(outage.pause(exc))
        else:
            outage.over()
