"""The budgets of spaces in SQL: one more key of a run's budget chain, the negative key of its space.

What is spent is the sum of the usage ledger since the period began, which the same transaction has raised. It is
checked when a model call starts, so concurrent calls may overshoot it by the calls in flight: one for each run.
"""

from collections.abc import Iterable

from holdfast.domain.commit import Lease
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import SpaceId
from holdfast.domain.limits import Usage, nanodollars, usd
from holdfast.domain.notification import NotificationKind
from holdfast.domain.space_budget import (
    WARNING_PERCENTS,
    BudgetPeriod,
    NewSpaceBudget,
    SpaceBudget,
    SpaceSpending,
    check_space_budget,
    check_space_spending,
    period_days,
    space_budget,
)
from holdfast.domain.usage import day_of
from holdfast.store.notifications import event_row
from holdfast.store.spaces import space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, reads, writes


class SqlSpaceBudgets(SqlPort):
    """Implements `SpaceBudgets`."""

    @reads
    async def get(self, tx: Transaction, space: SpaceId) -> SpaceBudget:
        """Return the budget of a space."""
        row = await tx.one("space_budget", space_key=await space_key(tx, space))
        if row is None:
            raise NotFound(f"the space `{space}` has no budget", id=space)
        return (await _current_budget(tx, row))[1]

    @writes
    async def put(self, tx: Transaction, space: SpaceId, budget: NewSpaceBudget) -> SpaceBudget:
        """Set the budget of a space."""
        check_space_budget(budget)
        key = await space_key(tx, space)
        cost = None if budget.cost_usd is None else nanodollars(budget.cost_usd)
        await tx.run("put_space_budget", space_key=key, period=budget.period.value, tokens=budget.tokens, cost=cost)
        await _warn(tx, key)
        row = await tx.one("space_budget", space_key=key)
        assert row is not None
        return (await _current_budget(tx, row))[1]

    @writes
    async def delete(self, tx: Transaction, space: SpaceId) -> None:
        """Remove the budget of a space."""
        if await tx.one("drop_space_budget", space_key=await space_key(tx, space)) is None:
            raise NotFound(f"the space `{space}` has no budget", id=space)


async def check_budget_of_space(tx: Transaction, space: int) -> None:
    """Raise if the budget of a space is used up."""
    row = await tx.one("space_budget", space_key=space)
    if row is not None:  # it may have been removed since the run was claimed
        check_space_spending((await _current_budget(tx, row))[1])


async def warn_of_space_budgets(tx: Transaction, spent: Iterable[tuple[Lease, Usage | None]]) -> None:
    """Notify a space when its spending reaches 80 % and 100 % of its budget, once for each period."""
    for space in sorted({-key for lease, usage in spent if usage is not None for key in lease.budget_keys if key < 0}):
        await _warn(tx, space)


async def _warn(tx: Transaction, space: int) -> None:
    row = await tx.one("lock_space_budget", space_key=space)  # so that of concurrent calls the last sees the sum
    if row is None:
        return
    first, budget = await _current_budget(tx, row)
    warned = row["warned_percent"] if row["warned_day"] == first else 0
    reached = max((percent for percent in WARNING_PERCENTS if percent <= budget.percent), default=0)
    if reached <= warned:
        return
    await tx.run("note_budget_warning", space_key=space, day=first, percent=reached)
    kind = NotificationKind.BUDGET_EXCEEDED if reached >= 100 else NotificationKind.BUDGET_WARNING
    data = {
        "percent": budget.percent,
        "period": str(budget.period),
        "spent_usd": budget.spent.cost_usd,
        "limit_usd": budget.cost_usd,
        "spent_tokens": budget.spent.tokens,
        "limit_tokens": budget.tokens,
    }
    await tx.many("add_to_outbox", [event_row(tx, space, kind, data=data)])
    tx.hints.add(news=True)


async def _current_budget(tx: Transaction, row: Row) -> tuple[int, SpaceBudget]:
    """Return the first day of the current period, and the budget with what is spent since then."""
    period, cost = BudgetPeriod(row["period"]), row["cost_nanodollars"]
    first, last = period_days(period, day_of(tx.now))
    spent = await tx.one("spent_since", space_key=row["space_key"], day=first)
    assert spent is not None
    spending = SpaceSpending(
        cost_usd=usd(spent["cost_nanodollars"]), tokens=spent["tokens"], unpriced_calls=spent["unpriced_calls"]
    )
    new = NewSpaceBudget(period=period, cost_usd=None if cost is None else usd(cost), tokens=row["tokens"])
    return first, space_budget(new, spending, first=first, last=last)
