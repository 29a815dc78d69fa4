"""Plan item numbers: reserved per thread, by the step that creates the item."""

import asyncio

from holdfast.domain.commit import Lease
from holdfast.domain.idempotency import step_key
from holdfast.domain.new_run import RunBase
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, claim, new_thread
from tests.conformance.conftest import SPACE
from tests.conformance.conversations import base_on, claim_run, completed_run, create_run
from tests.conformance.run_builders import COMPLETED, child_of, commit, running


async def number(store: Store, lease: Lease, step: int) -> int:
    """Reserve the plan item number for a step of a run."""
    return await store.journal.next_task_id(lease, step=step_key(lease.run_id, step))


async def test_the_items_of_plans_are_numbered_from_one_along_their_thread(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = await claim_run(store, await create_run(store, thread, "one"))
    assert [await number(store, first, step) for step in (1, 2, 5)] == [1, 2, 3]
    await commit(store, first, move=COMPLETED)
    second = await claim_run(store, await create_run(store, thread, "two"))
    assert await number(store, second, 1) == 4
    child = await claim_run(store, await child_of(store, second.run_id))
    elsewhere = await running(store)
    assert [await number(store, lease, 7) for lease in (child, elsewhere, second)] == [1, 1, 5]


async def test_branches_of_a_thread_share_the_numbers(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await completed_run(store, thread, "q", "a")
    forks = [await create_run(store, thread, str(n), base=RunBase(run_id=base.id)) for n in range(3)]
    leases = [await claim_run(store, run) for run in forks]
    assert [await number(store, lease, step) for step in (1, 2) for lease in leases] == [1, 2, 3, 4, 5, 6]


async def test_a_repeated_step_gets_the_same_number(store: Store, clock: HeldClock) -> None:
    first = await running(store)
    assert [await number(store, first, step) for step in (1, 2, 1)] == [1, 2, 1]
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    clock.tick(MINUTE)
    again = await claim(store, SECOND)
    assert [await number(store, again, step) for step in (2, 1, 3)] == [2, 1, 3]


async def test_no_item_number_is_given_twice(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await completed_run(store, thread, "keep", "a")
    lease = await claim_run(store, await create_run(store, thread, "gone"))
    assert await number(store, lease, 1) == 1
    await commit(store, lease, move=COMPLETED)
    await store.runs.delete(SPACE, lease.run_id)
    following = await claim_run(store, await create_run(store, thread, "next", base=base_on(base)))
    assert await number(store, following, 1) == 2


async def test_concurrent_steps_receive_different_numbers(stores: list[Store]) -> None:
    thread = await new_thread(stores[0], SPACE)
    base = await completed_run(stores[0], thread, "q", "a")
    for text in range(5):
        await create_run(stores[0], thread, str(text), base=base_on(base))
    leases = await stores[0].leases.claim(FIRST, lease=MINUTE, limit=5)

    async def take(lease: Lease, store: Store) -> list[int]:
        return [await number(store, lease, step) for step in range(8)]

    taken = await asyncio.gather(*(take(lease, stores[n % len(stores)]) for n, lease in enumerate(leases)))
    assert all(numbers == sorted(numbers) for numbers in taken)
    assert sorted(each for numbers in taken for each in numbers) == list(range(1, 41))


async def test_concurrent_requests_of_one_step_get_the_same_number(stores: list[Store]) -> None:
    lease = await running(stores[0])
    taken = await asyncio.gather(*(number(stores[n % len(stores)], lease, n // 4) for n in range(16)))
    assert sorted(taken) == [each for each in (1, 2, 3, 4) for _ in range(4)]
