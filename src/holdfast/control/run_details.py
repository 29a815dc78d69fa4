"""Run queries: filtered lists, and the events, steps, model contexts and children of a run."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.control.threads import parse_number_cursor
from holdfast.domain.content import Json
from holdfast.domain.context import ReadContext
from holdfast.domain.context_changes import ContextDifference, context_changes, with_reasons
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import Instant, millis
from holdfast.domain.limits import Usage
from holdfast.domain.new_run import MAX_TAGS
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Run
from holdfast.domain.run_skills import read_run_skills
from holdfast.domain.validation import check_search_text
from holdfast.ports.log import Contexts, EventLog, Values
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
    changes: ContextDifference | None = None
    """What differs from an earlier call, if that was asked for."""


class DetailedRun(Run, frozen=True, kw_only=True):
    """A run, on request with the usage of its whole tree."""

    tree_usage: Usage | UnsetType = UNSET
    """The usage of the run and all its descendants; absent unless it was asked for."""


PREVIOUS_CALL: Final = "previous"


class RunDetailsControl:
    """Queries for runs and their records."""

    def __init__(self, *, runs: Runs, threads: Threads, events: EventLog, contexts: Contexts, values: Values) -> None:
        self._runs = runs
        self._threads = threads
        self._events = events
        self._contexts = contexts
        self._values = values

    async def page(
        self,
        space: SpaceId,
        *,
        where: RunFilter,
        tree_usage: bool = False,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[DetailedRun]:
        """Return runs, newest first; an unknown thread raises `NotFound`."""
        tags = (("tag", tag) for tag in where.tags)
        for field, text in (("agent_type", where.agent_type), ("model", where.model), ("skill", where.skill), *tags):
            if text is not None:
                check_search_text(text, field=field, max_chars=256)
        if len(where.tags) > MAX_TAGS:
            raise Invalid(f"a run has at most {MAX_TAGS} tags: ask for fewer", field="tag")
        for field, time in (("from", where.created_from), ("to", where.created_to)):
            if time is not None:
                millis(time, field=field)
        if where.thread_id is not None:
            await self._threads.get(space, where.thread_id)
        try:
            page = await self._runs.page(space, where=where, limit=limit, cursor=cursor)
        except NotFound as exc:
            if cursor is None or exc.details.get("id") != cursor:
                raise
            raise Invalid("the cursor is not valid: leave it out to start at the first page", field="cursor") from exc
        return Page(items=await self.views(space, page.items, tree_usage=tree_usage), next_cursor=page.next_cursor)

    async def views(self, space: SpaceId, runs: Sequence[Run], *, tree_usage: bool) -> list[DetailedRun]:
        """Return runs as they are shown, with the usage of their trees if that is asked for."""
        usage = await self._runs.tree_usage(space, [run.id for run in runs]) if tree_usage else {}
        fields = Run.__struct_fields__
        return [
            DetailedRun(**{name: getattr(run, name) for name in fields}, tree_usage=usage.get(run.id, UNSET))
            for run in runs
        ]

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

    async def context(
        self, space: SpaceId, run: RunId, *, step: int | None = None, since: str | None = None
    ) -> RunContextView:
        """Return the context of a model call, by default of the newest, with the reasons for what is in it.

        `since` is the step of an earlier call, or `previous`, whose context it is compared with.
        """
        await self._runs.get(space, run)
        steps = await self._contexts.steps(space, run)
        _check_model_call(run, step, steps)
        if step is None:
            step = max(steps, default=None)
        if step is None:
            return RunContextView(steps=steps, context=None)
        context = await self._contexts.get(space, run, step)
        skills = read_run_skills(await self._values.of_run(space, run))
        changes = None
        earlier = max((each for each in steps if each < step), default=None) if since == PREVIOUS_CALL else None
        if since is not None and since != PREVIOUS_CALL:
            earlier = int(since)
            _check_model_call(run, earlier, steps)
            if earlier >= step:
                raise Invalid(f"`since` must be a step before {step}", field="since")
        if earlier is not None:
            changes = context_changes(await self._contexts.get(space, run, earlier), context)
        shown = with_reasons(context, [] if skills is None else skills.active)
        return RunContextView(steps=steps, context=shown, changes=changes)

    async def children(
        self, space: SpaceId, run: RunId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[Run]:
        """Return the child runs of a run, newest first."""
        await self._runs.get(space, run)
        return await self._runs.page(space, where=RunFilter(parent_run_id=run), limit=limit, cursor=cursor)


def _check_model_call(run: RunId, step: int | None, steps: Sequence[int]) -> None:
    if step is not None and step not in steps:
        reason = "it is not a model call, or its context was deleted"
        raise NotFound(f"there is no model context for step {step} of run `{run}`: {reason}", steps=list(steps))
