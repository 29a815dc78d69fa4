"""Points in time by the calendar: cron expressions in a time zone, and times that people write.

A cron expression with a fixed hour and minute follows the wall clock: a time that a daylight saving change skips fires
when the clock has jumped, and one that it repeats fires once. Any other expression follows elapsed time.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from holdfast.domain.errors import Invalid
from holdfast.domain.instant import Instant, Millis, instant, millis

DEFAULT_TIMEZONE: Final = "UTC"
MAX_CRON_CHARS: Final = 200
MAX_DELAY_SECONDS: Final = 10 * 365 * 86_400
MAX_TIME_CHARS: Final = 200
"""Characters of a time as a person writes it: anybody may send a longer text."""

_MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_NOT_ZONES: Final = frozenset({"Factory", "localtime", "posixrules"})
"""Files beside the zones, which mean something else on every machine."""
_CRON_EXAMPLE: Final = "write five fields, such as `0 9 * * 1-5`: minute, hour, day of month, month, day of week"
_UNIT_SECONDS: Final = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "秒"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes", "分"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "時間"), 3_600),
    **dict.fromkeys(("d", "day", "days", "日"), 86_400),
    **dict.fromkeys(("w", "week", "weeks", "週間"), 604_800),
}
_UNITS: Final = "|".join(sorted(_UNIT_SECONDS, key=len, reverse=True))
_DELAY: Final = re.compile(rf"(?:in\s+)?((?:[0-9]{{1,9}}(?:\.[0-9]{{1,3}})?\s*(?:{_UNITS})\s*)+)(?:後)?", re.IGNORECASE)
_DELAY_PART: Final = re.compile(rf"([0-9.]+)\s*({_UNITS})", re.IGNORECASE)


@lru_cache(maxsize=256)
def parse_timezone(name: str) -> ZoneInfo:
    """Return the time zone with an IANA name."""
    try:
        if name not in _NOT_ZONES and not name.startswith(("posix/", "right/")):
            return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        pass
    message = f"`{name[:100]}` is not a time zone: write an IANA name, such as `Europe/Berlin` or `UTC`"
    raise Invalid(message, field="timezone")


def check_cron(expression: str, *, timezone: str = DEFAULT_TIMEZONE, field: str = "cron") -> str:
    """Return `expression` if it names at least one time; an error names the `field` that it came from."""
    parse_timezone(timezone)
    try:
        if next_time(expression, timezone=timezone, after=Millis(0)) is not None:
            return expression
    except Invalid as exc:
        raise Invalid(exc.message, field=field) from exc
    raise Invalid(f"the cron expression `{expression}` never matches: {_CRON_EXAMPLE}", field=field)


def is_cron(text: str) -> bool:
    """Return whether `text` has the form of a cron expression."""
    if len(text) > MAX_TIME_CHARS:
        return False
    return text.strip() in _MACROS or (len(text.split()) in (5, 6) and _DELAY.fullmatch(text.strip()) is None)


def next_time(expression: str, *, timezone: str, after: Millis) -> Millis | None:
    """Return the first time of a cron expression after `after`, or `None` if there is none."""
    times = _times(expression, timezone, after)
    try:
        # A repeated hour is named by its first occurrence, which may lie before `after`.
        while (found := _to_millis(next(times))) <= after:
            pass
    except (StopIteration, OverflowError):
        return None
    return found


def _times(expression: str, timezone: str, after: Millis) -> CronSim:
    zone = parse_timezone(timezone)
    text = _MACROS.get(expression.strip(), expression)
    if len(text) > MAX_CRON_CHARS:
        raise Invalid(f"a cron expression has at most {MAX_CRON_CHARS} characters", field="cron")
    try:
        start = datetime.fromtimestamp(after // 1000, UTC if timezone == DEFAULT_TIMEZONE else zone)
        return CronSim(text, start)
    except (CronSimError, AssertionError, ValueError, IndexError, TypeError) as exc:
        reason = str(exc).lower() or "it is not valid"
        message = f"`{expression}` is not a cron expression ({reason}): {_CRON_EXAMPLE}"
        raise Invalid(message, field="cron") from exc


def parse_time(text: str, *, timezone: str | None, now: Millis) -> Instant:
    """Return the instant that a person means: ISO 8601, a local time in `timezone`, or a delay such as `in 2 h`.

    A local time that a daylight saving change skips is moved to after the change; one that it repeats is the first.
    """
    if len(text) > MAX_TIME_CHARS:
        raise Invalid(f"a time has at most {MAX_TIME_CHARS} characters", field="trigger_value")
    text = text.strip()
    if _DELAY.fullmatch(text) is not None:
        seconds = sum(float(number) * _UNIT_SECONDS[unit.lower()] for number, unit in _DELAY_PART.findall(text))
        if seconds > MAX_DELAY_SECONDS:
            raise Invalid(f"`{text[:100]}` is more than ten years from now", field="trigger_value")
        return instant(Millis(now + round(seconds * 1000)))
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None and timezone is not None:
            return instant(_to_millis(moment.replace(tzinfo=parse_timezone(timezone))))
    except (ValueError, OverflowError) as exc:
        message = (
            f"`{text[:100]}` is not a time: write `2026-01-31T09:00:00Z`, a local time with a `timezone`, `in 2 h`, "
            "or a cron expression such as `0 9 * * 1-5`"
        )
        raise Invalid(message, field="trigger_value") from exc
    if moment.tzinfo is not None:
        return instant(millis(Instant(text)))
    message = f"`{text[:100]}` has no time zone: end it with `Z` or an offset, or give a `timezone`"
    raise Invalid(message, field="timezone")


def _to_millis(moment: datetime) -> Millis:
    return Millis((moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1))


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
