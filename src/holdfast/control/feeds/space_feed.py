"""The feed of a space: which of its runs changed, as hints for those who show lists of them.

Hints tell where a run stands now, not how it came there: of many changes at once only the last is told.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import ClassVar, Final

import msgspec
from msgspec.structs import replace

from holdfast.control.feeds.feed import PAGE, Ending, Feed
from holdfast.control.feeds.news_feed import PATIENCE, rung
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.run import Run, RunStatus
from holdfast.ports.bus import RunWatcher, WakeHint
from holdfast.ports.log import EventLog, LogHead
from holdfast.ports.runs import Runs

GAP: Final = 0.1
"""Seconds between two looks: nobody reads a list faster."""
KNOWN: Final = 2000
"""Runs of which it is remembered where they stand."""
NEWEST: Final = 50
"""Runs that are looked at when hints may have been lost."""


class RunHint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands."""

    run_id: RunId
    thread_id: ThreadId
    status: RunStatus
    last_event_seq: int


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A hint on its way to those who follow; its number is of this process only."""

    seq: int
    type: str = "run"
    data: bytes


class SpaceFeed(Feed):
    """The changes of a space's runs, from now on."""

    missing: ClassVar[Ending] = Ending.BEHIND

    def __init__(self, *, space: SpaceId, runs: Runs, events: EventLog, watching: RunWatcher) -> None:
        super().__init__(0)
        self._space = space
        self._runs = runs
        self._events = events
        self._watching = watching
        self._rung = asyncio.Event()
        self._hinted: set[RunId] = set()
        self._all = False
        self._known: OrderedDict[RunId, RunHint] = OrderedDict()

    async def page(self, after: int, *, limit: int = PAGE) -> Sequence[Told]:
        """Return nothing: hints are not kept, so who is too far behind reads the list again."""
        return []

    async def _follow(self) -> None:
        with self._watching.listen(self._hear):
            await self._begin()
            while self.ending is None:
                lost = not await rung(self._rung, within=PATIENCE)
                await self._look(everything=lost or self._all)
                await asyncio.sleep(GAP)

    async def _begin(self) -> None:
        """Take note of where runs stand; after an outage, tell what changed meanwhile."""
        if self._known:
            await self._look(everything=True)
        for run in await self._newest():
            self._remember(_hint(run))

    def _hear(self, wake: WakeHint) -> None:
        self._all = self._all or wake.everything
        self._hinted |= {run for space, run in wake.runs if space == self._space}
        if self._hinted or self._all:
            self._rung.set()

    async def _look(self, *, everything: bool) -> None:
        self._rung.clear()
        self._all = False
        hinted, self._hinted = self._hinted, set()
        if everything:
            self._tell([_hint(run) for run in await self._newest()])
            hinted |= {run for run, hint in self._known.items() if not hint.status.terminal}
        heads = await self._events.heads([(self._space, run) for run in hinted & self._known.keys()])
        fresh = [await self._read(run) for run in hinted - self._known.keys()]
        self._tell([*(self._moved(head) for head in heads), *(hint for hint in fresh if hint is not None)])

    async def _newest(self) -> list[Run]:
        return (await self._runs.page(self._space, limit=NEWEST)).items

    async def _read(self, run: RunId) -> RunHint | None:
        with suppress(NotFound):
            return _hint(await self._runs.get(self._space, run))
        return None

    def _moved(self, head: LogHead) -> RunHint:
        return replace(self._known[head.run_id], status=head.status, last_event_seq=head.last_event_seq)

    def _tell(self, hints: Iterable[RunHint]) -> None:
        news = [hint for hint in hints if self._known.get(hint.run_id) != hint]
        for hint in news:
            self._remember(hint)
        if news:
            encode = msgspec.json.encode
            self.add([Told(seq=seq, data=encode(hint)) for seq, hint in enumerate(news, start=self.last + 1)])

    def _remember(self, hint: RunHint) -> None:
        self._known[hint.run_id] = hint
        self._known.move_to_end(hint.run_id)
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)


def _hint(run: Run) -> RunHint:
    return RunHint(run_id=run.id, thread_id=run.thread_id, status=run.status, last_event_seq=run.last_event_seq)
