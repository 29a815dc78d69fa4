"""Run queries: filtered lists, and the events, steps, model contexts and children of a run."""

import msgspec

from holdfast.control.threads import parse_number_cursor
from holdfast.domain.content import Json
from holdfast.domain.context import ReadContext
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Run
from holdfast.domain.step import Step
from holdfast.domain.validation import check_search_text
from holdfast.ports.log import Contexts, EventLog, Steps
from holdfast.ports.runs import RunFilter, Runs, Threads


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """One event; `data` is byte for byte what was first sent."""

    seq: int
    type: str
    data: Json
    created_at: Instant


class RunContextView(msgspec.Struct, frozen=True, kw_only=True):
    """The context of one model call, null before the first call, and the numbers of all steps with a context."""

    steps: list[int]
    context: ReadContext | None


class RunDetailsControl:
    """Queries for runs and their records."""

    def __init__(self, *, runs: Runs, threads: Threads, events: EventLog, steps: Steps, contexts: Contexts) -> None:
        self._runs = runs
        self._threads = threads
        self._events = events
        self._steps = steps
        self._contexts = contexts

    async def page(
        self, space: SpaceId, *, where: RunFilter, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[Run]:
        """Return runs, newest first; an unknown thread raises `NotFound`."""
        for field in ("agent_type", "tag"):
            if (text := getattr(where, field)) is not None:
                check_search_text(text, field=field, max_chars=256)
        if where.thread_id is not None:
            await self._threads.get(space, where.thread_id)
        try:
            return await self._runs.page(space, where=where, limit=limit, cursor=cursor)
        except NotFound as exc:
            if cursor is None or exc.details.get("id") != cursor:
                raise
            raise Invalid("the cursor is not valid: leave it out to start at the first page", field="cursor") from exc

    async def events(
        self,
        space: SpaceId,
        run: RunId,
        *,
        types: list[str] | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[EventView]:
        """Return the event log of a run; the cursor of a full page is the number of its last event.

        A cursor beyond the end of the log raises `Invalid`.
        """
        after = 0 if cursor is None else parse_number_cursor(cursor)
        for event_type in types or ():
            check_search_text(event_type, field="type", max_chars=128)
        last = (await self._runs.get(space, run)).last_event_seq
        if after > last:
            raise Invalid(f"there is no event {after} yet: the last one is {last}", field="cursor", last=last)
        events = await self._events.after(space, run, seq=after, limit=limit, types=types)
        items = [
            EventView(seq=event.seq, type=event.type, data=msgspec.Raw(event.data), created_at=event.created_at)
            for event in events
        ]
        return Page(items=items, next_cursor=str(events[-1].seq) if len(events) == limit else None)

    async def steps(self, space: SpaceId, run: RunId, *, limit: int, cursor: str | None = None) -> Page[Step]:
        """Return the steps of a run in order."""
        after = -1 if cursor is None else parse_number_cursor(cursor)
        steps = [step for step in await self._steps.of_run(space, run) if step.number > after]
        page = steps[:limit]
        return Page(items=page, next_cursor=str(page[-1].number) if len(steps) > limit else None)

    async def context(self, space: SpaceId, run: RunId, *, step: int | None = None) -> RunContextView:
        """Return the context of a model call, by default of the newest."""
        await self._runs.get(space, run)
        steps = await self._contexts.steps(space, run)
        if step is not None and step not in steps:
            reason = "it is not a model call, or its context was deleted"
            raise NotFound(f"there is no model context for step {step} of run `{run}`: {reason}", steps=steps)
        if step is None:
            step = max(steps, default=None)
        context = None if step is None else await self._contexts.get(space, run, step)
        return RunContextView(steps=steps, context=context)

    async def children(
        self, space: SpaceId, run: RunId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[Run]:
        """Return the child runs of a run, newest first."""
        await self._runs.get(space, run)
        return await self._runs.page(space, where=RunFilter(parent_run_id=run), limit=limit, cursor=cursor)
