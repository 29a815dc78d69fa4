"""A stream can be cut anywhere and resumed: replay and live together are the whole log, byte for byte."""

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

CUTS: Final = 160
"""Of each reader; there are eight of them on each backend."""
READERS: Final = 4
LENGTHS: Final = (1, 1, 40, 400)
"""Of what is said, in lines: so much that who falls behind the others finds it in the log alone, on any backend."""
REPLAYS: Final = 200
"""How often, at least, somebody reads the log who is behind what is kept for all."""

Seen = list[tuple[int, bytes]]


class Pump:
    """Lets a run go on as long as somebody reads it live: who comes to its end has it say more."""

    def __init__(self, manual_run: ManualRun, random: Random) -> None:
        self._hand = manual_run
        self._random = random
        self._wanted: asyncio.Queue[int] = asyncio.Queue()
        self._promised = 1

    def want(self, seen: Seen, events: int) -> None:
        """Have as much said as a reader lacks that wants to see so many more events."""
        lacking = len(seen) + events - self._promised
        if lacking > 0:
            self._promised += lacking
            self._wanted.put_nowait(lacking)

    async def run(self, readers: list[asyncio.Task[None]], cuts: asyncio.Event) -> None:
        """Go on until all cuts are made, then finish the run."""
        while not cuts.is_set():
            getting = asyncio.ensure_future(self._wanted.get())
            done = asyncio.ensure_future(cuts.wait())
            await asyncio.wait({getting, done, *readers}, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                await self._say(getting.result())
            getting.cancel()
            done.cancel()
        await self._hand.finish()

    async def _say(self, events: int) -> None:
        while events > 0:
            some = self._random.randint(1, events)
            await self._hand.say(*(self._text() for _ in range(some)))
            events -= some

    def _text(self) -> str:
        return f"{self._random.random()} ü\n" * self._random.choice(LENGTHS)


class Cuts:
    """Counts cuts down."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.made = asyncio.Event()

    def make(self) -> None:
        """Make one more."""
        self.left -= 1
        if self.left == 0:
            self.made.set()


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yield the places from which somebody read the log, not what is kept of it."""
    places: list[int] = []
    catch_up = Subscriber._catch_up

    async def noted(follower: Subscriber) -> None:
        places.append(follower.position)
        await catch_up(follower)

    monkeypatch.setattr(Subscriber, "_catch_up", noted)
    yield places


async def test_2560_cuts_lose_and_double_nothing(backend_site: Site, replays: list[int]) -> None:
    random = Random(4)
    manual_run = await start_manual_run(backend_site.store)
    pump, cuts = Pump(manual_run, random), Cuts(2 * READERS * CUTS)
    seen: list[Seen] = [[] for _ in range(2 * READERS)]
    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        readers = [
            tasks.create_task(read(backend_site, manual_run, pump, cuts, mine, Random(n)))
            for n, (mine, read) in enumerate(zip(seen, READERS * [_read_sse, _read_ws], strict=True))
        ]
        await pump.run(readers, cuts.made)
    log = await backend_site.log(manual_run.id)
    assert sum(len(data) for _, data in log) > 4 * WINDOW_BYTES
    assert len(replays) > REPLAYS
    for each in seen:
        assert each == log


async def _read_sse(site: Site, manual_run: ManualRun, pump: Pump, cuts: Cuts, seen: Seen, random: Random) -> None:
    path = f"/api/runs/{manual_run.id}/sse"
    for left in range(CUTS, -1, -1):
        most = _most(random) if left else None
        pump.want(seen, most or 0)
        async with sse(site.host, path, after=len(seen) or None) as stream:
            await _take(stream.events(), seen, most)
        if left:
            cuts.make()


async def _take(frames: object, seen: Seen, most: int | None) -> None:
    if most == 0:
        return
    async for frame in frames:  # type: ignore[attr-defined]
        seen.append((frame.id, frame.data))
        most = None if most is None else most - 1
        if most == 0:
            return


async def _read_ws(site: Site, manual_run: ManualRun, pump: Pump, cuts: Cuts, seen: Seen, random: Random) -> None:
    for left in range(CUTS, -1, -1):
        most = _most(random) if left else None
        pump.want(seen, most or 0)
        async with ws(site.host, f"/api/runs/{manual_run.id}/ws?last_event_id={len(seen)}") as socket:
            if most == 0:
                cuts.make()
                continue
            async for text in socket:
                if text == PING:
                    continue
                seen.append(event_of(text))
                most = None if most is None else most - 1
                if most == 0:
                    break
        if left:
            cuts.make()


def _most(random: Random) -> int:
    return random.choice((0, 1, 1, 2, 3, 5, 40))
