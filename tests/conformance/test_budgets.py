"""Budgets: usage of a tree of runs is added when a call settles, and checked when one starts."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.errors import BudgetExceeded
from holdfast.domain.ids import OwnerId, RunId
from holdfast.domain.limits import Limits, Usage
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import StepState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, assistant, call, claim, result, text_events
from tests.conformance.conftest import SPACE
from tests.conformance.conversations import claim_run
from tests.conformance.run_builders import (
    COMPLETED,
    child_of,
    commit,
    get,
    model_step,
    queued,
    run_after,
    running,
    tool_step,
)
from tests.conformance.tables import rows_of

PLENTY = 1_000_000
CALL = 10
"""Tokens per call in tests with concurrent children."""


def tokens(count: int) -> Limits:
    return Limits(token_budget=count)


def used(count: int = 0, cost: float | None = 0.0) -> Usage:
    """Return a usage of that many tokens, some of each kind."""
    return Usage(
        input_tokens=count - count // 3, output_tokens=count // 3, cached_input_tokens=count // 2, cost_usd=cost
    )


async def start(store: Store, lease: Lease, number: int = 1, **parts: Any) -> Committed:
    """Start a model call."""
    return await commit(store, lease, steps=[model_step(number)], **parts)


async def settle(store: Store, lease: Lease, usage: Usage, number: int = 1) -> None:
    """Settle a model call with this usage."""
    done = model_step(number, StepState.DONE)
    await commit(store, lease, steps=[done], messages=[assistant("x")], usage=usage)


async def ask_model(store: Store, lease: Lease, usage: Usage, number: int = 1) -> None:
    """Start and settle a model call."""
    await start(store, lease, number)
    await settle(store, lease, usage, number)


async def refusal(store: Store, lease: Lease) -> dict[str, Any]:
    """Return the error that a new model call raises now."""
    with pytest.raises(BudgetExceeded) as caught:
        await start(store, lease, 99)
    return caught.value.details


async def spawned(store: Store, parent: RunId, **options: Any) -> Lease:
    """Create a child and claim it."""
    return await claim_run(store, await child_of(store, parent, **options))


async def test_a_run_completes_only_within_its_strict_budget(store: Store, where: str | Path) -> None:
    strict = Limits(token_budget=20, strict_token_budget=True)
    done: dict[str, Any] = {"steps": [model_step(1, StepState.DONE)], "messages": [assistant("x")], "move": COMPLETED}
    for spent, limits, completes in ((20, strict, True), (21, strict, False), (21, tokens(20), True)):
        lease = await running(store, limits=limits)
        await ask_child(store, lease, used(10))
        await start(store, lease)
        before = await rows_of(where)
        if completes:
            await commit(store, lease, usage=used(spent - 10), **done)
            assert (await get(store, lease.run_id)).status is RunStatus.COMPLETED
            continue
        with pytest.raises(BudgetExceeded) as caught:
            await commit(store, lease, usage=used(spent - 10), **done)
        assert caught.value.details == {"budget": "token_budget", "limit": 20, "spent": spent}
        assert await rows_of(where) == before


async def ask_child(store: Store, lease: Lease, usage: Usage) -> None:
    """Start a child, which makes a model call and ends."""
    child = await spawned(store, lease.run_id)
    await ask_model(store, child, usage)
    await commit(store, child, move=COMPLETED)
    items = await store.journal.inbox(lease)
    await commit(store, lease, consumed=[item.number for item in items])


async def test_a_call_starts_while_a_token_is_left_and_not_after(store: Store) -> None:
    lease = await running(store, limits=tokens(100))
    await ask_model(store, lease, used(99), 1)
    await ask_model(store, lease, used(1), 2)
    assert await refusal(store, lease) == {"budget": "token_budget", "limit": 100, "spent": 100}


async def test_a_call_starts_while_a_billionth_of_the_money_is_left_and_not_after(store: Store) -> None:
    lease = await running(store, limits=Limits(cost_budget_usd=0.3))
    await ask_model(store, lease, used(PLENTY, 0.1), 1)
    await ask_model(store, lease, used(PLENTY, 0.199999999), 2)
    await ask_model(store, lease, used(0, 0.000000001), 3)
    assert await refusal(store, lease) == {"budget": "cost_budget_usd", "limit": 0.3, "spent": 0.3}


async def test_both_budgets_of_a_run_are_checked(store: Store) -> None:
    limits = Limits(token_budget=100, cost_budget_usd=1.0)
    by_tokens, by_cost = [await running(store, limits=limits) for _ in range(2)]
    await ask_model(store, by_tokens, used(100, 0.5))
    await ask_model(store, by_cost, used(50, 1.0))
    assert (await refusal(store, by_tokens))["budget"] == "token_budget"
    assert (await refusal(store, by_cost))["budget"] == "cost_budget_usd"


async def test_an_unknown_cost_uses_up_a_cost_budget(store: Store) -> None:
    lease = await running(store, limits=Limits(cost_budget_usd=1_000.0))
    await ask_model(store, lease, used(1, 0.5), 1)
    await ask_model(store, lease, used(1, None), 2)
    await commit(store, lease, usage=used(1, 0.5))
    assert await refusal(store, lease) == {"budget": "cost_budget_usd", "limit": 1_000.0, "spent": None}


async def test_an_unknown_cost_does_not_affect_a_token_budget(store: Store) -> None:
    lease = await running(store, limits=tokens(100))
    await ask_model(store, lease, used(60, None), 1)
    await ask_model(store, lease, used(40, None), 2)
    assert (await refusal(store, lease))["spent"] == 100


async def test_a_failed_or_interrupted_call_is_charged(store: Store, clock: HeldClock) -> None:
    run = await queued(store, limits=tokens(100))
    lease = await claim(store)
    await commit(store, lease, steps=[model_step(1, StepState.FAILED)], usage=used(40))
    await start(store, lease, 2)
    await commit(store, lease, usage=used(60))
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    clock.tick(MINUTE)
    again = await claim(store, SECOND)
    assert (await refusal(store, again))["spent"] == (await get(store, run.id)).usage.total_tokens == 100


async def test_a_refused_start_adds_nothing(store: Store, where: str | Path) -> None:
    lease = await running(store, limits=tokens(100))
    await ask_model(store, lease, used(100))
    before = await rows_of(where)
    with pytest.raises(BudgetExceeded):
        await start(
            store,
            lease,
            2,
            messages=[assistant("lost")],
            events=text_events("lost"),
            values={"state": 1},
            usage=used(5),
            iterations=1,
        )
    assert await rows_of(where) == before


async def test_a_commit_that_starts_no_model_call_is_accepted_without_budget(store: Store) -> None:
    lease = await running(store, limits=tokens(100))
    await start(store, lease, 1)
    await settle(store, lease, used(500))
    await commit(store, lease, messages=[assistant("", call("c1"))], steps=[tool_step(2, "c1")], usage=used(5))
    await commit(store, lease, messages=[result("c1")], steps=[tool_step(2, "c1", StepState.DONE)])
    await commit(store, lease, steps=[model_step(3, StepState.FAILED)])
    await commit(store, lease, move=COMPLETED)
    assert (await get(store, lease.run_id)).status is RunStatus.COMPLETED


async def test_the_usage_of_a_commit_counts_for_the_call_that_it_starts(store: Store, where: str | Path) -> None:
    lease = await running(store, limits=tokens(100))
    await start(store, lease, 1)
    both = {"messages": [assistant("x")], "steps": [model_step(1, StepState.DONE), model_step(2)]}
    before = await rows_of(where)
    with pytest.raises(BudgetExceeded) as caught:
        await commit(store, lease, usage=used(100), **both)
    assert caught.value.details["spent"] == 100
    assert await rows_of(where) == before
    await commit(store, lease, usage=used(99), **both)


async def test_usage_of_descendants_is_added_to_every_budget_above(store: Store) -> None:
    root = await running(store, limits=tokens(1000))
    child = await spawned(store, root.run_id, limits=tokens(100))
    grandchild = await spawned(store, child.run_id)
    await ask_model(store, root, used(1))
    await ask_model(store, child, used(20))
    await ask_model(store, grandchild, used(79))
    await ask_model(store, grandchild, used(1), 2)
    for lease in (child, grandchild):
        assert await refusal(store, lease) == {"budget": "token_budget", "limit": 100, "spent": 100}
    await ask_model(store, root, used(899), 2)
    for lease in (root, await spawned(store, root.run_id)):
        assert await refusal(store, lease) == {"budget": "token_budget", "limit": 1000, "spent": 1000}


async def test_a_commit_with_usage_returns_the_spending_of_the_nearest_budget(store: Store) -> None:
    root = await running(store, limits=tokens(1000))
    child = await spawned(store, root.run_id, limits=tokens(100))
    below = await spawned(store, child.run_id)
    free = await running(store)
    spent = [
        (await commit(store, lease, usage=usage)).spent
        for lease, usage in ((root, used(5, 0.5)), (child, used(7, 0.1)), (below, used(9, None)), (free, used(1)))
    ]
    assert spent == [
        Usage(input_tokens=5, cost_usd=0.5),
        Usage(input_tokens=7, cost_usd=0.1),
        Usage(input_tokens=16, cost_usd=None),
        None,
    ]
    assert (await commit(store, child, events=text_events("x"))).spent is None
    assert (await start(store, child)).spent is None


async def test_a_childs_own_budget_limits_neither_its_parent_nor_its_siblings(store: Store) -> None:
    root = await running(store)
    poor, free = [await spawned(store, root.run_id, limits=limits) for limits in (tokens(10), Limits())]
    below = await spawned(store, poor.run_id)
    await ask_model(store, poor, used(10))
    for lease in (poor, below):
        assert (await refusal(store, lease))["limit"] == 10
    for lease in (root, free):
        await ask_model(store, lease, used(PLENTY, None))
        await start(store, lease, 2)


async def test_a_run_does_not_spend_from_the_budget_of_its_base(store: Store) -> None:
    lease = await running(store, limits=tokens(10))
    await ask_model(store, lease, used(10))
    await commit(store, lease, move=COMPLETED)
    await run_after(store, await get(store, lease.run_id))
    await ask_model(store, await claim(store), used(PLENTY))


async def test_a_budget_lasts_over_every_lease_of_its_run(store: Store) -> None:
    first = await running(store, limits=tokens(100))
    await ask_model(store, first, used(60))
    await store.leases.release(first)
    second = await claim(store, SECOND)
    await ask_model(store, second, used(40), 2)
    assert (await refusal(store, second))["spent"] == 100


async def siblings(store: Store, count: int, **options: Any) -> tuple[Lease, list[Lease]]:
    """Claim a run and that many children of it."""
    root = await running(store, **options)
    for _ in range(count):
        await child_of(store, root.run_id)
    return root, await store.leases.claim(FIRST, lease=MINUTE, limit=count)


async def test_concurrent_usage_of_siblings_is_added_up(stores: list[Store]) -> None:
    root, children = await siblings(stores[0], 40, limits=tokens(1))
    spending = [commit(stores[n % len(stores)], lease, usage=used(n, 0.001)) for n, lease in enumerate(children)]
    await asyncio.gather(*spending)
    assert (await refusal(stores[0], root))["spent"] == sum(range(40))


async def test_an_unknown_cost_among_those_of_siblings_is_not_lost(store: Store) -> None:
    root, children = await siblings(store, 12, limits=Limits(cost_budget_usd=1_000.0))
    await asyncio.gather(
        *(commit(store, lease, usage=used(1, None if n == 5 else 1)) for n, lease in enumerate(children))
    )
    assert (await refusal(store, root))["spent"] is None


async def test_a_refused_start_does_not_affect_other_commits_in_its_batch(store: Store) -> None:
    rich, poor = await running(store, limits=tokens(PLENTY)), await running(store, limits=tokens(10))
    await ask_model(store, poor, used(10))
    for parent in (rich, poor):
        for _ in range(12):
            await child_of(store, parent.run_id)
    leases = await store.leases.claim(FIRST, lease=MINUTE, limit=24)
    refused = [lease.run.parent_run_id == poor.run_id and index % 3 == 0 for index, lease in enumerate(leases)]
    commits = [
        Commit(lease=lease, events=text_events("x"), usage=used(5), steps=[model_step(1)] if index % 3 == 0 else ())
        for index, lease in enumerate(leases)
    ]
    outcomes = await asyncio.gather(*map(store.journal.commit, commits), return_exceptions=True)
    assert [isinstance(outcome, BudgetExceeded) for outcome in outcomes] == refused
    assert any(refused)
    for lease, lost in zip(leases, refused, strict=True):
        run = await get(store, lease.run_id)
        assert (run.last_event_seq, run.usage.total_tokens) == ((1, 0) if lost else (4, 5))
    assert (await refusal(store, poor))["spent"] == 10 + 5 * (12 - sum(refused))


async def test_twenty_children_that_spend_at_once_overshoot_by_at_most_one_call_each(stores: list[Store]) -> None:
    budget = 300
    root, children = await siblings(stores[0], 20, limits=Limits(token_budget=budget, cost_budget_usd=1_000.0))

    async def spend(lease: Lease, store: Store) -> int:
        calls = 0
        while True:
            try:
                await start(store, lease, calls + 1)
            except BudgetExceeded:
                return calls
            calls += 1
            await settle(store, lease, used(CALL, 0.01), calls)

    calls = sum(await asyncio.gather(*(spend(lease, stores[n % len(stores)]) for n, lease in enumerate(children))))
    assert budget <= calls * CALL < budget + 20 * CALL
    assert (await refusal(stores[0], root))["spent"] == calls * CALL
    runs = await stores[0].runs.children(SPACE, root.run_id)
    assert sum(run.usage.total_tokens for run in runs) == calls * CALL


async def test_stores_that_spend_from_one_budget_while_runs_end_never_lose_a_token(stores: list[Store]) -> None:
    """On PostgreSQL an end locks parent and child while commits lock the budget: a deadlock is retried."""
    root, children = await siblings(stores[0], 16, limits=tokens(PLENTY))

    async def work(lease: Lease, store: Store) -> None:
        for number in range(1, 6):
            await ask_model(store, lease, used(7), number)
        await commit(store, lease, usage=used(1), move=COMPLETED)

    await asyncio.gather(
        *(work(lease, stores[n % len(stores)]) for n, lease in enumerate(children)),
        *(commit(store, root, usage=used(1), iterations=1) for store in stores for _ in range(5)),
    )
    spent = 16 * (5 * 7 + 1) + 5 * len(stores)
    await commit(stores[0], root, usage=used(PLENTY - spent))
    assert (await refusal(stores[0], root))["spent"] == PLENTY


async def budgets(where: str | Path) -> int:
    """Return the number of budget rows."""
    return len((await rows_of(where))["budgets"])


async def ended(store: Store, **options: Any) -> Run:
    """Create a tree of three runs with a budget each, and end it."""
    root = await queued(store, limits=tokens(1), **options)
    child = await child_of(store, root.id, limits=tokens(1))
    await child_of(store, child.id, limits=Limits(cost_budget_usd=1.0))
    await store.runs.end(SPACE, root.id)
    return await get(store, root.id)


async def test_only_a_run_with_a_budget_limit_has_a_budget(store: Store, where: str | Path) -> None:
    await queued(store, limits=Limits(max_iterations=3, max_duration_seconds=60))
    assert await budgets(where) == 0
    await queued(store, limits=tokens(5))
    await queued(store, limits=Limits(cost_budget_usd=0.5))
    assert await budgets(where) == 2


async def test_a_budget_is_deleted_with_its_run(store: Store, where: str | Path) -> None:
    gone, based_on = await ended(store), await ended(store)
    await run_after(store, based_on)
    assert await budgets(where) == 6
    await store.runs.delete(SPACE, gone.id)
    assert await budgets(where) == 3
    await store.runs.delete(SPACE, based_on.id)
    assert await budgets(where) == 0


async def test_budgets_are_deleted_with_their_space(store: Store, where: str | Path) -> None:
    await ended(store)
    await store.spaces.delete(SPACE)
    assert await budgets(where) == 0


async def test_a_lost_lease_adds_no_usage(store: Store, clock: HeldClock) -> None:
    lease = await running(store, limits=tokens(100))
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    outcomes = await asyncio.gather(
        *(commit(store, lease, usage=used(100), steps=[model_step(1)]) for _ in range(3)), return_exceptions=True
    )
    assert [type(outcome).__name__ for outcome in outcomes] == ["LeaseLost"] * 3
    clock.tick(MINUTE)
    (fresh,) = await store.leases.claim(OwnerId("third"), lease=MINUTE)
    await start(store, fresh)
