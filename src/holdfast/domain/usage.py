"""Usage of a space, added up by day, agent, model and API key."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.errors import Invalid
from holdfast.domain.instant import Millis
from holdfast.domain.limits import nanodollars, usd

DAY_MILLIS: Final = 86_400_000
MAX_USAGE_DAYS: Final = 400
DEFAULT_USAGE_DAYS: Final = 30
_EPOCH: Final = date(1970, 1, 1)


class UsageGroup(StrEnum):
    """What the usage of a space is added up by."""

    DAY = "day"
    AGENT = "agent"
    MODEL = "model"
    KEY = "key"
    """The author of the runs: an API key, or empty where none was used."""
    THREAD = "thread"
    """The thread of the runs that were created in these days, by its id; sub-agents count for the thread they serve.
    Deleted runs are left out."""


class UsageTotal(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of the model calls of one group. The cost leaves out the calls whose price is unknown."""

    name: str
    calls: int = 0
    unpriced_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cost_usd: float = 0.0
    title: str | None = None
    """Of a thread."""


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of a space over some days, both included. Days are in UTC."""

    group_by: UsageGroup
    first_day: str
    last_day: str
    items: list[UsageTotal]
    """By day in order of time, else the most expensive first."""
    total: UsageTotal


def add_totals(totals: Sequence[UsageTotal]) -> UsageTotal:
    """Return the sum of totals."""
    fields = ("calls", "unpriced_calls", "input_tokens", "output_tokens", "cached_input_tokens")
    cost = usd(sum(nanodollars(total.cost_usd) for total in totals))
    return UsageTotal(
        name="total", cost_usd=cost, **{name: sum(getattr(total, name) for total in totals) for name in fields}
    )


def day_of(now: Millis) -> int:
    """Return the number of the day of a time in UTC, counted from 1970."""
    return now // DAY_MILLIS


def day_name(day: int) -> str:
    """Return a day as `2026-01-31`."""
    return date.fromordinal(_EPOCH.toordinal() + day).isoformat()


def usage_days(first: str | None, last: str | None, *, now: Millis) -> tuple[int, int]:
    """Return the numbers of the first and last day of a report; by default the latest thirty days."""
    end = day_of(now) if last is None else _parse_day(last, field="to")
    start = end - DEFAULT_USAGE_DAYS + 1 if first is None else _parse_day(first, field="from")
    if start > end:
        raise Invalid(f"`from` ({day_name(start)}) is after `to` ({day_name(end)})", field="from")
    if end - start >= MAX_USAGE_DAYS:
        raise Invalid(f"a report has at most {MAX_USAGE_DAYS} days: ask for fewer", field="from")
    return start, end


def _parse_day(text: str, *, field: str) -> int:
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError as exc:
        raise Invalid(f"`{field}` is not a day: write it like `2026-01-31`", field=field) from exc
    return day.toordinal() - _EPOCH.toordinal()
