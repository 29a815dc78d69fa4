"""The feed of a run: it begins with what is at hand, and misses nothing after that."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from holdfast.bootstrap import SystemClock, open_store
from holdfast.bus.local import LocalBus
from holdfast.control.streams.broadcast import EventBatch, StreamEnd, Subscriber
from holdfast.control.streams.live_streams import LiveStreams
from holdfast.domain.ids import SpaceId
from holdfast.engine.watcher import Watcher
from holdfast.store.store import Store
from tests.builders import claim, finish, new_run, new_thread

SPACE: Final = SpaceId("acme")
LIMIT: Final = 20.0


@pytest.fixture
def bus() -> LocalBus:
    return LocalBus()


@pytest.fixture
async def store(tmp_path: Path, bus: LocalBus) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "holdfast.db", bus=bus) as store:
        await store.spaces.create(SPACE, name="Acme")
        yield store


@pytest.fixture
async def feeds(store: Store, bus: LocalBus) -> AsyncIterator[LiveStreams]:
    """Yield feeds of a process that never looks again at what it was told."""
    watcher = Watcher(bus=bus, events=store.events, leases=store.leases, clock=SystemClock(), fallback_seconds=3600)
    watching = asyncio.ensure_future(watcher.run())
    await asyncio.sleep(0)  # it hears hints from here on
    made = LiveStreams(
        spaces=store.spaces,
        runs=store.runs,
        events=store.events,
        notifications=store.notifications,
        watcher=watcher,
    )
    async with asyncio.timeout(LIMIT), made:
        yield made
    watching.cancel()
    await asyncio.wait([watching])


def taken(follower: Subscriber) -> list[int]:
    found = follower.poll()
    return [item.seq for item in found.items] if isinstance(found, EventBatch) else []


async def rest(follower: Subscriber) -> list[int]:
    """Return the numbers of all that comes until the run has ended."""
    seqs: list[int] = []
    while (found := await follower.next()) is not StreamEnd.ENDED:
        if isinstance(found, EventBatch):
            seqs += [item.seq for item in found.items]
    return seqs


async def test_what_a_new_run_begins_with_is_at_hand_at_once(store: Store, feeds: LiveStreams) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    with feeds.subscribe_new_run(run) as follower:
        assert taken(follower) == [1]


async def test_nothing_is_missed_of_what_comes_before_the_feed_reads(store: Store, feeds: LiveStreams) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    lease = await claim(store)
    with feeds.subscribe_new_run(run) as follower:
        first = taken(follower)
        ending = asyncio.ensure_future(finish(store, lease))
        seqs = [*first, *await rest(follower)]
        await ending
    last = (await store.runs.get(SPACE, run.id)).last_event_seq
    assert seqs == list(range(1, last + 1))
