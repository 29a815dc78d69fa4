"""The watcher wakes every waiting stream, even if hints are lost."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from holdfast.bootstrap import SystemClock, open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Commit
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import Instant, Millis, instant, millis
from holdfast.domain.new_run import NewRun
from holdfast.domain.thread import NewThread
from holdfast.engine.watcher import Watcher
from holdfast.ports.bus import WAKEUP_FALLBACK_SECONDS, Bus, WakeHint
from holdfast.ports.log import EventLog, LoggedEvent, LogHead
from holdfast.store.store import Store
from tests.builders import claim, finish, new_run, new_thread, text_events
from tests.unit.engine.workers import LossyBus

SPACE = SpaceId("acme")


@pytest.fixture(params=[LocalBus, LossyBus])
def bus(request: pytest.FixtureRequest) -> LocalBus:
    local_bus: LocalBus = request.param()
    return local_bus


@pytest.fixture
async def store(bus: LocalBus, tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "holdfast.db", bus=bus) as store:
        await store.spaces.create(SPACE, name="Acme")
        yield store


@asynccontextmanager
async def running_watcher(store: Store, bus: Bus, *, fallback_seconds: float = 0.02) -> AsyncIterator[Watcher]:
    watcher = Watcher(
        bus=bus, events=store.events, leases=store.leases, clock=SystemClock(), fallback_seconds=fallback_seconds
    )
    async with asyncio.timeout(60):
        task = asyncio.get_running_loop().create_task(watcher.run())
        await asyncio.sleep(0)  # it subscribes
        try:
            yield watcher
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def expect_hint(watcher: Watcher, matches: Callable[[WakeHint], bool]) -> AsyncIterator[None]:
    """Leave the block once the watcher has received a matching hint."""
    received = asyncio.Event()
    with watcher.listen(lambda wake: received.set() if matches(wake) else None):
        yield
        await received.wait()


async def new_delayed_run(store: Store, seconds: float) -> Instant:
    at = instant(Millis(SystemClock().now() + round(seconds * 1000)))
    await store.runs.create(SPACE, NewRun(thread=NewThread(), wait_until=at))
    return at


async def test_a_stream_is_woken_by_a_commit(store: Store, bus: LocalBus) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    lease = await claim(store)
    async with running_watcher(store, bus) as watcher:
        with watcher.watch(SPACE, run.id) as watch:
            head = await watch.wait_past(0)
            assert head is not None and head.last_event_seq == 1
            waiting = asyncio.gather(watch.wait_past(1))
            await store.journal.commit(Commit(lease=lease, events=text_events("hello")))
            (head,) = await waiting
            assert head is not None and head.last_event_seq == 4


async def test_all_streams_of_a_run_are_woken_by_its_end(store: Store, bus: LocalBus) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    lease = await claim(store)

    async def follow(watcher: Watcher) -> list[int]:
        seen = [0]
        with watcher.watch(SPACE, run.id) as watch:
            while (head := await watch.wait_past(seen[-1])) is not None:
                seen.append(head.last_event_seq)
                if head.status.terminal:
                    break
        return seen

    async with running_watcher(store, bus) as watcher:
        followers = asyncio.gather(*[follow(watcher) for _ in range(50)])
        await store.journal.commit(Commit(lease=lease, events=text_events("hello")))
        await finish(store, lease)
        assert {seen[-1] for seen in await followers} == {7}


async def test_a_wait_for_a_missing_run_returns_at_once(store: Store, bus: LocalBus) -> None:
    async with running_watcher(store, bus) as watcher:
        with watcher.watch(SPACE, RunId("nowhere")) as watch:
            assert await watch.wait_past(0) is None


async def test_a_stream_is_woken_when_its_run_is_ended_from_outside(store: Store, bus: LocalBus) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    async with running_watcher(store, bus) as watcher:
        with watcher.watch(SPACE, run.id) as watch:
            waiting = asyncio.gather(watch.wait_past(1))
            await store.runs.end(SPACE, run.id)
            (head,) = await waiting
            assert head is not None and head.status.terminal


async def test_a_queued_run_is_announced_to_listeners(store: Store, bus: LocalBus) -> None:
    thread = await new_thread(store, SPACE)
    async with running_watcher(store, bus) as watcher, expect_hint(watcher, lambda wake: wake.queue):
        await new_run(store, SPACE, thread, "hi")


async def test_a_run_queued_before_the_watcher_started_is_announced(store: Store, bus: LocalBus) -> None:
    await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    async with running_watcher(store, bus) as watcher, expect_hint(watcher, lambda wake: wake.queue):
        pass


async def test_a_delayed_run_is_announced_when_it_is_due(store: Store, bus: LocalBus) -> None:
    """The fallback interval is needed only if the hint was lost."""
    async with running_watcher(store, bus, fallback_seconds=0.02 if isinstance(bus, LossyBus) else 3600) as watcher:
        delayed = await new_delayed_run(store, 0.15)
        async with expect_hint(watcher, lambda wake: wake.queue and not wake.runs):
            pass
    assert (await store.leases.queue_state()).ready
    assert SystemClock().now() >= millis(delayed)


async def test_a_delayed_run_is_announced_in_time_among_other_hints(store: Store) -> None:
    """There may be too many hints to read the queue for each."""
    bus = LocalBus()
    async with running_watcher(store, bus, fallback_seconds=3600) as watcher:
        for _ in range(10):
            bus.publish(WakeHint(delayed=True))
            await asyncio.sleep(0)
        async with expect_hint(watcher, lambda wake: wake.queue):
            await new_delayed_run(store, 0.05)
            bus.publish(WakeHint(delayed=True))  # the store has a bus of its own
        assert (await store.leases.queue_state()).ready


async def test_a_listener_receives_every_hint(store: Store) -> None:
    bus = LocalBus()
    sent = WakeHint(ended=frozenset({(SPACE, RunId("r"))}), timers=True, news=True)
    async with running_watcher(store, bus) as watcher, expect_hint(watcher, lambda wake: wake == sent):
        bus.publish(sent)


async def test_a_removed_listener_receives_no_hint(store: Store) -> None:
    bus, received = LocalBus(), list[WakeHint]()
    async with running_watcher(store, bus, fallback_seconds=3600) as watcher:
        with watcher.listen(received.append):
            pass
        async with expect_hint(watcher, lambda wake: wake.news):
            bus.publish(WakeHint(news=True))
    assert not any(wake.news for wake in received)


def test_a_lost_hint_costs_at_most_two_seconds() -> None:
    assert WAKEUP_FALLBACK_SECONDS <= 2


async def test_a_lost_hint_is_recovered_while_other_hints_arrive(store: Store) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    loud, events = LocalBus(), store.events
    watcher = Watcher(bus=loud, events=events, leases=store.leases, clock=SystemClock(), fallback_seconds=0.05)

    async def publish_hints() -> None:
        while True:
            loud.publish(WakeHint(runs=frozenset({(SPACE, RunId("another"))})))
            await asyncio.sleep(0)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        noise_tasks = [tasks.create_task(watcher.run()), tasks.create_task(publish_hints())]
        with watcher.watch(SPACE, run.id) as watch:
            assert await watch.wait_past(0) is not None
            waiting = tasks.create_task(watch.wait_past(1))
            await store.runs.end(SPACE, run.id)  # the store publishes on another bus
            head = await waiting
            assert head is not None and head.status.terminal
        for task in noise_tasks:
            task.cancel()


class SlowLog:
    """An event log whose reads return when the test says so, with the state at the time of the call."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self.read_started = asyncio.Event()
        self.release = asyncio.Event()

    async def heads(self, runs: Sequence[tuple[SpaceId, RunId]]) -> list[LogHead]:
        """Return the rows read at the time of the call."""
        heads = await self._events.heads(runs)
        self.read_started.set()
        await self.release.wait()
        return heads

    async def after(
        self, space: SpaceId, run: RunId, *, seq: int = 0, limit: int = 1000, types: Sequence[str] | None = None
    ) -> list[LoggedEvent]:
        """Return events."""
        return await self._events.after(space, run, seq=seq, limit=limit, types=types)


