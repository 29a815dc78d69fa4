from decimal import Decimal
from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.domain.limits import ZERO_USAGE, Usage, nanodollars, usd

tokens = st.integers(0, 10**9)
costs = st.floats(0, 100_000) | st.integers(0, 10**14).map(usd)
any_cost = st.none() | costs


@st.composite
def usages(draw: st.DrawFn, cost: st.SearchStrategy[float | None] = any_cost) -> Usage:
    used = draw(tokens)
    return Usage(
        input_tokens=used,
        output_tokens=draw(tokens),
        cached_input_tokens=draw(st.integers(0, used)),
        cost_usd=draw(cost),
    )


def test_cached_tokens_are_part_of_the_input() -> None:
    assert Usage(input_tokens=10, output_tokens=5, cached_input_tokens=8, cost_usd=None).total_tokens == 15


@pytest.mark.parametrize(
    "counts",
    [{"input_tokens": -1}, {"output_tokens": -1}, {"cached_input_tokens": -1}, {"cached_input_tokens": 1}],
)
def test_impossible_token_counts_are_refused(counts: dict[str, int]) -> None:
    with pytest.raises(Invalid):
        Usage(**counts, cost_usd=None)


@pytest.mark.parametrize("cost", [-0.1, float("nan"), float("inf")])
def test_an_impossible_cost_is_refused(cost: float) -> None:
    with pytest.raises(Invalid, match="cost_usd"):
        Usage(cost_usd=cost)


def test_a_cost_is_required() -> None:
    with pytest.raises(msgspec.ValidationError, match="cost_usd"):
        msgspec.json.decode(b'{"input_tokens": 1}', type=Usage)


def test_ten_cent_costs_add_up_exactly() -> None:
    assert sum([Usage(cost_usd=0.1)] * 3, ZERO_USAGE).cost_usd == 0.3


def test_the_cheapest_token_still_costs_something() -> None:
    assert Usage(cost_usd=0.01 / 1_000_000).cost_usd == 1e-8


def test_the_cost_is_a_number_or_null_in_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(Usage(cost_usd=0.25)))["cost_usd"] == 0.25
    assert msgspec.json.decode(msgspec.json.encode(Usage(cost_usd=None)))["cost_usd"] is None
    assert msgspec.json.decode(b'{"cost_usd": 2}', type=Usage) == Usage(cost_usd=2.0)


@given(usages(), usages(), usages())
def test_the_order_of_addition_does_not_matter(a: Usage, b: Usage, c: Usage) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)


@given(st.lists(usages(cost=costs), min_size=3, max_size=3))
def test_known_costs_add_up_exactly(parts: list[Usage]) -> None:
    exact = sum(nanodollars(part.cost_usd) for part in parts if part.cost_usd is not None)
    for order in permutations(parts):
        cost = sum(order, ZERO_USAGE).cost_usd
        assert cost is not None
        assert nanodollars(cost) == exact
        assert cost == float(Decimal(exact) / 10**9)


@given(st.lists(usages()))
def test_an_unknown_part_makes_the_sum_unknown_and_only_that(parts: list[Usage]) -> None:
    unknown = any(part.cost_usd is None for part in parts)
    assert (sum(parts, ZERO_USAGE).cost_usd is None) is unknown


@given(usages())
def test_adding_zero_usage_changes_nothing(usage: Usage) -> None:
    assert usage + ZERO_USAGE == usage


@given(usages(), usages())
def test_tokens_add_up_and_cached_ones_stay_inside(a: Usage, b: Usage) -> None:
    both = a + b
    assert both.total_tokens == a.total_tokens + b.total_tokens
    assert both.cached_input_tokens == a.cached_input_tokens + b.cached_input_tokens <= both.input_tokens


@given(usages())
def test_usage_round_trips_through_json(usage: Usage) -> None:
    assert msgspec.json.decode(msgspec.json.encode(usage), type=Usage) == usage
