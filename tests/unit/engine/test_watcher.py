"""Streams wait on the watcher; it must never let one sleep, whatever happens to the hints."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Commit
from holdfast.domain.ids import RunId, SpaceId
from holdfast.engine.watcher import Watcher
from holdfast.ports.bus import Bus, Wake
from holdfast.store.store import Store
from tests.builders import claim, finish, new_run, new_thread, spoken

SPACE = SpaceId("acme")


class DeafBus(LocalBus):
    """A bus that loses every hint."""

    def publish(self, wake: Wake) -> None:
        pass


@pytest.fixture(params=[LocalBus, DeafBus])
def bus(request: pytest.FixtureRequest) -> LocalBus:
    made: LocalBus = request.param()
    return made


@pytest.fixture
async def store(bus: LocalBus, tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "holdfast.db", bus=bus) as store:
        await store.spaces.create(SPACE, name="Acme")
        yield store


@asynccontextmanager
async def watching(store: Store, bus: Bus) -> AsyncIterator[Watcher]:
    watcher = Watcher(bus=bus, events=store.events, leases=store.leases, patience=0.02)
    async with asyncio.timeout(20):
        task = asyncio.get_running_loop().create_task(watcher.run())
        try:
            yield watcher
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_a_stream_hears_of_what_is_committed(store: Store, bus: LocalBus) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    lease = await claim(store)
    async with watching(store, bus) as watcher:
        with watcher.watch(SPACE, run.id) as watch:
            head = await watch.beyond(0)
            assert head is not None and head.last_event_seq == 1
            waiting = asyncio.gather(watch.beyond(1))
            await store.journal.commit(Commit(lease=lease, events=spoken("hello")))
            (head,) = await waiting
            assert head is not None and head.last_event_seq == 4


async def test_many_streams_of_one_run_hear_of_its_end(store: Store, bus: LocalBus) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    lease = await claim(store)

    async def follow(watcher: Watcher) -> list[int]:
        seen = [0]
        with watcher.watch(SPACE, run.id) as watch:
            while (head := await watch.beyond(seen[-1])) is not None:
                seen.append(head.last_event_seq)
                if head.status.terminal:
                    break
        return seen

    async with watching(store, bus) as watcher:
        followers = asyncio.gather(*[follow(watcher) for _ in range(50)])
        await store.journal.commit(Commit(lease=lease, events=spoken("hello")))
        await finish(store, lease)
        assert {seen[-1] for seen in await followers} == {7}


async def test_a_run_that_is_not_there_is_not_waited_for(store: Store, bus: LocalBus) -> None:
    async with watching(store, bus) as watcher:
        with watcher.watch(SPACE, RunId("nowhere")) as watch:
            assert await watch.beyond(0) is None


async def test_a_stream_hears_that_its_run_was_ended_from_outside(store: Store, bus: LocalBus) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    async with watching(store, bus) as watcher:
        with watcher.watch(SPACE, run.id) as watch:
            waiting = asyncio.gather(watch.beyond(1))
            await store.runs.end(SPACE, run.id)
            (head,) = await waiting
            assert head is not None and head.status.terminal


async def test_work_is_announced(store: Store, bus: LocalBus) -> None:
    thread = await new_thread(store, SPACE)
    async with watching(store, bus) as watcher:
        waiting = asyncio.gather(watcher.work())
        await new_run(store, SPACE, thread, "hi")
        await waiting


async def test_a_watch_that_nobody_uses_is_forgotten(store: Store, bus: LocalBus) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    async with watching(store, bus) as watcher:
        with watcher.watch(SPACE, run.id) as first, watcher.watch(SPACE, run.id) as second:
            assert first is second
        with watcher.watch(SPACE, run.id) as third:
            assert third is not first
