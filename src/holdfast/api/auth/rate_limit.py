"""Rate limits per principal. Each process counts for itself and starts from zero."""

import asyncio
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.control.errors import RateLimited
from holdfast.control.principal import Principal
from holdfast.domain.space import check_rate_limit

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.strategies import RateLimiter


class RequestRateLimiter:
    """Counts the requests of each principal in a sliding window."""

    def __init__(self, default: str | None = None) -> None:
        """Apply `default` to principals without a rate limit of their own."""
        self._default = None if default is None else check_rate_limit(default)
        self._limiter: RateLimiter | None = None
        self._items: dict[str, RateLimitItem] = {}

    async def hit(self, principal: Principal) -> None:
        """Count a request; raise `RateLimited` above the limit. The local principal is not counted."""
        rate = principal.rate_limit or self._default
        if rate is None or principal.name is None:
            return
        if self._limiter is None:
            self._limiter = await asyncio.to_thread(_new_limiter)  # its imports are slow
        if rate not in self._items:
            from limits import parse

            self._items[rate] = parse(rate)
        item = self._items[rate]
        if not self._limiter.hit(item, principal.name):
            reset_time = self._limiter.get_window_stats(item, principal.name).reset_time
            seconds = max(1, math.ceil(reset_time - datetime.now(UTC).timestamp()))
            allowed = rate.replace("/", " requests per ")
            raise RateLimited(f"this key may send {allowed}: wait {seconds} s", retry_after=seconds)


def _new_limiter() -> "RateLimiter":
    from limits.storage import MemoryStorage
    from limits.strategies import SlidingWindowCounterRateLimiter

    return SlidingWindowCounterRateLimiter(MemoryStorage())
