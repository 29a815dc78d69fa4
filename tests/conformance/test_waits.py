"""Waits: a run may wait for other runs to end, unless one of them could end only after it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.commit import Committed, Lease
from holdfast.domain.errors import Invalid, NotFound, WouldDeadlock
from holdfast.domain.ids import RunId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move, Run, RunStatus, WaitsFor
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from tests.builders import FIRST, MINUTE, assistant, claim, new_thread, text_events
from tests.conformance.conftest import SPACE
from tests.conformance.conversations import claim_run, create_run
from tests.conformance.run_builders import (
    COMPLETED,
    WAITING_FOR_PERSON,
    child_of,
    commit,
    new_interrupt,
    queued,
    running,
    status,
)
from tests.conformance.tables import rows_of


async def several(store: Store, count: int) -> list[Lease]:
    """Claim that many unrelated runs."""
    for _ in range(count):
        await queued(store)
    return await store.leases.claim(FIRST, lease=MINUTE, limit=count)


def waiting_for(*targets: RunId) -> Move:
    return Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD, waits_on=targets)


async def wait(store: Store, lease: Lease, *targets: RunId, **parts: Any) -> Committed:
    """Start to wait for runs to end."""
    return await commit(store, lease, move=waiting_for(*targets), **parts)


async def waits(where: str | Path) -> int:
    """Return the number of wait rows."""
    return len((await rows_of(where))["waits"])


async def refused(store: Store, where: str | Path, lease: Lease, *targets: RunId) -> WouldDeadlock:
    """Expect that a wait is refused and changes nothing."""
    before = await rows_of(where)
    with pytest.raises(WouldDeadlock) as caught:
        await wait(store, lease, *targets, messages=[assistant("x")], events=text_events("x"), values={"state": 1})
    assert await rows_of(where) == before
    return caught.value


async def branch(store: Store, count: int) -> tuple[Lease, list[Run]]:
    """Claim the first of that many runs on a thread, each based on the one before."""
    thread = await new_thread(store, SPACE)
    first, *others = [await create_run(store, thread, str(number)) for number in range(count)]
    assert {run.status for run in others} <= {RunStatus.PENDING}
    return await claim_run(store, first), others


async def test_a_run_may_wait_for_its_child_and_continues_when_it_ends(store: Store, where: str | Path) -> None:
    parent = await running(store)
    child = await child_of(store, parent.run_id)
    await wait(store, parent, child.id)
    assert (await status(store, parent.run_id), await waits(where)) == (RunStatus.WAITING, 1)
    await commit(store, await claim(store), move=COMPLETED)
    assert (await status(store, parent.run_id), await waits(where)) == (RunStatus.QUEUED, 0)


async def test_a_run_may_wait_for_children_created_in_the_same_commit(store: Store, where: str | Path) -> None:
    parent = await running(store)
    names = [RunId(f"child-{number}") for number in range(3)]
    children = [NewRun(id=name, thread=NewThread(), parent_run_id=parent.run_id) for name in names]
    await wait(store, parent, *names, children=children)
    assert (await status(store, parent.run_id), await waits(where)) == (RunStatus.WAITING, 3)


async def test_a_run_does_not_wait_for_itself(store: Store, where: str | Path) -> None:
    (lease,) = await several(store, 1)
    error = await refused(store, where, lease, lease.run_id)
    assert error.details == {"run_id": lease.run_id, "target": lease.run_id}


@pytest.mark.parametrize("count", [2, 3, 6])
async def test_runs_do_not_wait_for_each_other_in_a_cycle(store: Store, where: str | Path, count: int) -> None:
    *others, last = await several(store, count)
    for lease, target in zip(others, [*others[1:], last], strict=True):
        await wait(store, lease, target.run_id)
    error = await refused(store, where, last, others[0].run_id)
    assert error.details == {"run_id": last.run_id, "target": others[0].run_id}
    assert await status(store, last.run_id) is RunStatus.RUNNING
    await commit(store, last, move=COMPLETED)


async def test_every_target_is_checked_for_a_cycle(store: Store, where: str | Path) -> None:
    first, second, third, fourth = await several(store, 4)
    await wait(store, second, third.run_id, first.run_id)
    error = await refused(store, where, first, fourth.run_id, third.run_id, second.run_id)
    assert error.details["target"] == second.run_id
    await wait(store, first, fourth.run_id, third.run_id)


@pytest.mark.parametrize("behind", [1, 2, 3])
async def test_a_run_does_not_wait_for_a_run_that_starts_after_it(store: Store, where: str | Path, behind: int) -> None:
    lease, pending = await branch(store, behind + 1)
    await refused(store, where, lease, pending[-1].id)


async def test_a_run_does_not_wait_for_a_run_that_waits_for_a_later_one(store: Store, where: str | Path) -> None:
    lease, (pending,) = await branch(store, 2)
    child = await claim_run(store, await child_of(store, lease.run_id))
    await wait(store, child, pending.id)
    await refused(store, where, lease, child.run_id)


async def test_a_base_ended_before_it_started_does_not_hide_its_own_base(store: Store, where: str | Path) -> None:
    lease, (ended, pending) = await branch(store, 3)
    await store.runs.end(SPACE, ended.id)
    assert await status(store, pending.id) is RunStatus.PENDING
    await refused(store, where, lease, pending.id)


async def test_a_run_may_wait_for_a_run_whose_base_has_ended(store: Store) -> None:
    lease, (following,) = await branch(store, 2)
    (other,) = await several(store, 1)
    await wait(store, other, following.id)
    await commit(store, lease, move=COMPLETED)
    await wait(store, await claim_run(store, following), (await queued(store)).id)
    assert await status(store, following.id) is RunStatus.WAITING


async def test_a_finished_wait_is_removed(store: Store, where: str | Path) -> None:
    first, second = await several(store, 2)
    await wait(store, first, second.run_id)
    await store.inbox.put(SPACE, first.run_id, kind=InboxKind.MESSAGE, data="go on")
    assert await waits(where) == 0
    await wait(store, second, first.run_id)


async def test_a_finished_wait_is_removed_even_if_its_run_waits_for_something_else(
    store: Store, where: str | Path
) -> None:
    first, second = await several(store, 2)
    await wait(store, first, second.run_id)
    await store.inbox.put(SPACE, first.run_id, kind=InboxKind.MESSAGE, data="go on")
    again = await claim(store)
    await commit(store, again, consumed=[1], interrupts=[new_interrupt("q")], move=WAITING_FOR_PERSON)
    await wait(store, second, again.run_id)
    assert await waits(where) == 1


async def test_the_wait_of_an_ended_run_is_removed(store: Store, where: str | Path) -> None:
    first, second = await several(store, 2)
    await wait(store, first, second.run_id)
    await store.runs.end(SPACE, first.run_id)
    assert await waits(where) == 0


async def test_a_target_that_does_not_exist_is_not_found(store: Store, where: str | Path) -> None:
    (lease,) = await several(store, 1)
    before = await rows_of(where)
    with pytest.raises(NotFound, match="there is no run `missing`"):
        await wait(store, lease, RunId("missing"), messages=[assistant("x")])
    assert await rows_of(where) == before


@pytest.mark.parametrize("to", [RunStatus.QUEUED, RunStatus.COMPLETED, RunStatus.FAILED])
async def test_only_a_waiting_move_may_have_wait_targets(store: Store, to: RunStatus) -> None:
    first, second = await several(store, 2)
    with pytest.raises(Invalid, match="`waits_on` requires a move to `waiting`"):
        await commit(store, first, move=Move(to=to, waits_on=[second.run_id]))


async def test_a_refused_wait_does_not_affect_other_commits_in_its_batch(store: Store) -> None:
    leases = await several(store, 12)
    moves = [waiting_for(lease.run_id) if index % 4 == 1 else COMPLETED for index, lease in enumerate(leases)]
    outcomes = await asyncio.gather(
        *(commit(store, lease, events=text_events("x"), move=move) for lease, move in zip(leases, moves, strict=True)),
        return_exceptions=True,
    )
    for move, lease, outcome in zip(moves, leases, outcomes, strict=True):
        done = move is COMPLETED
        assert isinstance(outcome, Committed if done else WouldDeadlock)
        assert await status(store, lease.run_id) is (RunStatus.COMPLETED if done else RunStatus.RUNNING)


@pytest.mark.parametrize("count", [2, 3, 4, 7])
async def test_of_runs_that_start_a_cycle_of_waits_concurrently_one_is_refused(stores: list[Store], count: int) -> None:
    for _ in range(5):
        leases = await several(stores[0], count)
        targets = [*leases[1:], leases[0]]
        outcomes = await asyncio.gather(
            *(
                wait(stores[n % len(stores)], lease, target.run_id)
                for n, (lease, target) in enumerate(zip(leases, targets, strict=True))
            ),
            return_exceptions=True,
        )
        assert sum(isinstance(outcome, WouldDeadlock) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, Committed) for outcome in outcomes) == count - 1
        for lease in leases:
            await stores[0].runs.end(SPACE, lease.run_id)


async def test_a_run_that_waits_may_be_waited_for_by_many(stores: list[Store], where: str | Path) -> None:
    target, *others = await several(stores[0], 20)
    await asyncio.gather(*(wait(stores[n % len(stores)], lease, target.run_id) for n, lease in enumerate(others)))
    assert await waits(where) == 19
