"""Token and money usage of runs, their limits, and the backoff between attempts."""

from math import inf
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import force_setattr

from holdfast.domain.errors import BudgetExceeded, DeadlineExceeded, Invalid, IterationLimit, SpawnLimit
from holdfast.domain.placement import MAX_SUBAGENT_DEPTH

MAX_EXACT_USD: Final = 2_000_000
"""Below this a float represents each billionth of a dollar, so sums of costs are exact in any order."""
MAX_TOKENS_PER_CALL: Final = 1_000_000_000
"""Far above any model's context window, and small enough that sums fit in the database."""

_NANODOLLARS_PER_USD: Final = 1_000_000_000


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of one or more calls. A cost of null is unknown, and so is every sum with an unknown part."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    """The part of `input_tokens` that came from a cache."""
    cost_usd: float | None
    """Rounded to a billionth of a dollar. There is no default, because a missing cost is not zero."""

    def __post_init__(self) -> None:
        if min(self.input_tokens, self.output_tokens, self.cached_input_tokens) < 0:
            raise Invalid("a number of tokens cannot be negative")
        if self.cached_input_tokens > self.input_tokens:
            raise Invalid("`cached_input_tokens` cannot exceed `input_tokens`, which include them")
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
            cost_usd=None
            if self.cost_usd is None or other.cost_usd is None
            else usd(nanodollars(self.cost_usd) + nanodollars(other.cost_usd)),
        )

    @property
    def total_tokens(self) -> int:
        """Input and output tokens; the input includes the cached ones."""
        return self.input_tokens + self.output_tokens


def nanodollars(cost_usd: float) -> int:
    """Return the nearest whole number of billionths of a dollar."""
    return round(cost_usd * _NANODOLLARS_PER_USD)


def usd(nanodollars: int) -> float:
    """Return the dollars of a whole number of billionths."""
    return nanodollars / _NANODOLLARS_PER_USD


ZERO_USAGE: Final = Usage(cost_usd=0.0)


MAX_ATTEMPTS: Final = 5
INITIAL_BACKOFF_MS: Final = 1_000
MAX_BACKOFF_MS: Final = 60_000
MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exact."""

DEFAULT_MAX_CHILDREN: Final = 32
MAX_CHILDREN: Final = 1_000

_Count = Annotated[int, msgspec.Meta(gt=0, le=MAX_SAFE_INTEGER)]
_Dollars = Annotated[float, msgspec.Meta(gt=0, le=MAX_EXACT_USD)]
_Depth = Annotated[int, msgspec.Meta(gt=0, le=MAX_SUBAGENT_DEPTH)]
_Children = Annotated[int, msgspec.Meta(gt=0, le=MAX_CHILDREN)]
_MAX_BY_FIELD: Final = {
    "max_iterations": MAX_SAFE_INTEGER,
    "max_duration_seconds": MAX_SAFE_INTEGER,
    "token_budget": MAX_SAFE_INTEGER,
    "cost_budget_usd": MAX_EXACT_USD,
    "max_depth": MAX_SUBAGENT_DEPTH,
    "max_children": MAX_CHILDREN,
}


# A misspelt limit would have no effect, so unknown fields are rejected.
class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of a run; null is no limit, or the default. Budgets are shared by the run's whole tree."""

    max_iterations: _Count | None = None
    max_duration_seconds: _Count | None = None
    token_budget: _Count | None = None
    cost_budget_usd: _Dollars | None = None
    max_depth: _Depth | None = None
    """Maximum number of ancestors of any run in the tree; null is the highest allowed depth."""
    max_children: _Children | None = None
    """Maximum number of active child runs at a time, and of independent tasks in total; null is 32."""
    strict_token_budget: bool | UnsetType = UNSET
    """Whether the run also fails if its last call exceeds `token_budget`, as a task of the tasks contract does.

    It is absent unless set, so that the digest of a request without it stays that of earlier versions.
    """

    def __post_init__(self) -> None:
        for field, maximum in _MAX_BY_FIELD.items():
            value = getattr(self, field)
            if value is not None and not 0 < value <= maximum:
                raise Invalid(f"`{field}` must be more than 0 and at most {maximum}, or null for no limit", field=field)


_NO_LIMITS: Final = Limits()


