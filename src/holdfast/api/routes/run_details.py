"""Routes for the records of a run: events, steps, model context, children, and interrupts."""

from typing import Annotated

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from holdfast.api.parameters import Cursor, IdQuery, Limit, PortDependency, parse_run_id, space_paths
from holdfast.control.run_details import EventView, RunContextView, RunDetailsControl
from holdfast.domain.ids import InterruptId, RunId, SpaceId, ThreadId
from holdfast.domain.interrupt import Interrupt, InterruptFilter, InterruptKind, InterruptStatus
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Run
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.step import RecordedStep
from holdfast.domain.validation import check_search_text
from holdfast.ports.log import Steps
from holdfast.ports.queue import Interrupts

_TAGS = ["runs"]

EventTypes = Annotated[
    list[str] | None,
    QueryParameter(name="type", description="Only events of this type; repeat it for several types."),
]
StepNumber = Annotated[
    int | None,
    QueryParameter(ge=0, le=MAX_SAFE_INTEGER, description="The number of a model call; by default the newest."),
]


@get(space_paths("/runs/{run_id:str}/events"), summary="Read a run's event log", tags=_TAGS)
async def list_events(
    details: NamedDependency[RunDetailsControl],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    types: EventTypes = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[EventView]:
    """Return the events of a run in order; the cursor is the number of the last event that was read.

    A page that is not full has no cursor: to poll for new events, use the number of its last event.
    """
    return await details.events(space_id, run_id, types=types, limit=limit, cursor=cursor)


@get(space_paths("/runs/{run_id:str}/steps"), summary="List a run's steps", tags=_TAGS)
async def list_steps(
    step_store: PortDependency[Steps],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    tree: Annotated[bool, QueryParameter(description="Whether the steps of all descendants are included.")] = False,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[RecordedStep]:
    """Return the model calls and tool calls of a run in order, with the outcome of each, its workers and times.

    With `tree=true` the steps of its descendants follow, by run: those of a parent before those of its children.
    """
    return await step_store.page(space_id, run_id, tree=tree, limit=limit, cursor=cursor)


@get(space_paths("/runs/{run_id:str}/context"), summary="Read the context of a model call", tags=_TAGS)
async def read_context(
    details: NamedDependency[RunDetailsControl],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    step: StepNumber = None,
    since: Annotated[
        str | None,
        QueryParameter(
            pattern=r"^(previous|\d{1,15})\Z",
            description="The step of an earlier model call, or `previous`, to compare with.",
        ),
    ] = None,
) -> RunContextView:
    """Return the exact context of a model call with the reasons for it, and the step numbers of all model calls.

    With `since`, `changes` says what differs from an earlier call; it is null for `previous` of the first call.
    """
    return await details.context(space_id, run_id, step=step, since=since)


@get(space_paths("/runs/{run_id:str}/children"), summary="List the children of a run", tags=_TAGS)
async def list_children(
    details: NamedDependency[RunDetailsControl],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Run]:
    """Return the runs that a run spawned, newest first."""
    return await details.children(space_id, run_id, limit=limit, cursor=cursor)


@get(space_paths("/interrupts"), summary="List interrupts", tags=["interrupts"])
async def list_interrupts(
    interrupt_store: PortDependency[Interrupts],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    status: FromQuery[InterruptStatus] = InterruptStatus.OPEN,
    kind: FromQuery[InterruptKind | None] = None,
    agent_type: FromQuery[str | None] = None,
    thread_id: IdQuery = None,
    run_id: IdQuery = None,
    oldest: Annotated[bool, QueryParameter(description="Whether open ones are listed with the oldest first.")] = False,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Interrupt]:
    """Return the interrupts of a space with a status, by default the open ones, newest first."""
    if agent_type is not None:
        check_search_text(agent_type, field="agent_type", max_chars=256)
    where = InterruptFilter(
        kind=kind,
        agent_type=agent_type,
        thread_id=None if thread_id is None else ThreadId(thread_id),
        run_id=parse_run_id(run_id),
    )
    return await interrupt_store.page(space_id, status=status, where=where, oldest=oldest, limit=limit, cursor=cursor)


class OpenInterrupts(msgspec.Struct, frozen=True, kw_only=True):
    """The number of open interrupts."""

    open: int


@get(space_paths("/interrupts/count"), summary="Count open interrupts", tags=["interrupts"])
async def count_interrupts(
    interrupt_store: PortDependency[Interrupts], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> OpenInterrupts:
    """Return the number of open interrupts of a space."""
    return OpenInterrupts(open=await interrupt_store.count_open(space_id))


@get(space_paths("/interrupts/{interrupt_id:str}"), summary="Read an interrupt", tags=["interrupts"])
async def read_interrupt(
    interrupt_store: PortDependency[Interrupts],
    interrupt_id: FromPath[InterruptId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Interrupt:
    """Return an interrupt, open or not."""
    return await interrupt_store.get(space_id, interrupt_id)


ROUTES = [list_events, list_steps, read_context, list_children, list_interrupts, count_interrupts, read_interrupt]
