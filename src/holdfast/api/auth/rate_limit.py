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
    """Counts requests over a window that moves along, in a few numbers for each who asks."""

    def __init__(self, default: str | None = None) -> None:
        """Allow so many requests to those whose key does not say how many."""
        self._default = None if default is None else check_rate_limit(default)
        self._limiter: RateLimiter | None = None
        self._items: dict[str, RateLimitItem] = {}

    async def hit(self, principal: Principal) -> None:
        """Count a request; raise `RateLimited` if it is one too many. Who needs no key is not counted."""
        rate = principal.rate_limit or self._default
        if rate is None or principal.name is None:
            return
        if self._limiter is None:
            self._limiter = await asyncio.to_thread(_new_limiter)  # what it imports takes a while
        item = self._item(rate)
        if not self._limiter.hit(item, principal.name):
            frees = self._limiter.get_window_stats(item, principal.name).reset_time
            seconds = max(1, math.ceil(frees - datetime.now(UTC).timestamp()))
            asked = rate.replace("/", " requests in a ")
            raise RateLimited(f"this key may make {asked}: wait {seconds} s", retry_after=seconds)

    def _item(self, rate: str) -> "RateLimitItem":
        if rate not in self._items:
            from limits import parse

            self._items[rate] = parse(rate)
        return self._items[rate]


def _new_limiter() -> "RateLimiter":
    from limits.storage import MemoryStorage
    from limits.strategies import SlidingWindowCounterRateLimiter

    return SlidingWindowCounterRateLimiter(MemoryStorage())
