"""A session that is followed: its tasks one after the other, and side by side where they are at work so."""

from typing import Final

from holdfast.control.feeds.errors import BadCursor
from holdfast.control.live.trail import Trail, trail_of
from holdfast.control.task_contract.ids import task_id_of
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.page import MAX_PAGE_SIZE
from holdfast.domain.run import Run
from holdfast.ports.runs import RunFilter, Runs

FURTHEST: Final = 1000
"""Tasks that a reader may be behind."""
FEW: Final = 10
"""Tasks that are looked at first: mostly one is new."""


class FollowedSession:
    """Finds the tasks of a session that are to be told, and remembers how far they were."""

    def __init__(self, thread: ThreadId, *, space: SpaceId, runs: Runs) -> None:
        self.id = thread
        self.trail = Trail({}, None)
        self._space = space
        self._runs = runs
        self._heard_of: set[RunId] = set()
        self._where = RunFilter(thread_id=thread)

    async def begin(self, after: str | None) -> list[Run]:
        """Return the tasks to tell, the oldest first: those after a cursor, or else those that have not ended."""
        if after is None:
            return await self._under_way()
        self.trail = trail_of(after)
        begun = [await self._named(run) for run in list(self.trail.positions)]
        return [*(run for run in begun if run is not None), *await self.fresh()]

    async def fresh(self) -> list[Run]:
        """Return the tasks that came after all that are known, the oldest first."""
        found = await self._since_newest()
        for run in found:
            self.trail.begin(run.id)
        return found

    def is_news(self, run: RunId) -> bool:
        """Say whether nothing was heard of a run before."""
        if run in self._heard_of:
            return False
        self._heard_of.add(run)
        return run not in self.trail.positions and run != self.trail.newest

    async def _under_way(self) -> list[Run]:
        newest = (await self._runs.page(self._space, where=self._where, limit=MAX_PAGE_SIZE)).items
        live = [run for run in reversed(newest) if not run.status.terminal]
        if newest:
            last = newest[0].last_event_seq if newest[0].status.terminal else 0
            self.trail = Trail({run.id: 0 for run in live}, newest[0].id, last=last)
        return live

    async def _since_newest(self) -> list[Run]:
        found: list[Run] = []
        cursor: str | None = None
        while len(found) <= FURTHEST:
            limit = MAX_PAGE_SIZE if found else FEW
            page = await self._runs.page(self._space, where=self._where, limit=limit, cursor=cursor)
            for run in page.items:
                if run.id == self.trail.newest:
                    return found[::-1]
                found.append(run)
            cursor = page.next_cursor
            if cursor is None:
                return found[::-1]
        raise BadCursor(f"more than {FURTHEST} tasks came since: read the messages, and subscribe without `after`")

    async def _named(self, name: RunId) -> Run | None:
        """Return a run that a cursor names; one that was deleted since has no more to tell."""
        try:
            run = await self._runs.get(self._space, name)
        except NotFound:
            run = None
        if run is not None and run.thread_id == self.id:
            return run
        if run is not None or name == self.trail.newest:
            raise BadCursor(f"this session has no task `{task_id_of(name)}`: subscribe without `after`")
        self.trail.end(name)
        return None
