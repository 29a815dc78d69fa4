"""In any order of two writers' statements, no runs wait for each other, and no writer blocks the other."""

from typing import Any

import pytest

from holdfast.domain.commit import Committed, Lease
from holdfast.domain.errors import WouldDeadlock
from holdfast.domain.limits import Limits, Usage
from holdfast.domain.run import Move, RunStatus, WaitsFor
from holdfast.store.store import Store
from tests.builders import FIRST, MINUTE, SECOND, claim
from tests.conformance.conftest import SPACE
from tests.conformance.interleavings.orders import TwoWriters
from tests.conformance.run_builders import child_of, commit, get, queued, running, status


async def wait(store: Store, lease: Lease, target: Lease, **parts: Any) -> Committed:
    move = Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD, waits_on=[target.run_id])
    return await commit(store, lease, move=move, **parts)


async def ring(store: Store, count: int) -> list[Lease]:
    """Claim runs; each except the first and the middle one waits for the next."""
    for _ in range(count):
        await queued(store)
    leases = await store.leases.claim(FIRST, lease=MINUTE, limit=count)
    for number, lease in enumerate(leases):
        if number not in (0, count // 2):
            await wait(store, lease, leases[(number + 1) % count])
    return leases


@pytest.mark.parametrize("count", [2, 4])
async def test_of_two_waits_that_would_close_a_cycle_one_is_refused(two: TwoWriters, store: Store, count: int) -> None:
    refused = set()

    async def scene() -> Any:
        leases = await ring(store, count)
        closing = [(leases[number], leases[(number + 1) % count]) for number in (0, count // 2)]

        async def check(*outcomes: object) -> None:
            assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Committed", "WouldDeadlock"]
            for (lease, _), outcome in zip(closing, outcomes, strict=True):
                waits = RunStatus.RUNNING if isinstance(outcome, WouldDeadlock) else RunStatus.WAITING
                assert await status(store, lease.run_id) is waits
            refused.add(isinstance(outcomes[0], WouldDeadlock))
            for lease in leases:
                await store.runs.end(SPACE, lease.run_id)

        return wait(two.first, *closing[0]), wait(two.second, *closing[1]), check

    await two.explore(scene)
    assert refused == {True, False}


async def test_a_parent_starts_to_wait_while_its_child_spends_from_the_same_budget(
    two: TwoWriters, store: Store
) -> None:
    used = Usage(input_tokens=7, cost_usd=0.5)

    async def scene() -> Any:
        parent = await running(store, limits=Limits(token_budget=100))
        await child_of(store, parent.run_id)
        child = await claim(store, SECOND)

        async def check(*outcomes: object) -> None:
            assert [type(outcome) for outcome in outcomes] == [Committed, Committed]
            assert await status(store, parent.run_id) is RunStatus.WAITING
            assert [(await get(store, lease.run_id)).usage for lease in (parent, child)] == [used, used]
            await store.runs.end(SPACE, parent.run_id)

        return wait(two.first, parent, child, usage=used), commit(two.second, child, usage=used), check

    orders = await two.explore(scene)
    # A writer in a deadlock is retried after PostgreSQL's deadlock timeout.
    assert {(order.count("a:append"), order.count("b:append")) for order in orders} == {(1, 1)}
