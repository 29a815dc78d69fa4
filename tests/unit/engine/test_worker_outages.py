"""A worker survives an unavailable store: it retries, and logs that once."""

import logging

import pytest

from holdfast.bus.local import LocalBus
from holdfast.domain.errors import Unavailable
from holdfast.domain.run import RunStatus
from holdfast.engine.loops import FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS, StoreOutage
from holdfast.store.store import Store
from tests.conformance.run_builders import queued
from tests.unit.engine.workers import (
    SHORT_HEARTBEAT,
    Actor,
    ObservedLeases,
    complete_run,
    running_worker,
    wait_for_status,
)


async def test_a_worker_survives_an_unavailable_store(
    store: Store, bus: LocalBus, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="holdfast")
    leases = ObservedLeases(store.leases)
    leases.unavailable = {"claim", "renew", "release", "expire", "queue"}
    run = await queued(store, "hi")
    async with running_worker(
        store, bus, Actor(complete_run(store)), leases=leases, heartbeat=SHORT_HEARTBEAT, fallback_seconds=0.01
    ):
        await leases.wait_for_calls("claim", times=3)
        await leases.wait_for_calls("expire", times=3)
        leases.unavailable = set()
        await wait_for_status(store, run, RunStatus.COMPLETED)
        await leases.wait_for_calls("expire", times=2)
    claiming = [record.getMessage() for record in caplog.records if "claiming runs" in record.getMessage()]
    assert len(claiming) == 2, "once when it began, once when it was over"
    assert "does not respond" in claiming[0] and "as the test says" in claiming[0] and "recovered" in claiming[1]


def test_retry_delays_grow_up_to_a_limit_and_reset_after_a_success() -> None:
    outage = StoreOutage("doing this")
    pauses = [outage.next_delay(Unavailable("down")) for _ in range(40)]
    assert pauses[0] == FIRST_RETRY_SECONDS and pauses[-1] == MAX_RETRY_SECONDS
    assert pauses == sorted(pauses)
    outage.note_recovered()
    assert outage.next_delay(Unavailable("down")) == FIRST_RETRY_SECONDS
