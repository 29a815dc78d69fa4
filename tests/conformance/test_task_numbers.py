"""The numbers of plan items: taken from their thread, by the step that makes each."""

import asyncio

from holdfast.domain.commit import Lease
from holdfast.domain.idempotency import step_key
from holdfast.domain.new_run import RunBase
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, claim, new_thread
from tests.conformance.conftest import SPACE
from tests.conformance.conversations import answered, claimed, make, on
from tests.conformance.scenes import COMPLETED, child_of, commit, running


async def number(store: Store, lease: Lease, step: int) -> int:
    """Take the number of the plan item that a step of a run makes."""
    return await store.journal.next_task_id(lease, step=step_key(lease.run_id, step))


async def test_the_items_of_plans_are_numbered_from_one_along_their_thread(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = await claimed(store, await make(store, thread, "one"))
    assert [await number(store, first, step) for step in (1, 2, 5)] == [1, 2, 3]
    await commit(store, first, move=COMPLETED)
    second = await claimed(store, await make(store, thread, "two"))
    assert await number(store, second, 1) == 4
    child = await claimed(store, await child_of(store, second.run_id))
    elsewhere = await running(store)
    assert [await number(store, lease, 7) for lease in (child, elsewhere, second)] == [1, 1, 5]


async def test_branches_of_a_thread_share_the_numbers(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await answered(store, thread, "q", "a")
    forks = [await make(store, thread, str(n), base=RunBase(run_id=base.id)) for n in range(3)]
    leases = [await claimed(store, run) for run in forks]
    assert [await number(store, lease, step) for step in (1, 2) for lease in leases] == [1, 2, 3, 4, 5, 6]


async def test_a_step_that_asks_again_gets_the_number_it_had(store: Store, clock: HeldClock) -> None:
    first = await running(store)
    assert [await number(store, first, step) for step in (1, 2, 1)] == [1, 2, 1]
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    clock.tick(MINUTE)
    again = await claim(store, SECOND)
    assert [await number(store, again, step) for step in (2, 1, 3)] == [2, 1, 3]


async def test_no_number_of_an_item_is_given_to_two(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await answered(store, thread, "keep", "a")
    lease = await claimed(store, await make(store, thread, "gone"))
    assert await number(store, lease, 1) == 1
    await commit(store, lease, move=COMPLETED)
    await store.runs.delete(SPACE, lease.run_id)
    following = await claimed(store, await make(store, thread, "next", base=on(base)))
    assert await number(store, following, 1) == 2


async def test_many_that_take_numbers_at_once_receive_different_ones(stores: list[Store]) -> None:
    thread = await new_thread(stores[0], SPACE)
    base = await answered(stores[0], thread, "q", "a")
    for text in range(5):
        await make(stores[0], thread, str(text), base=on(base))
    leases = await stores[0].leases.claim(FIRST, lease=MINUTE, limit=5)

    async def take(lease: Lease, store: Store) -> list[int]:
        return [await number(store, lease, step) for step in range(8)]

    taken = await asyncio.gather(*(take(lease, stores[n % len(stores)]) for n, lease in enumerate(leases)))
    assert all(numbers == sorted(numbers) for numbers in taken)
    assert sorted(each for numbers in taken for each in numbers) == list(range(1, 41))


async def test_whoever_asks_twice_at_once_for_one_step_gets_one_number(stores: list[Store]) -> None:
    lease = await running(stores[0])
    taken = await asyncio.gather(*(number(stores[n % len(stores)], lease, n // 4) for n in range(16)))
    assert sorted(taken) == [each for each in (1, 2, 3, 4) for _ in range(4)]
