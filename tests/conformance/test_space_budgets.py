"""The budget of a space: the last of the budgets that a run spends from, per day, week or month."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.domain.commit import Lease
from holdfast.domain.errors import BudgetExceeded, Invalid, NotFound
from holdfast.domain.limits import Limits, Usage
from holdfast.domain.notification import NotificationKind
from holdfast.domain.space_budget import BudgetPeriod, NewSpaceBudget, period_days
from holdfast.domain.step import StepState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, assistant
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.run_builders import child_of, commit, model_step, queued, running
from tests.conformance.tables import rows_of

DAILY_DOLLAR = NewSpaceBudget(period=BudgetPeriod.DAY, cost_usd=1.0)


async def _call(store: Store, lease: Lease, number: int, cost: float | None, tokens: int = 10) -> None:
    """Start and settle a model call."""
    await commit(store, lease, steps=[model_step(number)])
    usage = Usage(input_tokens=tokens, cost_usd=cost)
    done = model_step(number, StepState.DONE, usage=usage)
    await commit(store, lease, steps=[done], messages=[assistant("x")], usage=usage)


async def _warnings(store: Store) -> list[tuple[NotificationKind, int]]:
    await store.notifications.dispatch()
    found = await store.notifications.latest(SPACE)
    return [(each.kind, each.data["percent"]) for each in reversed(found) if each.kind.startswith("budget.")]


async def test_a_call_starts_only_while_the_budget_of_the_space_has_something_left(store: Store) -> None:
    await store.space_budgets.put(SPACE, DAILY_DOLLAR)
    lease = await running(store, "x")
    await _call(store, lease, 1, 0.6)
    await _call(store, lease, 2, 0.6)
    with pytest.raises(BudgetExceeded) as refused:
        await commit(store, lease, steps=[model_step(3)])
    assert (refused.value.details["budget"], refused.value.details["spent"]) == ("space", 1.2)
    budget = await store.space_budgets.get(SPACE)
    assert (budget.spent.cost_usd, budget.spent.tokens, budget.percent) == (1.2, 20, 120)
    await store.space_budgets.put(SPACE, NewSpaceBudget(period=BudgetPeriod.DAY, cost_usd=2.0))
    await _call(store, lease, 3, 0.1)
    await store.space_budgets.delete(SPACE)
    await _call(store, lease, 4, 9.0)
    with pytest.raises(NotFound):
        await store.space_budgets.get(SPACE)
    with pytest.raises(NotFound):
        await store.space_budgets.delete(SPACE)


async def test_a_space_is_notified_once_at_80_and_once_at_100_percent_of_each_period(
    store: Store, clock: HeldClock
) -> None:
    await store.space_budgets.put(SPACE, DAILY_DOLLAR)
    lease = await running(store, "x")
    for number, cost in enumerate((0.79, 0.02, 0.01, 0.18), start=1):
        await _call(store, lease, number, cost)
    warned = [(NotificationKind.BUDGET_WARNING, 81), (NotificationKind.BUDGET_EXCEEDED, 100)]
    assert await _warnings(store) == warned
    clock.tick(timedelta(days=1))
    (lease,) = await store.leases.renew(FIRST, [lease], lease=MINUTE)
    await _call(store, lease, 5, 2.0)
    assert await _warnings(store) == [*warned, (NotificationKind.BUDGET_EXCEEDED, 200)]
    await store.space_budgets.put(SPACE, NewSpaceBudget(period=BudgetPeriod.DAY, tokens=11))
    assert (await _warnings(store))[3:] == [(NotificationKind.BUDGET_WARNING, 90)]


async def test_children_and_their_own_budgets_spend_from_the_space_too(store: Store) -> None:
    await store.space_budgets.put(SPACE, NewSpaceBudget(period=BudgetPeriod.MONTH, tokens=100))
    parent = await running(store, "x", limits=Limits(token_budget=1_000))
    await child_of(store, parent.run_id)
    (child,) = await store.leases.claim(FIRST, lease=MINUTE)
    await _call(store, child, 1, 0.0, tokens=100)
    for lease in (parent, child):
        with pytest.raises(BudgetExceeded) as refused:
            await commit(store, lease, steps=[model_step(9)])
        assert refused.value.details["budget"] == "space"


async def test_another_space_is_not_limited_and_calls_without_a_price_are_counted(store: Store) -> None:
    await store.space_budgets.put(OTHER, NewSpaceBudget(period=BudgetPeriod.DAY, tokens=1))
    lease = await running(store, "x")
    await _call(store, lease, 1, None)
    assert (await store.space_budgets.get(OTHER)).spent.tokens == 0
    budget = await store.space_budgets.put(SPACE, DAILY_DOLLAR)
    assert (budget.spent.cost_usd, budget.spent.tokens, budget.spent.unpriced_calls) == (0.0, 10, 1)


async def test_concurrent_runs_overshoot_by_at_most_one_call_each(store: Store) -> None:
    await store.space_budgets.put(SPACE, NewSpaceBudget(period=BudgetPeriod.DAY, tokens=100))
    runs = 6
    for _ in range(runs):
        await queued(store, "x")
    leases = await store.leases.claim(FIRST, lease=MINUTE, limit=runs)

    async def spend(lease: Lease) -> None:
        for number in range(1, 50):
            await _call(store, lease, number, 0.0)

    results = await asyncio.gather(*map(spend, leases), return_exceptions=True)
    assert all(isinstance(each, BudgetExceeded) for each in results)
    spent = (await store.space_budgets.get(SPACE)).spent.tokens
    assert 100 <= spent < 100 + runs * 10
    assert (await _warnings(store))[-1][0] is NotificationKind.BUDGET_EXCEEDED


async def test_a_budget_without_a_limit_is_refused(store: Store, where: str | Path) -> None:
    before = await rows_of(where)
    with pytest.raises(Invalid):
        await store.space_budgets.put(SPACE, NewSpaceBudget(period=BudgetPeriod.DAY))
    assert await rows_of(where) == before


@pytest.mark.parametrize(
    ("period", "day", "first", "last"),
    [
        (BudgetPeriod.DAY, 20_000, 20_000, 20_000),
        (BudgetPeriod.WEEK, 4, 4, 10),  # Monday, 5 January 1970
        (BudgetPeriod.WEEK, 10, 4, 10),
        (BudgetPeriod.MONTH, 0, 0, 30),
        (BudgetPeriod.MONTH, 40, 31, 58),  # February 1970
        (BudgetPeriod.MONTH, 364, 334, 364),
    ],
)
def test_a_period_has_a_first_and_a_last_day(period: BudgetPeriod, day: int, first: int, last: int) -> None:
    assert period_days(period, day) == (first, last)
