"""How much a run may use, and how often it may be tried."""

from typing import Annotated, Final, TypeVar

import msgspec

from holdfast.domain.errors import BudgetExceeded, DeadlineExceeded, Invalid, IterationLimit
from holdfast.domain.usage import EXACT_UP_TO_USD, Usage, nanodollars

ATTEMPT_CAP: Final = 5
FIRST_BACKOFF_MS: Final = 1_000
LONGEST_BACKOFF_MS: Final = 60_000
LARGEST: Final = 2**53 - 1
"""Every reader of JSON keeps this number exact."""

_Count = Annotated[int, msgspec.Meta(gt=0, le=LARGEST)]
_Dollars = Annotated[float, msgspec.Meta(gt=0, le=EXACT_UP_TO_USD)]


# A misspelt limit would be no limit, so unknown fields are refused.
class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run may use; null is no limit. Budgets are shared by the run's whole tree."""

    max_iterations: _Count | None = None
    max_duration_seconds: _Count | None = None
    token_budget: _Count | None = None
    cost_budget_usd: _Dollars | None = None

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            value = getattr(self, field)
            most = EXACT_UP_TO_USD if field == "cost_budget_usd" else LARGEST
            if value is not None and not 0 < value <= most:
                raise Invalid(f"`{field}` must be more than 0 and at most {most}, or null for no limit", field=field)


def tighten(parent: Limits, child: Limits) -> Limits:
    """Return `child`, with at most what its parent has."""
    return Limits(
        max_iterations=_smaller(parent.max_iterations, child.max_iterations),
        max_duration_seconds=_smaller(parent.max_duration_seconds, child.max_duration_seconds),
        token_budget=_smaller(parent.token_budget, child.token_budget),
        cost_budget_usd=_smaller(parent.cost_budget_usd, child.cost_budget_usd),
    )


def check_iterations(limits: Limits, iterations: int) -> None:
    """Raise unless a run that has made `iterations` model calls may make another."""
    most = limits.max_iterations
    if most is not None and iterations >= most:
        raise IterationLimit(
            f"the run made {iterations} model calls and may make {most}", limit=most, iterations=iterations
        )


def check_budget(limits: Limits, spent: Usage) -> None:
    """Raise unless a tree of runs that has `spent` so much may start another call."""
    tokens = limits.token_budget
    if tokens is not None and spent.total_tokens >= tokens:
        raise _exceeded("token_budget", limit=tokens, spent=spent.total_tokens)
    cost = limits.cost_budget_usd
    if cost is None:
        return
    if spent.cost_usd is None:
        raise BudgetExceeded(
            f"a call had no known price, so `cost_budget_usd` {cost} can no longer be kept",
            budget="cost_budget_usd",
            limit=cost,
            spent=None,
        )
    if nanodollars(spent.cost_usd) >= nanodollars(cost):
        raise _exceeded("cost_budget_usd", limit=cost, spent=spent.cost_usd)


def check_priced(limits: Limits, *, price_known: bool) -> None:
    """Raise if there is a cost budget that could not be kept, because the model's price is not known."""
    if limits.cost_budget_usd is not None and not price_known:
        raise Invalid(
            "`cost_budget_usd` needs a model with a known price: use `token_budget`, or another model",
            field="cost_budget_usd",
        )


def deadline_exceeded(seconds: int) -> DeadlineExceeded:
    """Make the error of a run that worked for as long as it may."""
    return DeadlineExceeded(f"the run worked for {seconds} seconds and may work no longer", limit=seconds)


def backoff(attempt: int) -> int:
    """Return the milliseconds to wait after the attempt of that number, from 1, was lost."""
    doublings = min(max(attempt - 1, 0), LONGEST_BACKOFF_MS.bit_length())
    return min(FIRST_BACKOFF_MS << doublings, LONGEST_BACKOFF_MS)


def attempts_used_up(attempt: int, cap: int = ATTEMPT_CAP) -> bool:
    """Whether the attempt of that number, from 1, was the last."""
    return attempt >= cap


def _exceeded(budget: str, *, limit: float, spent: float) -> BudgetExceeded:
    return BudgetExceeded(f"`{budget}` is {limit} and {spent} are spent", budget=budget, limit=limit, spent=spent)


_Number = TypeVar("_Number", int, float)


def _smaller(one: _Number | None, other: _Number | None) -> _Number | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