@pytest.mark.parametrize("everything", [False, True])
async def test_a_hint_during_a_read_is_handled_by_the_next_read(store: Store, everything: bool) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    bus, events = LocalBus(), SlowLog(store.events)
    hint = WakeHint(everything=True) if everything else WakeHint(runs=frozenset({(SPACE, run.id)}))
    watcher = Watcher(bus=bus, events=events, leases=store.leases, clock=SystemClock(), fallback_seconds=3600)
    events.release.set()
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        watcher_task = tasks.create_task(watcher.run())
        with watcher.watch(SPACE, run.id) as watch:
            assert await watch.wait_past(0) is not None
            waiting = tasks.create_task(watch.wait_past(1))
            events.read_started.clear()
            events.release.clear()
            bus.publish(hint)
            await events.read_started.wait()
            await store.runs.end(SPACE, run.id)
            bus.publish(hint)
            events.release.set()
            head = await waiting
            assert head is not None and head.status.terminal
        watcher_task.cancel()


async def test_a_watch_may_end_while_others_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.engine.watcher.MAX_HEADS_BATCH", 1)
    thread = await new_thread(store, SPACE)
    first, second = [await new_run(store, SPACE, thread, "hi") for _ in range(2)]
    bus, events = LocalBus(), SlowLog(store.events)
    watcher = Watcher(bus=bus, events=events, leases=store.leases, clock=SystemClock(), fallback_seconds=3600)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        with watcher.watch(SPACE, first.id) as watch:
            with watcher.watch(SPACE, second.id):
                watcher_task = tasks.create_task(watcher.run())
                await events.read_started.wait()
            events.release.set()
            await store.runs.end(SPACE, first.id)
            bus.publish(WakeHint(everything=True))
            head = await watch.wait_past(1)
            assert head is not None and head.status.terminal
        watcher_task.cancel()


async def test_appended_events_need_no_read_whether_the_run_is_watched_or_not(store: Store, bus: LocalBus) -> None:
    """Events whose hint was lost must be read from the log."""
    expected = [] if isinstance(bus, LossyBus) else [1]
    async with running_watcher(store, bus, fallback_seconds=3600) as watcher:
        run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
        assert [event.seq for event in watcher.recent_events(SPACE, run.id, 0)] == expected
        with watcher.watch(SPACE, run.id):
            assert [event.seq for event in watcher.recent_events(SPACE, run.id, 0)] == expected
        assert watcher.recent_events(SPACE, RunId("another"), 0) == []


async def test_an_unused_watch_is_removed(store: Store, bus: LocalBus) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    async with running_watcher(store, bus) as watcher:
        with watcher.watch(SPACE, run.id) as first, watcher.watch(SPACE, run.id) as second:
            assert first is second
        with watcher.watch(SPACE, run.id) as third:
            assert third is not first
