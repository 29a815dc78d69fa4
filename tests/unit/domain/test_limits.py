from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import BudgetExceeded, Invalid, IterationLimit, SpawnLimit
from holdfast.domain.limits import (
    DEFAULT_MAX_CHILDREN,
    MAX_ATTEMPTS,
    MAX_CHILDREN,
    MAX_EXACT_USD,
    MAX_SAFE_INTEGER,
    ZERO_USAGE,
    Limits,
    Usage,
    attempts_exhausted,
    backoff_ms,
    check_budget,
    check_children,
    check_depth,
    check_iterations,
    check_overshoot,
    check_price_known,
    check_tasks,
    child_limits,
    deadline_exceeded,
    requested_limits,
)
from holdfast.domain.placement import MAX_SUBAGENT_DEPTH

FIELDS = [name for name in Limits.__struct_fields__ if name != "strict_token_budget"]
counts = st.none() | st.integers(1, MAX_SAFE_INTEGER)
limits = st.builds(
    Limits,
    max_iterations=counts,
    max_duration_seconds=counts,
    token_budget=counts,
    cost_budget_usd=st.none() | st.floats(0, MAX_EXACT_USD, exclude_min=True),
    max_depth=st.none() | st.integers(1, MAX_SUBAGENT_DEPTH),
    max_children=st.none() | st.integers(1, MAX_CHILDREN),
)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [0, -1, 2 * MAX_SAFE_INTEGER])
def test_a_limit_is_positive_and_bounded(field: str, value: Any) -> None:
    with pytest.raises(Invalid, match=field):
        Limits(**{field: value})
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert({field: value}, Limits)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_cost_budget_is_finite(value: float) -> None:
    with pytest.raises(Invalid, match="cost_budget_usd"):
        Limits(cost_budget_usd=value)


def test_a_misspelt_limit_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="max_iteration"):
        msgspec.json.decode(b'{"max_iteration": 3}', type=Limits)


def test_without_limits_a_run_is_unlimited() -> None:
    assert requested_limits(Limits(), Limits()) == Limits()


def test_a_request_keeps_the_agents_limits_that_it_does_not_set() -> None:
    agent, request = Limits(max_iterations=5, token_budget=100), Limits(token_budget=50, cost_budget_usd=1.5)
    assert requested_limits(agent, request) == Limits(max_iterations=5, token_budget=50, cost_budget_usd=1.5)


@given(limits, limits)
def test_a_request_overrides_durations_and_may_only_lower_other_limits(agent: Limits, request: Limits) -> None:
    merged = requested_limits(agent, request)
    for field in FIELDS:
        own, requested, effective = getattr(agent, field), getattr(request, field), getattr(merged, field)
        if field in ("max_iterations", "max_duration_seconds"):
            assert effective == (own if requested is None else requested)
        else:
            assert own is None or effective <= own
            assert requested is None or effective <= requested
            assert effective in (own, requested)


def test_a_request_may_make_the_token_budget_strict_but_not_lenient() -> None:
    strict, lenient = Limits(token_budget=9, strict_token_budget=True), Limits(token_budget=9)
    assert requested_limits(strict, lenient).strict_token_budget is True
    assert requested_limits(lenient, strict).strict_token_budget is True
    check_overshoot(lenient, Usage(input_tokens=10, cost_usd=None))
    check_overshoot(strict, Usage(input_tokens=9, cost_usd=None))
    with pytest.raises(BudgetExceeded, match="`token_budget` is 9, and 10 is spent"):
        check_overshoot(strict, Usage(input_tokens=10, cost_usd=None))


def test_the_last_iteration_is_the_one_allowed() -> None:
    check_iterations(Limits(), 10_000)
    check_iterations(Limits(max_iterations=3), 2)
    with pytest.raises(IterationLimit) as refused:
        check_iterations(Limits(max_iterations=3), 3)
    assert refused.value.details == {"limit": 3, "iterations": 3}


