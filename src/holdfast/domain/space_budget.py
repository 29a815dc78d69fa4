"""The budget of a space: how much its model calls may use in each day, week or month."""

from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from holdfast.domain.errors import BudgetExceeded, Invalid
from holdfast.domain.limits import MAX_EXACT_USD, MAX_SAFE_INTEGER, nanodollars
from holdfast.domain.usage import day_name

WARNING_PERCENTS: Final = (80, 100)
_EPOCH: Final = date(1970, 1, 1)


class BudgetPeriod(StrEnum):
    """After what the spending of a space begins at zero, in UTC; a week begins on Monday."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class NewSpaceBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A budget; null is no limit, and one of the limits is needed."""

    period: BudgetPeriod
    cost_usd: Annotated[float, Meta(gt=0, le=MAX_EXACT_USD)] | None = None
    tokens: Annotated[int, Meta(gt=0, le=MAX_SAFE_INTEGER)] | None = None


class SpaceSpending(msgspec.Struct, frozen=True, kw_only=True):
    """What the model calls of a period used. The cost leaves out the calls whose price is unknown."""

    cost_usd: float
    tokens: int
    unpriced_calls: int


class SpaceBudget(msgspec.Struct, frozen=True, kw_only=True):
    """The budget of a space, and what is spent of it in the current period."""

    period: BudgetPeriod
    cost_usd: float | None
    tokens: int | None
    since: str
    """The first day of the period, in UTC."""
    until: str
    """The last day."""
    spent: SpaceSpending
    percent: int
    """What is spent of the limit that is nearer to its end, rounded down."""


def check_space_budget(budget: NewSpaceBudget) -> None:
    """Raise unless a budget limits something."""
    if budget.cost_usd is None and budget.tokens is None:
        raise Invalid("a budget needs `cost_usd` or `tokens`; to remove it, use DELETE", field="cost_usd")


def period_days(period: BudgetPeriod, day: int) -> tuple[int, int]:
    """Return the first and last day of the period that a day is in, counted from 1970."""
    first = last = today = _EPOCH + timedelta(days=day)
    if period is BudgetPeriod.WEEK:
        first = today - timedelta(days=today.weekday())
        last = first + timedelta(days=6)
    elif period is BudgetPeriod.MONTH:
        first = today.replace(day=1)
        last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return (first - _EPOCH).days, (last - _EPOCH).days


def percent_spent(spending: SpaceSpending, *, cost_usd: float | None, tokens: int | None) -> int:
    """Return how much of the limits is spent, of that which is nearer to its end."""
    shares = [0]
    if cost_usd is not None:
        shares.append(100 * nanodollars(spending.cost_usd) // max(nanodollars(cost_usd), 1))
    if tokens is not None:
        shares.append(100 * spending.tokens // tokens)
    return max(shares)


def space_budget(budget: NewSpaceBudget, spending: SpaceSpending, *, first: int, last: int) -> SpaceBudget:
    """Return a budget with what is spent of it."""
    return SpaceBudget(
        period=budget.period,
        cost_usd=budget.cost_usd,
        tokens=budget.tokens,
        since=day_name(first),
        until=day_name(last),
        spent=spending,
        percent=percent_spent(spending, cost_usd=budget.cost_usd, tokens=budget.tokens),
    )


def check_space_spending(budget: SpaceBudget) -> None:
    """Raise unless a model call may start."""
    if budget.percent < 100:
        return
    over_cost = budget.cost_usd is not None and budget.spent.cost_usd >= budget.cost_usd
    limit, spent = (budget.cost_usd, budget.spent.cost_usd) if over_cost else (budget.tokens, budget.spent.tokens)
    unit = "USD" if over_cost else "tokens"
    raise BudgetExceeded(
        f"the budget of the space is {limit} {unit} a {budget.period}, and {spent} are spent: raise it, or wait until "
        f"{budget.until} has passed",
        budget="space",
        limit=limit,
        spent=spent,
        period=str(budget.period),
        until=budget.until,
    )
