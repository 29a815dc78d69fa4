"""Token and money usage of runs, their limits, and the backoff between attempts."""

from math import inf
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec.structs import force_setattr

from holdfast.domain.errors import BudgetExceeded, DeadlineExceeded, Invalid, IterationLimit, SpawnLimit
from holdfast.domain.placement import MAX_NESTING

MAX_EXACT_USD: Final = 2_000_000
"""Below this a float names each billionth of a dollar, so sums of costs are exact in any order."""
MAX_TOKENS_PER_CALL: Final = 1_000_000_000
"""Of one call. Far above any model's window, and so far below what can be stored that sums can be stored too."""

_NANODOLLARS_PER_USD: Final = 1_000_000_000


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What one call used, or many. A cost of null is unknown, and so is every sum with an unknown part."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    """Those of `input_tokens` that came from a cache."""
    cost_usd: float | None
    """Kept to the billionth. It has no default, because a cost that nobody gave is not zero."""

    def __post_init__(self) -> None:
        if min(self.input_tokens, self.output_tokens, self.cached_input_tokens) < 0:
            raise Invalid("a number of tokens cannot be negative")
        if self.cached_input_tokens > self.input_tokens:
            raise Invalid("`cached_input_tokens` are part of `input_tokens`: they cannot be more")
        if self.cost_usd is not None:
            if not 0 <= self.cost_usd < inf:
                raise Invalid("`cost_usd` must be 0 or more, or null if it is unknown", field="cost_usd")
            force_setattr(self, "cost_usd", usd(nanodollars(self.cost_usd)))

    def __add__(self, other: "Usage") -> "Usage":
        if self == ZERO_USAGE:
            return other
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            cost_usd=_sum_cost(self.cost_usd, other.cost_usd),
        )

    @property
    def total_tokens(self) -> int:
        """Input and output; the cached ones are in the input already."""
        return self.input_tokens + self.output_tokens


def nanodollars(cost_usd: float) -> int:
    """Return the nearest whole number of billionths of a dollar."""
    return round(cost_usd * _NANODOLLARS_PER_USD)


def usd(nanodollars: int) -> float:
    """Return the dollars of a whole number of billionths."""
    return nanodollars / _NANODOLLARS_PER_USD


ZERO_USAGE: Final = Usage(cost_usd=0.0)


def _sum_cost(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return None
    return usd(nanodollars(one) + nanodollars(other))


MAX_ATTEMPTS: Final = 5
INITIAL_BACKOFF_MS: Final = 1_000
MAX_BACKOFF_MS: Final = 60_000
MAX_SAFE_INTEGER: Final = 2**53 - 1
"""Every reader of JSON keeps this number exact."""

DEFAULT_MAX_CHILDREN: Final = 32
MAX_CHILDREN: Final = 1_000

_Count = Annotated[int, msgspec.Meta(gt=0, le=MAX_SAFE_INTEGER)]
_Dollars = Annotated[float, msgspec.Meta(gt=0, le=MAX_EXACT_USD)]
_Depth = Annotated[int, msgspec.Meta(gt=0, le=MAX_NESTING)]
_Children = Annotated[int, msgspec.Meta(gt=0, le=MAX_CHILDREN)]
_MAX_BY_FIELD: Final = {
    "max_iterations": MAX_SAFE_INTEGER,
    "max_duration_seconds": MAX_SAFE_INTEGER,
    "token_budget": MAX_SAFE_INTEGER,
    "cost_budget_usd": MAX_EXACT_USD,
    "max_depth": MAX_NESTING,
    "max_children": MAX_CHILDREN,
}


# A misspelt limit would be no limit, so unknown fields are refused.
class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run may use; null is no limit, or the default one. Budgets are shared by the run's whole tree."""

    max_iterations: _Count | None = None
    max_duration_seconds: _Count | None = None
    token_budget: _Count | None = None
    cost_budget_usd: _Dollars | None = None
    max_depth: _Depth | None = None
    """How many agents may stand above one; it holds for all below the run. Null is as many as there may ever be."""
    max_children: _Children | None = None
    """How many runs of its own may be at work at once, and how many tasks on their own it may begin; null is 32."""

    def __post_init__(self) -> None:
        for field, most in _MAX_BY_FIELD.items():
            value = getattr(self, field)
            if value is not None and not 0 < value <= most:
                raise Invalid(f"`{field}` must be more than 0 and at most {most}, or null for no limit", field=field)


