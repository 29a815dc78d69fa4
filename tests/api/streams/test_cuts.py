"""A stream can be cut anywhere and resumed: replay and live events together are the log, byte for byte."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Final

import pytest

from holdfast.api.streams.sse import PING
from holdfast.control.streams.broadcast import WINDOW_BYTES, Subscriber
from tests.api.site import Site
from tests.api.streams.manual_run import ManualRun, start_manual_run
from tests.api.streams.readers import event_of, sse, ws

CUTS_PER_READER: Final = 160
"""There are eight readers on each backend."""
READERS_PER_TRANSPORT: Final = 4
TEXT_LINES: Final = (1, 1, 40, 400)
"""Lengths of a text event in lines: enough that a reader that falls behind must read the log, on each backend."""

Events = list[tuple[int, bytes]]


class EventProducer:
    """Appends events to a run as its readers request them."""

    def __init__(self, manual_run: ManualRun, random: Random) -> None:
        self._run = manual_run
        self._random = random
        self._requested: asyncio.Queue[int] = asyncio.Queue()
        self._total = 1

    def request(self, received: Events, count: int) -> None:
        """Append events until a reader can receive `count` more than it has."""
        missing = len(received) + count - self._total
        if missing > 0:
            self._total += missing
            self._requested.put_nowait(missing)

    async def run(self, readers: list[asyncio.Task[None]], cuts: asyncio.Event) -> None:
        """Append events until all cuts are made, then finish the run."""
        while not cuts.is_set():
            next_request = asyncio.ensure_future(self._requested.get())
            done = asyncio.ensure_future(cuts.wait())
            await asyncio.wait({next_request, done, *readers}, return_when=asyncio.FIRST_COMPLETED)
            if next_request.done():
                await self._append(next_request.result())
            next_request.cancel()
            done.cancel()
        await self._run.finish()

    async def _append(self, count: int) -> None:
        while count > 0:
            some = self._random.randint(1, count)
            await self._run.say(*(self._text() for _ in range(some)))
            count -= some

    def _text(self) -> str:
        return f"{self._random.random()} ü\n" * self._random.choice(TEXT_LINES)


class CutCounter:
    """Counts cuts down to zero."""

    def __init__(self, count: int) -> None:
        self.remaining = count
        self.all_made = asyncio.Event()

    def count(self) -> None:
        """Count one cut."""
        self.remaining -= 1
        if self.remaining == 0:
            self.all_made.set()


@pytest.fixture
def log_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yield the positions from which subscribers read the log instead of the shared window."""
    positions: list[int] = []
    catch_up = Subscriber._catch_up

    async def recorded(subscriber: Subscriber) -> None:
        positions.append(subscriber.position)
        await catch_up(subscriber)

    monkeypatch.setattr(Subscriber, "_catch_up", recorded)
    yield positions


async def test_2560_cuts_lose_and_repeat_no_event(backend_site: Site, log_reads: list[int]) -> None:
    random = Random(4)
    manual_run = await start_manual_run(backend_site.store)
    producer, cuts = EventProducer(manual_run, random), CutCounter(2 * READERS_PER_TRANSPORT * CUTS_PER_READER)
    late_reader: Events = []
    received: list[Events] = [[] for _ in range(2 * READERS_PER_TRANSPORT)]
    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        readers = [
            tasks.create_task(read(backend_site, manual_run, producer, cuts, own_events, Random(n)))
            for n, (own_events, read) in enumerate(
                zip(received, READERS_PER_TRANSPORT * [_read_sse, _read_ws], strict=True)
            )
        ]
        await producer.run(readers, cuts.all_made)
        tasks.create_task(_read_from_the_start(backend_site, manual_run, late_reader))
    log = await backend_site.log(manual_run.id)
    assert sum(len(data) for _, data in log) > 4 * WINDOW_BYTES
    assert log_reads  # by the late reader at least
    for events in (*received, late_reader):
        assert events == log


async def _read_sse(
    site: Site, manual_run: ManualRun, producer: EventProducer, cuts: CutCounter, events: Events, random: Random
) -> None:
    path = f"/api/runs/{manual_run.id}/sse"
    for remaining in range(CUTS_PER_READER, -1, -1):
        event_limit = _random_limit(random) if remaining else None
        producer.request(events, event_limit or 0)
        async with sse(site.host, path, after=len(events) or None) as stream:
            await _read_events(stream.events(), events, event_limit)
        if remaining:
            cuts.count()


async def _read_from_the_start(site: Site, manual_run: ManualRun, events: Events) -> None:
    """Read a run whose first events have left the shared window."""
    async with sse(site.host, f"/api/runs/{manual_run.id}/sse") as stream:
        await _read_events(stream.events(), events, None)


async def _read_events(frames: object, events: Events, event_limit: int | None) -> None:
    if event_limit == 0:
        return
    async for frame in frames:  # type: ignore[attr-defined]
        events.append((frame.id, frame.data))
        event_limit = None if event_limit is None else event_limit - 1
        if event_limit == 0:
            return


async def _read_ws(
    site: Site, manual_run: ManualRun, producer: EventProducer, cuts: CutCounter, events: Events, random: Random
) -> None:
    for remaining in range(CUTS_PER_READER, -1, -1):
        event_limit = _random_limit(random) if remaining else None
        producer.request(events, event_limit or 0)
        async with ws(site.host, f"/api/runs/{manual_run.id}/ws?last_event_id={len(events)}") as socket:
            if event_limit == 0:
                cuts.count()
                continue
            async for text in socket:
                if text == PING:
                    continue
                events.append(event_of(text))
                event_limit = None if event_limit is None else event_limit - 1
                if event_limit == 0:
                    break
        if remaining:
            cuts.count()


def _random_limit(random: Random) -> int:
    return random.choice((0, 1, 1, 2, 3, 5, 40))
