"""A moment in UTC, as it is stored and as it is sent.

Databases keep milliseconds since 1970; people and programs outside read `2026-01-31T12:00:00.000Z`. Such strings
order like the moments they name.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NewType

Instant = NewType("Instant", str)
Millis = NewType("Millis", int)


def instant(at: Millis) -> Instant:
    """Write `at` for the outside."""
    seconds, millis = divmod(at, 1000)
    return Instant(f"{_second(seconds)}.{millis:03d}Z")


def maybe_instant(at: Millis | None) -> Instant | None:
    """Write `at` for the outside, where there is one."""
    return None if at is None else instant(at)


def millis(at: Instant) -> Millis:
    """Read what `instant` wrote."""
    moment = datetime.fromisoformat(at)
    if moment.tzinfo is None:
        raise ValueError(f"`{at}` has no time zone: end it with `Z`")
    return Millis((moment - _EPOCH) // timedelta(milliseconds=1))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
