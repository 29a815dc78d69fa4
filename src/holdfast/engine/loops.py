"""Building blocks of the background loops: `WakeEvent`, and retry with backoff while the store is unavailable."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from holdfast.domain.errors import HoldfastError, Unavailable


class WakeEvent:
    """An event that wakes one waiting task; sets between two waits count as one."""

    def __init__(self, *, min_interval: float = 0.0) -> None:
        """Create an event that wakes its task at most every `min_interval` seconds; the first time at once."""
        self._min_interval = min_interval
        self._event = asyncio.Event()
        self._last_wake = float("-inf")

    def set(self) -> None:
        """Wake the waiting task."""
        self._event.set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until the event is set, at most for `seconds`; return whether it was set."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        if self._min_interval:
            loop = asyncio.get_running_loop()
            if (early := self._last_wake + self._min_interval - loop.time()) > 0:
                await asyncio.sleep(early)
            self._last_wake = loop.time()
        self._event.clear()
        return True


FIRST_RETRY_SECONDS: Final = 0.05
MAX_RETRY_SECONDS: Final = 2.0

_log = logging.getLogger("holdfast.engine")


class StoreOutage:
    """Counts the consecutive store failures of one loop, for backoff and logging."""

    def __init__(self, operation: str) -> None:
        """Start without failures; `operation` names the loop's work in the log."""
        self._operation = operation
        self._failures = 0

    def next_delay(self, error: Exception) -> float:
        """Record a failure, and return the seconds to wait before the next attempt; only the first is logged."""
        if self._failures == 0:
            if isinstance(error, Unavailable | TimeoutError):
                reason = str(error) or "timeout"
                _log.warning("%s: the store does not respond, retrying: %s", self._operation, reason)
            else:
                _log.error("%s: failed, retrying", self._operation, exc_info=error)
        self._failures += 1
        return min(FIRST_RETRY_SECONDS * (1 << min(self._failures - 1, 16)), MAX_RETRY_SECONDS)

    def note_recovered(self) -> None:
        """Record a success, which resets the backoff."""
        if self._failures:
            _log.info("%s: recovered", self._operation)
        self._failures = 0


async def run_forever(operation: str, do: Callable[[], Awaitable[None]]) -> NoReturn:
    """Repeat `do` until cancelled; after an error, retry with backoff."""
    outage = StoreOutage(operation)
    while True:
        try:
            await do()
        except HoldfastError as exc:
            await asyncio.sleep(outage.next_delay(exc))
        else:
            outage.note_recovered()


async def run_every(operation: str, do: Callable[[], Awaitable[object]], *, seconds: float) -> NoReturn:
    """Call `do` every `seconds` until cancelled; after an error, retry with backoff."""

    async def once() -> None:
        await do()
        await asyncio.sleep(seconds)

    await run_forever(operation, once)
