"""Lease metrics of a real store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Commit
from holdfast.domain.errors import LeaseLost
from holdfast.metrics.meters import Meters
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE, claim
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import running


@pytest.fixture
def meters() -> Meters:
    return Meters()


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
async def store(tmp_path: Path, meters: Meters, clock: HeldClock) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "holdfast.db", bus=LocalBus(), clock=clock, meters=meters) as store:
        await store.spaces.create(SPACE, name="Acme")
        yield store


async def test_an_expired_lease_is_counted_as_expired_and_as_lost(
    store: Store, meters: Meters, clock: HeldClock
) -> None:
    stale = await running(store)
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    clock.tick(MINUTE)
    await claim(store)
    with pytest.raises(LeaseLost):
        await store.journal.commit(Commit(lease=stale))
    with pytest.raises(LeaseLost):
        await store.leases.release(stale)
    assert (meters.claimed.value, meters.leases_expired.value, meters.leases_lost.value) == (2, 1, 1)
    assert {outcome: number.value for (outcome,), number in meters.commits} == {"done": 0, "lease_lost": 1}


async def test_the_lease_of_an_ended_run_is_not_counted_as_lost(store: Store, meters: Meters) -> None:
    lease = await running(store)
    await store.runs.end(SPACE, lease.run_id)
    await store.leases.release(lease)
    assert meters.leases_lost.value == 0
    assert meters.ended.of("cancelled").value == 1
