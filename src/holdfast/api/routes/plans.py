"""Routes for the plans of threads: read, add, and change plan items."""

from litestar import get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from holdfast.api.parameters import Cursor, IdQuery, Limit, PlanItemNumber, parse_run_id, space_paths
from holdfast.control.plans import PlanControl, PlanView, ThreadTasks
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.plan import PlanItem
from holdfast.domain.plan_edit import NewPlanItem, PlanItemPatch
from holdfast.domain.space import DEFAULT_SPACE

_TAGS = ["plans"]


@get(space_paths("/threads/{thread_id:str}/tasks"), summary="Read a thread's plan", tags=_TAGS)
async def list_plan_items(
    plans: NamedDependency[PlanControl],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    run_id: IdQuery = None,
) -> ThreadTasks:
    """Return the plan items in order, as of the newest run or `run_id`."""
    return await plans.tasks(space_id, thread_id, run=parse_run_id(run_id))


@post(space_paths("/threads/{thread_id:str}/tasks"), summary="Add to a thread's plan", tags=_TAGS)
async def create_plan_item(
    plans: NamedDependency[PlanControl],
    thread_id: FromPath[ThreadId],
    data: JSONBody[NewPlanItem],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> PlanItem:
    """Add an item to the plan of the newest run; an active run reads it before its next model call."""
    return await plans.add(space_id, thread_id, data)


@patch(space_paths("/threads/{thread_id:str}/tasks/{task_id:int}"), summary="Change a thread's plan", tags=_TAGS)
async def update_plan_item(
    plans: NamedDependency[PlanControl],
    thread_id: FromPath[ThreadId],
    task_id: PlanItemNumber,
    data: JSONBody[PlanItemPatch],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> PlanItem:
    """Change or move an open item of the plan of the newest run; `completed` needs a conclusion.

    An edit that is no longer valid when an active run reads it, because the plan has changed since, is dropped.
    """
    return await plans.change(space_id, thread_id, task_id, data)


@get(space_paths("/threads/{thread_id:str}/plan"), summary="Read a thread's plan as agent tasks", tags=_TAGS)
async def read_plan(
    plans: NamedDependency[PlanControl],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    run_id: IdQuery = None,
) -> PlanView:
    """Return the plan with fewer statuses: planned and blocked items are `pending`, cancelled ones are omitted."""
    return await plans.plan(space_id, thread_id, run=parse_run_id(run_id))


@get(space_paths("/tasks"), summary="Read the plans of a space", tags=_TAGS)
async def list_space_tasks(
    plans: NamedDependency[PlanControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[ThreadTasks]:
    """Return the plans of threads, latest run first.

    Threads without a plan are omitted, so a page may have fewer items than `limit` even if another page follows.
    """
    return await plans.of_space(space_id, limit=limit, cursor=cursor)


ROUTES = [list_plan_items, create_plan_item, update_plan_item, read_plan, list_space_tasks]
