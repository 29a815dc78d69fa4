"""In any order of two writers' statements, no run waits forever for a base that has ended."""

from typing import Any

import pytest
from msgspec import UNSET, UnsetType

from holdfast.domain.commit import Lease
from holdfast.domain.new_run import CreatedRun, NewRun, RunBase
from holdfast.domain.run import RunStatus
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE, assistant, claim, user
from tests.conformance.conftest import SPACE
from tests.conformance.interleavings.orders import TwoWriters
from tests.conformance.run_builders import COMPLETED, commit, get, run_after, running


async def complete(store: Store, lease: Lease) -> None:
    await commit(store, lease, messages=[assistant("done")], values={"plan": ["new"]}, move=COMPLETED)


async def end(store: Store, lease: Lease) -> None:
    await store.runs.end(SPACE, lease.run_id)


async def let_go(store: Store, lease: Lease) -> None:
    await store.leases.release(lease)


async def expire(store: Store, lease: Lease) -> None:
    await store.leases.expire(cap=1)


async def given_back(store: Store, clock: HeldClock, lease: Lease) -> None:
    await store.leases.release(lease)


async def ended(store: Store, clock: HeldClock, lease: Lease) -> None:
    await store.runs.end(SPACE, lease.run_id)


async def dead(store: Store, clock: HeldClock, lease: Lease) -> None:
    clock.tick(2 * MINUTE)


async def as_it_is(store: Store, clock: HeldClock, lease: Lease) -> None:
    pass


WAYS = {
    "its worker completes it": (as_it_is, complete),
    "it is ended in the queue": (given_back, end),
    "its worker lets go of it": (ended, let_go),
    "its attempts are used up": (dead, expire),
}


@pytest.mark.parametrize("named", [True, False], ids=["named", "newest"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_run_created_while_its_base_ends_may_be_claimed(
    two: TwoWriters, store: Store, clock: HeldClock, way: str, named: bool
) -> None:
    before, over = WAYS[way]
    bases = set()

    async def scene() -> Any:
        lease = await running(store, "begin", values={"plan": ["old"], "todo": []})
        await before(store, clock, lease)
        base: RunBase | UnsetType = RunBase(run_id=lease.run_id) if named else UNSET
        new = NewRun(thread=lease.thread_id, messages=[user("and then")], base=base)

        async def check(created: object, outcome: object) -> None:
            assert isinstance(created, CreatedRun)
            assert outcome is None
            bases.add(created.run.status)
            run = await get(store, created.run.id)
            assert run.base_run_id == lease.run_id
            assert run.status is RunStatus.QUEUED
            history = await store.messages.history(SPACE, run.id)
            assert [message.sequence for message in history] == list(range(len(history)))
            assert history[-1].content == "and then"
            assert await store.values.of_run(SPACE, run.id) == await store.values.of_run(SPACE, lease.run_id)
            claimed = await claim(store)
            assert claimed.run_id == run.id
            await commit(store, claimed, move=COMPLETED)

        return two.first.runs.create(SPACE, new), over(two.second, lease), check

    await two.explore(scene)
    assert bases == {RunStatus.PENDING, RunStatus.QUEUED}


async def test_a_run_on_a_base_that_is_ended_while_its_own_base_ends_may_be_claimed(
    two: TwoWriters, store: Store
) -> None:
    async def scene() -> Any:
        base = await running(store, "one")
        between = await run_after(store, base.run, "two")
        last = await run_after(store, between, "three")

        async def check(ended: object, completed: object) -> None:
            assert isinstance(ended, list)
            assert completed is None
            claimed = await claim(store)
            assert claimed.run_id == last.id
            assert await store.values.of_run(SPACE, last.id) == {"plan": ["new"]}
            history = await store.messages.history(SPACE, last.id)
            assert [message.content for message in history] == ["one", "done", "two", "three"]
            await commit(store, claimed, move=COMPLETED)

        return two.first.runs.end(SPACE, between.id), complete(two.second, base), check

    await two.explore(scene)