def requested_limits(agent: Limits, request: Limits) -> Limits:
    """Return the limits of a requested run.

    The request overrides the agent's iterations and duration; it may tighten but not loosen the agent's budgets, depth
    and number of children.
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
        strict_token_budget=agent.strict_token_budget or request.strict_token_budget,
    )


def child_limits(parent: Limits, child: Limits) -> Limits:
    """Return the limits of a child run: its own, within the depth of its parent."""
    return msgspec.structs.replace(child, max_depth=_smaller_limit(parent.max_depth, child.max_depth))


def check_depth(limits: Limits, depth: int) -> None:
    """Raise unless a run with `depth` ancestors may spawn a child."""
    maximum = limits.max_depth or MAX_SUBAGENT_DEPTH
    if depth >= maximum:
        message = f"`max_depth` is {maximum}, and this agent is nested that deeply: do the work yourself"
        raise SpawnLimit(message, limit="max_depth", most=maximum)


def check_children(limits: Limits, active_children: int) -> None:
    """Raise unless a run with this many active children may spawn another."""
    maximum = limits.max_children or DEFAULT_MAX_CHILDREN
    if active_children >= maximum:
        message = f"`max_children` is {maximum}, and this run has that many active children: wait until one has ended"
        raise SpawnLimit(message, limit="max_children", most=maximum)


def check_tasks(limits: Limits, started_tasks: int) -> None:
    """Raise unless a run that has started this many independent tasks may start another."""
    maximum = limits.max_children or DEFAULT_MAX_CHILDREN
    if started_tasks >= maximum:
        message = f"`max_children` is {maximum}, and this run has started that many tasks: start no more"
        raise SpawnLimit(message, limit="max_children", most=maximum)


def check_iterations(limits: Limits, iterations: int) -> None:
    """Raise unless a run with `iterations` answered model calls may make another."""
    maximum = limits.max_iterations
    if maximum is not None and iterations >= maximum:
        message = f"the run made {iterations} model calls: its limit is {maximum}"
        raise IterationLimit(message, limit=maximum, iterations=iterations)


def check_budget(limits: Limits, spent: Usage) -> None:
    """Raise unless a tree of runs with the usage `spent` may start another call."""
    tokens = limits.token_budget
    if tokens is not None and spent.total_tokens >= tokens:
        raise _budget_exceeded("token_budget", limit=tokens, spent=spent.total_tokens)
    cost = limits.cost_budget_usd
    if cost is None:
        return
    if spent.cost_usd is None:
        raise BudgetExceeded(
            f"a call had no known price, so `cost_budget_usd` {cost} can no longer be enforced",
            budget="cost_budget_usd",
            limit=cost,
            spent=None,
        )
    if nanodollars(spent.cost_usd) >= nanodollars(cost):
        raise _budget_exceeded("cost_budget_usd", limit=cost, spent=spent.cost_usd)


def check_overshoot(limits: Limits, spent: Usage) -> None:
    """Raise if a tree of runs with a strict token budget has exceeded it."""
    tokens = limits.token_budget
    if limits.strict_token_budget and tokens is not None and spent.total_tokens > tokens:
        raise _budget_exceeded("token_budget", limit=tokens, spent=spent.total_tokens)


def check_price_known(limits: Limits, *, price_known: bool) -> None:
    """Raise if a cost budget cannot be enforced because the model's price is unknown."""
    if limits.cost_budget_usd is not None and not price_known:
        raise Invalid(
            "`cost_budget_usd` needs a model with a known price: use `token_budget`, or another model",
            field="cost_budget_usd",
        )


def deadline_exceeded(seconds: int) -> DeadlineExceeded:
    """Return the error of a run that reached its maximum duration."""
    return DeadlineExceeded(f"the run reached its limit of {seconds} seconds", limit=seconds)


def backoff_ms(attempt: int) -> int:
    """Return the delay in milliseconds after the lost attempt number `attempt`, from 1; the first has none.

    One death says nothing about the run, and a run that made progress since its last claim has lost attempt number 0.
    """
    if attempt <= 1:
        return 0
    doublings = 2 * min(attempt - 2, MAX_BACKOFF_MS.bit_length())  # so that five attempts outlast quick restarts
    return min(INITIAL_BACKOFF_MS << doublings, MAX_BACKOFF_MS)


def attempts_exhausted(attempt: int, cap: int = MAX_ATTEMPTS) -> bool:
    """Return whether attempt number `attempt`, from 1, was the last."""
    return attempt >= cap


def _budget_exceeded(budget: str, *, limit: float, spent: float) -> BudgetExceeded:
    return BudgetExceeded(f"`{budget}` is {limit}, and {spent} is spent", budget=budget, limit=limit, spent=spent)


_Number = TypeVar("_Number", int, float)


def _smaller_limit(one: _Number | None, other: _Number | None) -> _Number | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
