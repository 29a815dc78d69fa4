"""A process that delivers webhooks is killed: each event arrives at least once, and those of a run in their order."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Final

import msgspec
import pytest

from holdfast.bootstrap import open_store
from holdfast.domain.errors import LeaseLost
from holdfast.domain.instant import Millis
from holdfast.domain.webhook import AttemptResult, NewWebhook
from holdfast.testing.clock import HeldClock
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import WAITING_FOR_PERSON, commit, new_interrupt, running
from tests.scenario.conftest import Location, NewLocation
from tests.scenario.stage import START
from tests.scenario.webhook_victim import HOOK, DeliveryTask
from tests.support.fork_server import ForkServer
from tests.support.webhook_receiver import Receiver, receiving

GENERATION_MS: Final = 120_000
"""Time between two processes, longer than the claims of the dead."""
SECRET: Final = "whsec_c2VjcmV0"


@pytest.fixture
async def delivering() -> AsyncIterator[ForkServer]:
    async with ForkServer("tests.scenario.webhook_victim:work") as server:
        yield server


async def add_events(location: Location, receiver: Receiver, now: int, *, runs: int) -> list[str]:
    """Let runs wait and then fail, which are two events of each; return the runs."""
    found: list[str] = []
    async with open_store(location, clock=HeldClock(Millis(now))) as store:
        if now == START:
            await store.spaces.create(SPACE, name="Acme")
            new = NewWebhook(id=HOOK, url=receiver.url, events=["run.*"], secret=SECRET)
            await store.webhooks.create(SPACE, new)
        for _ in range(runs):
            lease = await running(store)
            await commit(store, lease, interrupts=[new_interrupt(f"ask-{lease.run_id}")], move=WAITING_FOR_PERSON)
            await store.runs.end(SPACE, lease.run_id, reason="enough")
            found.append(lease.run_id)
    return found


def check_received(receiver: Receiver, runs: list[str]) -> None:
    ids: dict[tuple[str, str | None], set[str]] = {}
    for (headers, _), event in zip(receiver.requests, receiver.events, strict=True):
        ids.setdefault(event, set()).add(headers["webhook-id"])
    assert {*ids} == {(kind, run) for run in runs for kind in ("run.waiting", "run.cancelled")}
    assert all(len(each) == 1 for each in ids.values()), "an event that is sent again keeps its id"
    for run in runs:
        kinds = [kind for kind, of_run in receiver.events if of_run == run]
        assert kinds == sorted(kinds, reverse=True), kinds  # waiting … before cancelled …


async def test_a_file_that_is_opened_again_sends_at_once_what_a_dead_process_had_begun(tmp_path: Path) -> None:
    location = tmp_path / "holdfast.db"
    async with receiving() as receiver:
        await add_events(location, receiver, START, runs=1)
    async with open_store(location, clock=HeldClock(Millis(START))) as store:
        await store.notifications.dispatch()
        begun = await store.webhooks.claim(lease=timedelta(minutes=1), limit=9)
        assert begun and await store.webhooks.claim(lease=timedelta(minutes=1), limit=9) == []
    async with open_store(location, clock=HeldClock(Millis(START))) as store:
        again = await store.webhooks.claim(lease=timedelta(minutes=1), limit=9)
        assert [each.id for each in again] == [each.id for each in begun]
        with pytest.raises(LeaseLost):
            await store.webhooks.settle(begun[0], AttemptResult(status=200))


@pytest.mark.parametrize("stride", [12, pytest.param(1, marks=pytest.mark.slow)])
async def test_a_kill_at_a_commit_point_loses_no_delivery_and_keeps_the_order(
    delivering: ForkServer, new_location: NewLocation, stride: int
) -> None:
    """The points are `stride` apart on average; with 1 it is every one."""
    location, random, now, fatal, kills, repeated = await new_location(), Random(20), START, 0, 0, 0
    async with receiving() as receiver:
        while True:
            receiver.requests.clear()
            runs = await add_events(location, receiver, now, runs=2)
            fatal += random.randint(1, 2 * stride - 1)
            task = DeliveryTask(database=str(location), now=now, fatal=fatal)
            killed = await delivering.send(msgspec.to_builtins(task))
            now += GENERATION_MS
            if killed.killed:
                kills += 1
                await delivering.send(msgspec.to_builtins(DeliveryTask(database=str(location), now=now)))
                now += GENERATION_MS
            check_received(receiver, runs)
            repeated += len(receiver.requests) - 2 * len(runs)
            if not killed.killed:
                break
    assert kills >= (30 if stride == 1 else 2) and (repeated > 0 or stride > 1)
