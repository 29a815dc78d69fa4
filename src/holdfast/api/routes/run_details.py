"""Routes for the records of a run: events, steps, model context, children, and interrupts."""

from typing import Annotated

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from holdfast.api.parameters import Cursor, Limit, PortDependency, space_paths
from holdfast.control.run_details import EventView, RunContextView, RunDetailsControl
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.interrupt import Interrupt, InterruptStatus
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Run
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.step import Step
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
    details: NamedDependency[RunDetailsControl],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Step]:
    """Return the model calls and tool calls of a run in order, with the outcome of each."""
    return await details.steps(space_id, run_id, limit=limit, cursor=cursor)


@get(space_paths("/runs/{run_id:str}/context"), summary="Read the context of a model call", tags=_TAGS)
async def read_context(
    details: NamedDependency[RunDetailsControl],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    step: StepNumber = None,
) -> RunContextView:
    """Return the exact context of a model call, and the step numbers of all model calls."""
    return await details.context(space_id, run_id, step=step)


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
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Interrupt]:
    """Return the interrupts of a space with a status, by default the open ones, newest first."""
    return await interrupt_store.page(space_id, status=status, limit=limit, cursor=cursor)


ROUTES = [list_events, list_steps, read_context, list_children, list_interrupts]
