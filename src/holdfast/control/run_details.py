"""Run queries: runs, their events, steps, contexts, children and interrupts."""

import msgspec

from holdfast.control.threads import parse_number_cursor, run_of_thread
from holdfast.domain.content import Json
from holdfast.domain.context import ReadContext
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import Interrupt, InterruptStatus
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Run
from holdfast.domain.step import Step
from holdfast.domain.validation import check_search_text
from holdfast.ports.log import Contexts, EventLog, LoggedEvent, Steps
from holdfast.ports.queue import Interrupts
from holdfast.ports.runs import RunFilter, Runs, Threads


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """One event; `data` is byte for byte what was first sent."""

    seq: int
    type: str
    data: Json
    created_at: Instant


class RunContextView(msgspec.Struct, frozen=True, kw_only=True):
    """What the model was told in one call, and which other calls can be asked for. Null before the first call."""

    steps: list[int]
    context: ReadContext | None


class RunDetailsControl:
    """Runs, and all that they leave behind."""

    def __init__(
        self,
        *,
        runs: Runs,
        threads: Threads,
        events: EventLog,
        steps: Steps,
        contexts: Contexts,
        interrupts: Interrupts,
    ) -> None:
        self._runs = runs
        self._threads = threads
        self._events = events
        self._steps = steps
        self._contexts = contexts
        self._interrupts = interrupts

    async def get(self, space: SpaceId, run: RunId) -> Run:
        """Return a run."""
        return await self._runs.get(space, run)

    async def of_thread(self, space: SpaceId, thread: ThreadId, run: RunId) -> Run:
        """Return a run of a thread."""
        return await run_of_thread(self._runs, space, thread, run)

    async def page(
        self, space: SpaceId, *, where: RunFilter, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[Run]:
        """Return runs, the newest first; of a thread that is not there raises `NotFound`."""
        for field in ("agent_type", "tag"):
            if (text := getattr(where, field)) is not None:
                check_search_text(text, field=field, max_chars=256)
        if where.thread_id is not None:
            await self._threads.get(space, where.thread_id)
        return await self._runs.page(space, where=where, limit=limit, cursor=cursor)

    async def events(
        self,
        space: SpaceId,
        run: RunId,
        *,
        types: list[str] | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[EventView]:
        """Return the log of a run. A full page has a cursor, the number to go on after; a later one is refused."""
        after = 0 if cursor is None else parse_number_cursor(cursor)
        for each in types or ():
            check_search_text(each, field="type", max_chars=128)
        last = (await self._runs.get(space, run)).last_event_seq
        if after > last:
            raise Invalid(f"there is no event {after} yet: the last one is {last}", field="cursor", last=last)
        found = await self._events.after(space, run, seq=after, limit=limit, types=types)
        following = str(found[-1].seq) if len(found) == limit else None
        return Page(items=[_event_view(event) for event in found], next_cursor=following)

    async def steps(self, space: SpaceId, run: RunId, *, limit: int, cursor: str | None = None) -> Page[Step]:
        """Return the calls of a run, the first first."""
        after = -1 if cursor is None else parse_number_cursor(cursor)
        steps = [step for step in await self._steps.of_run(space, run) if step.number > after]
        cut = steps[:limit]
        return Page(items=cut, next_cursor=str(cut[-1].number) if len(steps) > limit else None)

    async def context(self, space: SpaceId, run: RunId, *, step: int | None = None) -> RunContextView:
        """Return what the model was told in a step, the newest unless told."""
        await self._runs.get(space, run)
        steps = await self._contexts.steps(space, run)
        if step is not None and step not in steps:
            raise NotFound(f"step {step} of run `{run}` called no model, or what it was told is gone", steps=steps)
        chosen = step if step is not None else max(steps, default=None)
        return RunContextView(
            steps=steps, context=None if chosen is None else await self._contexts.get(space, run, chosen)
        )

    async def children(
        self, space: SpaceId, run: RunId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[Run]:
        """Return the runs that a run spawned, the newest first."""
        await self._runs.get(space, run)
        return await self._runs.page(space, where=RunFilter(parent_run_id=run), limit=limit, cursor=cursor)

    async def interrupts(
        self, space: SpaceId, *, status: InterruptStatus | None, limit: int, cursor: str | None = None
    ) -> Page[Interrupt]:
        """Return the questions of a space, the newest first."""
        return await self._interrupts.page(space, status=status, limit=limit, cursor=cursor)


def _event_view(event: LoggedEvent) -> EventView:
    return EventView(seq=event.seq, type=event.type, data=msgspec.Raw(event.data), created_at=event.created_at)
