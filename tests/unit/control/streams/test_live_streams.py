"""The stream of a new run: it starts with the first events, and misses none after them."""

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
TIMEOUT_SECONDS: Final = 20.0


@pytest.fixture
def bus() -> LocalBus:
    return LocalBus()


@pytest.fixture
async def store(tmp_path: Path, bus: LocalBus) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "holdfast.db", bus=bus) as store:
        await store.spaces.create(SPACE, name="Acme")
        yield store


@pytest.fixture
async def streams(store: Store, bus: LocalBus) -> AsyncIterator[LiveStreams]:
    """Yield streams whose watcher relies on hints alone: its fallback interval is an hour."""
    watcher = Watcher(bus=bus, events=store.events, leases=store.leases, clock=SystemClock(), fallback_seconds=3600)
    watching = asyncio.ensure_future(watcher.run())
    await asyncio.sleep(0)  # it receives hints from here on
    live_streams = LiveStreams(
        spaces=store.spaces,
        runs=store.runs,
        events=store.events,
        notifications=store.notifications,
        watcher=watcher,
    )
    async with asyncio.timeout(TIMEOUT_SECONDS), live_streams:
        yield live_streams
    watching.cancel()
    await asyncio.wait([watching])


def poll_seqs(subscriber: Subscriber) -> list[int]:
    batch = subscriber.poll()
    return [item.seq for item in batch.items] if isinstance(batch, EventBatch) else []


async def rest(subscriber: Subscriber) -> list[int]:
    """Return the sequence numbers of all events until the run has ended."""
    seqs: list[int] = []
    while (batch := await subscriber.next()) is not StreamEnd.ENDED:
        if isinstance(batch, EventBatch):
            seqs += [item.seq for item in batch.items]
    return seqs


async def test_the_first_events_of_a_new_run_are_available_at_once(store: Store, streams: LiveStreams) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    with streams.subscribe_new_run(run) as subscriber:
        assert poll_seqs(subscriber) == [1]


async def test_no_event_is_missed_before_the_first_read_of_the_log(store: Store, streams: LiveStreams) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    lease = await claim(store)
    with streams.subscribe_new_run(run) as subscriber:
        first = poll_seqs(subscriber)
        ending = asyncio.ensure_future(finish(store, lease))
        seqs = [*first, *await rest(subscriber)]
        await ending
    last = (await store.runs.get(SPACE, run.id)).last_event_seq
    assert seqs == list(range(1, last + 1))
