"""Claims go round the spaces that wait, and take only from the pools and spaces of the claim."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from holdfast.bootstrap import open_bus, open_store
from holdfast.domain.commit import Lease
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import SpaceId
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move, Priority, Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.domain.worker import ClaimFilter, SpaceQueue
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.run_builders import commit, seconds_from_now
from tests.hints import hints_of

THIRD: Final = SpaceId("third")
TIMEOUT_SECONDS: Final = 30.0
EVERY_POOL: Final = ClaimFilter(pools=("default", "gpu"))


async def made(store: Store, space: SpaceId, count: int = 1, **options: object) -> list[Run]:
    """Create claimable runs."""
    return [(await store.runs.create(space, NewRun(thread=NewThread(), **options))).run for _ in range(count)]  # type: ignore[arg-type]


async def claimed(store: Store, limit: int = 1, where: ClaimFilter | None = None) -> list[Lease]:
    """Claim runs."""
    return await store.leases.claim(FIRST, lease=MINUTE, limit=limit, where=where or ClaimFilter())


async def spaces_in_turn(store: Store, claims: int) -> list[SpaceId]:
    """Return the spaces of runs that are claimed one by one."""
    return [(await claimed(store))[0].space_id for _ in range(claims)]


async def test_a_space_with_many_runs_delays_the_first_of_another_by_one_claim(store: Store) -> None:
    await made(store, SPACE, 20)
    assert {lease.space_id for lease in await claimed(store, 3)} == {SPACE}
    await made(store, OTHER)
    assert OTHER in await spaces_in_turn(store, 2)


async def test_a_claim_takes_of_every_space_that_waits(store: Store) -> None:
    await made(store, SPACE, 20)
    await made(store, OTHER, 2)
    taken = Counter(lease.space_id for lease in await claimed(store, 8))
    assert taken == {SPACE: 6, OTHER: 2}


async def test_claims_of_one_run_go_round_the_spaces(store: Store) -> None:
    await store.spaces.create(THIRD, name="Third")
    for space in (SPACE, OTHER, THIRD):
        await made(store, space, 6)
    turns = await spaces_in_turn(store, 9)
    assert all(set(turns[at : at + 3]) == {SPACE, OTHER, THIRD} for at in (0, 3, 6))


async def test_a_space_has_as_many_turns_as_its_weight(store: Store) -> None:
    await store.workers.put_space_queue(SPACE, SpaceQueue(weight=3))
    await made(store, SPACE, 12)
    await made(store, OTHER, 12)
    assert Counter(await spaces_in_turn(store, 8)) == {SPACE: 6, OTHER: 2}
    assert Counter(lease.space_id for lease in await claimed(store, 8)) == {SPACE: 6, OTHER: 2}


async def test_the_priority_orders_the_runs_of_a_space_only(store: Store) -> None:
    (low,), (high,) = await made(store, SPACE, priority=Priority.LOW), await made(store, SPACE, priority=Priority.HIGH)
    (other,) = await made(store, OTHER, priority=Priority.LOW)
    order = [(await claimed(store))[0].run_id for _ in range(3)]
    assert order.index(high.id) < order.index(low.id)
    assert order.index(other.id) < 2


async def test_a_space_never_has_more_runs_at_work_than_its_limit(store: Store) -> None:
    await store.workers.put_space_queue(SPACE, SpaceQueue(max_running=2))
    await made(store, SPACE, 5)
    await made(store, OTHER, 2)
    first = await claimed(store, 10)
    assert Counter(lease.space_id for lease in first) == {SPACE: 2, OTHER: 2}
    assert await claimed(store, 10) == []
    ended = next(lease for lease in first if lease.space_id == SPACE)
    await commit(store, ended, move=Move(to=RunStatus.COMPLETED))
    (second,) = await claimed(store, 10)
    assert second.space_id == SPACE
    await store.runs.end(SPACE, second.run_id, to=RunStatus.CANCELLED)
    assert len(await claimed(store, 10)) == 1
    await store.workers.put_space_queue(SPACE, SpaceQueue())
    assert len(await claimed(store, 10)) == 1


async def test_concurrent_claims_keep_to_the_limit_of_a_space(stores: list[Store]) -> None:
    await stores[0].workers.put_space_queue(SPACE, SpaceQueue(max_running=3))
    await made(stores[0], SPACE, 20)
    taken: list[Lease] = []
    for _ in range(5):
        for leases in await asyncio.gather(*(claimed(store, 2) for store in stores for _ in range(3))):
            taken += leases
        assert len(taken) <= 3
    assert len(taken) == 3


@pytest.mark.parametrize("stops", ["by itself", "cancelled", "limit raised"])
async def test_workers_wake_when_a_space_at_its_limit_has_room(where: str | Path, clock: HeldClock, stops: str) -> None:
    async with open_bus(where) as bus, open_store(where, bus=bus, clock=clock) as store:
        await store.spaces.create(SPACE, name="x")
        await store.workers.put_space_queue(SPACE, SpaceQueue(max_running=1))
        await made(store, SPACE, 2)
        (lease,) = await claimed(store, 5)
        assert await claimed(store, 5) == []
        async with hints_of(bus) as hints:
            if stops == "by itself":
                await commit(store, lease, move=Move(to=RunStatus.COMPLETED))
            elif stops == "cancelled":
                await store.runs.end(SPACE, lease.run_id, to=RunStatus.CANCELLED)
            else:
                await store.workers.put_space_queue(SPACE, SpaceQueue(max_running=2))
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not (await anext(hints)).queue:
                    pass
        assert len(await claimed(store, 5)) == 1


async def test_a_claim_of_one_pool_keeps_the_hint_of_another(where: str | Path, clock: HeldClock) -> None:
    async with open_bus(where) as bus, open_store(where, bus=bus, clock=clock) as store:
        await store.spaces.create(SPACE, name="x")
        async with hints_of(bus) as hints:
            # On SQLite both share a transaction.
            _, taken = await asyncio.gather(made(store, SPACE, pool="gpu"), claimed(store, 5))
            assert taken == []
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not (await anext(hints)).queue:
                    pass


async def test_a_claim_takes_only_from_its_pools(store: Store) -> None:
    (plain,) = await made(store, SPACE)
    (gpu,) = await made(store, SPACE, pool="gpu")
    assert [lease.run_id for lease in await claimed(store, 5)] == [plain.id]
    assert await claimed(store, 5) == []
    assert (await store.leases.queue_state()).ready
    (waiting,) = (await store.workers.queue(SPACE)).items
    assert (waiting.run_id, waiting.pool) == (gpu.id, "gpu")
    assert await claimed(store, 5, ClaimFilter(pools=("cpu",))) == []
    assert [lease.run_id for lease in await claimed(store, 5, ClaimFilter(pools=("gpu",)))] == [gpu.id]


async def test_the_pools_of_a_space_share_its_turns_in_the_order_of_their_runs(store: Store) -> None:
    urgent = await made(store, SPACE, 2, pool="gpu", priority=Priority.HIGH)
    plain = await made(store, SPACE, 2)
    (other,) = await made(store, OTHER)
    order = [(await claimed(store, 1, EVERY_POOL))[0].run_id for _ in range(5)]
    assert other.id in order[:2]
    assert [run for run in order if run != other.id] == [each.id for each in (*urgent, *plain)]


async def test_a_claim_takes_only_from_its_spaces(store: Store) -> None:
    await made(store, SPACE, 2)
    await made(store, OTHER, 2, pool="gpu")
    only_other = ClaimFilter(pools=("default", "gpu"), spaces=(OTHER,))
    assert [lease.space_id for lease in await claimed(store, 10, only_other)] == [OTHER, OTHER]
    assert await claimed(store, 10, only_other) == []
    assert await claimed(store, 10, ClaimFilter(spaces=())) == []
    assert await claimed(store, 10, ClaimFilter(spaces=(SpaceId("none"),))) == []


async def test_a_run_keeps_its_pool_when_it_is_queued_again(store: Store, clock: HeldClock) -> None:
    gpu = ClaimFilter(pools=("gpu",))
    await made(store, SPACE, pool="gpu")
    (released,) = await claimed(store, 1, gpu)
    await store.leases.release(released)
    assert await claimed(store) == []
    assert await claimed(store, 1, gpu)
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    assert await claimed(store) == []
    assert await store.leases.claim(SECOND, lease=MINUTE, where=gpu)


async def test_a_delayed_run_of_another_pool_becomes_claimable_there(store: Store, clock: HeldClock) -> None:
    await made(store, SPACE, pool="gpu", wait_until=seconds_from_now(clock, 60))
    await made(store, OTHER, pool="gpu", wait_until=seconds_from_now(clock, 60))
    clock.tick(2 * MINUTE)
    assert len(await claimed(store, 5, ClaimFilter(pools=("gpu",), spaces=(SPACE,)))) == 1
    assert await claimed(store, 5) == []
    assert len(await claimed(store, 5, ClaimFilter(pools=("gpu",)))) == 1


async def test_many_spaces_and_pools_are_served_completely(store: Store) -> None:
    spaces = [SpaceId(f"s{number}") for number in range(12)]
    for number, space in enumerate(spaces):
        await store.spaces.create(space, name="x")
        await made(store, space, number % 3 + 1, pool="gpu" if number % 2 else "default")
    taken: list[Lease] = []
    while leases := await claimed(store, 5, EVERY_POOL):
        taken += leases
    assert Counter(lease.space_id for lease in taken) == {space: number % 3 + 1 for number, space in enumerate(spaces)}


async def test_the_settings_of_a_space_are_its_own(store: Store) -> None:
    assert await store.workers.space_queue(SPACE) == SpaceQueue()
    await store.workers.put_space_queue(SPACE, SpaceQueue(weight=4, max_running=7))
    assert await store.workers.space_queue(SPACE) == SpaceQueue(weight=4, max_running=7)
    assert await store.workers.space_queue(OTHER) == SpaceQueue()
    for wrong in (SpaceQueue(weight=0), SpaceQueue(weight=101), SpaceQueue(max_running=0)):
        with pytest.raises(Invalid):
            await store.workers.put_space_queue(SPACE, wrong)
    with pytest.raises(NotFound):
        await store.workers.put_space_queue(SpaceId("none"), SpaceQueue())
    await store.spaces.delete(OTHER)
    assert await store.workers.space_queue(SPACE) == SpaceQueue(weight=4, max_running=7)
