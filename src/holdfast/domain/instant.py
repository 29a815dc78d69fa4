"""A moment in UTC, as it is stored and as it is sent.

Databases keep milliseconds since 1970; people and programs outside read `2026-01-31T12:00:00.000Z`. Such strings
order like the moments they name.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NewType

from holdfast.domain.errors import Invalid

Instant = NewType("Instant", str)
Millis = NewType("Millis", int)


@lru_cache(maxsize=256)  # what happens together is written down with one moment, many times
def instant(at: Millis) -> Instant:
    """Write `at` for the outside."""
    seconds, millis = divmod(at, 1000)
    return Instant(f"{_second(seconds)}.{millis:03d}Z")


def maybe_instant(at: Millis | None) -> Instant | None:
    """Write `at` for the outside, where there is one."""
    return None if at is None else instant(at)


def millis(at: Instant) -> Millis:
    """Read what `instant` wrote, or the same moment in another time zone."""
    try:
        moment = datetime.fromisoformat(at)
        in_utc = None if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise Invalid(f"`{at}` is not a time like `2026-01-31T12:00:00.000Z`") from exc
    if in_utc is None:
        raise Invalid(f"`{at}` is not a time of any time zone: end it with `Z`")
    return Millis((in_utc - _EPOCH) // timedelta(milliseconds=1))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
