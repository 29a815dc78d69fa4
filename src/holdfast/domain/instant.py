"""Points in time in UTC: `Millis` in databases, `Instant` on the wire.

`Millis` counts milliseconds since 1970. An `Instant` reads `2026-01-31T12:00:00.000Z`; instants sort as strings.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NewType

from holdfast.domain.errors import Invalid

Instant = NewType("Instant", str)
Millis = NewType("Millis", int)


@lru_cache(maxsize=256)  # events of one commit share one timestamp
def instant(at: Millis) -> Instant:
    """Format `at` as an `Instant`."""
    seconds, millis = divmod(at, 1000)
    return Instant(f"{_second(seconds)}.{millis:03d}Z")


def maybe_instant(at: Millis | None) -> Instant | None:
    """Format `at` as an `Instant`; null stays null."""
    return None if at is None else instant(at)


def millis(at: Instant, *, field: str | None = None) -> Millis:
    """Parse an `Instant`, or an ISO 8601 time with another UTC offset; errors name `field`."""
    try:
        moment = datetime.fromisoformat(at)
        in_utc = None if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise _invalid(f"`{at[:100]}` is not a time like `2026-01-31T12:00:00.000Z`", field) from exc
    if in_utc is None:
        raise _invalid(f"`{at}` is not a time with a time zone: end it with `Z`", field)
    return Millis((in_utc - _EPOCH) // timedelta(milliseconds=1))


def _invalid(message: str, field: str | None) -> Invalid:
    return Invalid(message) if field is None else Invalid(f"`{field}`: {message}", field=field)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