def test_a_spent_token_budget_starts_no_call() -> None:
    budget = Limits(token_budget=100)
    check_budget(budget, Usage(input_tokens=60, cached_input_tokens=60, output_tokens=39, cost_usd=None))
    with pytest.raises(BudgetExceeded) as refused:
        check_budget(budget, Usage(input_tokens=60, output_tokens=40, cost_usd=None))
    assert refused.value.details == {"budget": "token_budget", "limit": 100, "spent": 100}


def test_a_spent_cost_budget_starts_no_call() -> None:
    budget = Limits(cost_budget_usd=0.3)
    dime = Usage(cost_usd=0.1)
    check_budget(budget, dime + dime)
    with pytest.raises(BudgetExceeded) as refused:
        check_budget(budget, dime + dime + dime)
    assert refused.value.details == {"budget": "cost_budget_usd", "limit": 0.3, "spent": 0.3}


def test_an_unknown_cost_exceeds_a_cost_budget() -> None:
    spent = ZERO_USAGE + Usage(cost_usd=None)
    check_budget(Limits(token_budget=1), spent)
    with pytest.raises(BudgetExceeded, match="no known price"):
        check_budget(Limits(cost_budget_usd=1.0), spent)


@given(limits)
def test_a_run_without_usage_may_start(limits: Limits) -> None:
    check_iterations(limits, 0)
    check_budget(msgspec.structs.replace(limits, cost_budget_usd=None), Usage(cost_usd=None))


def test_a_cost_budget_needs_a_known_price() -> None:
    check_price_known(Limits(token_budget=5), price_known=False)
    check_price_known(Limits(cost_budget_usd=1.0), price_known=True)
    with pytest.raises(Invalid, match="known price"):
        check_price_known(Limits(cost_budget_usd=1.0), price_known=False)


def test_a_missed_deadline_names_its_limit() -> None:
    error = deadline_exceeded(60)
    assert (error.code, error.details) == ("DEADLINE_EXCEEDED", {"limit": 60})


def test_backoff_is_zero_after_one_death_and_then_grows_from_one_second_to_a_minute() -> None:
    delays = [backoff_ms(attempt) for attempt in range(8)]
    assert delays == [0, 0, 1_000, 4_000, 16_000, 60_000, 60_000, 60_000]
    assert backoff_ms(10**9) == 60_000


def test_backoff_never_shrinks() -> None:
    waits = [backoff_ms(attempt) for attempt in range(-2, 50)]
    assert all(earlier <= later for earlier, later in pairwise(waits))


def test_attempts_are_exhausted_at_the_cap() -> None:
    assert [attempts_exhausted(attempt) for attempt in (1, MAX_ATTEMPTS - 1, MAX_ATTEMPTS)] == [
        False,
        False,
        True,
    ]
    assert attempts_exhausted(1, 1)


@given(parent=limits, child=limits)
def test_a_child_has_its_own_limits_within_its_parents_depth(parent: Limits, child: Limits) -> None:
    passed = child_limits(parent, child)
    assert passed == msgspec.structs.replace(child, max_depth=requested_limits(parent, child).max_depth)


@pytest.mark.parametrize(
    ("check", "limit", "most"),
    [
        (check_depth, "max_depth", MAX_SUBAGENT_DEPTH),
        (check_children, "max_children", DEFAULT_MAX_CHILDREN),
        (check_tasks, "max_children", DEFAULT_MAX_CHILDREN),
    ],
)
@pytest.mark.parametrize("configured", [None, 3])
def test_spawning_stops_at_the_limit(check: Any, limit: str, most: int, configured: Any) -> None:
    allowed = most if configured is None else configured
    own = Limits(**{limit: configured})
    check(own, allowed - 1)
    for count in (allowed, allowed + 1):
        with pytest.raises(SpawnLimit, match=f"`{limit}` is {allowed}") as refused:
            check(own, count)
        assert refused.value.details == {"limit": limit, "most": allowed}
