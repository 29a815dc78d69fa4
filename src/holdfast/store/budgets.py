"""Budgets in SQL: what a tree of runs has spent, counted where a step settles and checked where one starts.

A run with a budget of its own has a row; whatever it and the runs below it use is added there. So a run spends from
every budget above it, and a call may overshoot each by what is in flight.
"""

from collections.abc import Iterable

from holdfast.domain.limits import Limits, check_budget
from holdfast.domain.usage import Usage, usd
from holdfast.store.encoding import load_limits
from holdfast.store.prepared import Prepared, usage_row
from holdfast.store.transaction import Transaction


def has_budget(limits: Limits) -> bool:
    """Say whether a run of these limits begins a budget."""
    return limits.token_budget is not None or limits.cost_budget_usd is not None


async def budget_path(tx: Transaction, run_key: int) -> tuple[int, ...]:
    """Return the budgets that a run spends from, the nearest first."""
    return tuple(row["run_key"] for row in await tx.all("budget_path", run_key=run_key))


async def check_budgets(tx: Transaction, commits: Iterable[Prepared]) -> None:
    """Raise if a commit starts a call that no budget is left for."""
    for commit in commits:
        if commit.starts_model and commit.lease.budget_keys:
            for key in commit.lease.budget_keys:
                limits, spent = await _budget(tx, key)
                check_budget(limits, spent)


async def spend(tx: Transaction, commits: Iterable[Prepared]) -> None:
    """Add what commits used to the budgets that they spend from."""
    spent: dict[int, tuple[int, int | None]] = {}
    for commit in commits:
        usage = commit.commit.usage
        if usage is None or not commit.lease.budget_keys:
            continue
        cost = usage_row(usage)[3]
        for key in commit.lease.budget_keys:
            tokens, before = spent.get(key, (0, 0))
            spent[key] = tokens + usage.total_tokens, None if before is None or cost is None else before + cost
    await tx.many("spend", [(tokens, cost, key) for key, (tokens, cost) in sorted(spent.items())])


async def spent_of(tx: Transaction, commit: Prepared) -> Usage | None:
    """Return what has been spent of the nearest budget of a commit that spent something."""
    if commit.commit.usage is None or not commit.lease.budget_keys:
        return None
    return (await _budget(tx, commit.lease.budget_keys[0]))[1]


async def _budget(tx: Transaction, run_key: int) -> tuple[Limits, Usage]:
    row = await tx.one("budget", run_key=run_key)
    assert row is not None
    cost = row["cost_nanodollars"]
    return load_limits(row["limits"]), Usage(input_tokens=row["tokens"], cost_usd=None if cost is None else usd(cost))