_NO_LIMITS: Final = Limits()


def requested_limits(agent: Limits, request: Limits) -> Limits:
    """Return the limits of a run of `agent` that somebody asks for.

    How long it may work is what the request says, or else the agent; of what it may spend and spawn a request takes no
    more than the agent has.
    """
    if request == _NO_LIMITS:
        return agent
    if agent == _NO_LIMITS:
        return request
    return Limits(
        max_iterations=request.max_iterations or agent.max_iterations,
        max_duration_seconds=request.max_duration_seconds or agent.max_duration_seconds,
        token_budget=_smaller_limit(agent.token_budget, request.token_budget),
        cost_budget_usd=_smaller_limit(agent.cost_budget_usd, request.cost_budget_usd),
        max_depth=_smaller_limit(agent.max_depth, request.max_depth),
        max_children=_smaller_limit(agent.max_children, request.max_children),
    )


def child_limits(parent: Limits, child: Limits) -> Limits:
    """Return the limits of a child: its own, and how deep its parent's tree may be."""
    return msgspec.structs.replace(child, max_depth=_smaller_limit(parent.max_depth, child.max_depth))


def check_depth(limits: Limits, above: int) -> None:
    """Raise unless a run with so many agents above it may have another one work for it."""
    most = limits.max_depth or MAX_NESTING
    if above >= most:
        told = f"`max_depth` is {most}, and so many agents stand above this one: do it yourself"
        raise SpawnLimit(told, limit="max_depth", most=most)


def check_children(limits: Limits, active_children: int) -> None:
    """Raise unless a run of which so many children are at work may have one more."""
    most = limits.max_children or DEFAULT_MAX_CHILDREN
    if active_children >= most:
        told = f"`max_children` is {most}, and so many are at work for this run: wait until one has ended"
        raise SpawnLimit(told, limit="max_children", most=most)


def check_tasks(limits: Limits, started_tasks: int) -> None:
    """Raise unless a run that has begun so many tasks on their own may begin another."""
    most = limits.max_children or DEFAULT_MAX_CHILDREN
    if started_tasks >= most:
        told = f"`max_children` is {most}, and this run has begun as many tasks on their own: begin no more"
        raise SpawnLimit(told, limit="max_children", most=most)


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
        raise _budget_exceeded("token_budget", limit=tokens, spent=spent.total_tokens)
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
        raise _budget_exceeded("cost_budget_usd", limit=cost, spent=spent.cost_usd)


def check_price_known(limits: Limits, *, price_known: bool) -> None:
    """Raise if there is a cost budget that could not be kept, because the model's price is not known."""
    if limits.cost_budget_usd is not None and not price_known:
        raise Invalid(
            "`cost_budget_usd` needs a model with a known price: use `token_budget`, or another model",
            field="cost_budget_usd",
        )


def deadline_exceeded(seconds: int) -> DeadlineExceeded:
    """Make the error of a run that worked for as long as it may."""
    return DeadlineExceeded(f"the run worked for {seconds} seconds and may work no longer", limit=seconds)


def backoff_ms(attempt: int) -> int:
    """Return the milliseconds to wait after the attempt of that number, from 1, was lost."""
    doublings = min(max(attempt - 1, 0), MAX_BACKOFF_MS.bit_length())
    return min(INITIAL_BACKOFF_MS << doublings, MAX_BACKOFF_MS)


def attempts_exhausted(attempt: int, cap: int = MAX_ATTEMPTS) -> bool:
    """Whether the attempt of that number, from 1, was the last."""
    return attempt >= cap


def _budget_exceeded(budget: str, *, limit: float, spent: float) -> BudgetExceeded:
    return BudgetExceeded(f"`{budget}` is {limit} and {spent} are spent", budget=budget, limit=limit, spent=spent)


_Number = TypeVar("_Number", int, float)


def _smaller_limit(one: _Number | None, other: _Number | None) -> _Number | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
