"""Routes for the plans of threads: read, add, and change plan items."""

from litestar import Response, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody

from holdfast.api.idempotency import REPLAYED_HEADER, IdempotencyKey, keyed_request, keyed_response
from holdfast.api.parameters import (
    Cursor,
    IdQuery,
    Limit,
    PlanItemNumber,
    PortDependency,
    parse_run_id,
    space_paths,
)
from holdfast.control.plans import PlanControl, PlanView, ThreadTasks
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.plan import PlanPriority, PlanStatus, ThreadTask
from holdfast.domain.plan_edit import NewPlanItem, PlanItemPatch
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.ports.runs import Plans, TaskFilter

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


@post(
    space_paths("/threads/{thread_id:str}/tasks"),
    summary="Add to a thread's plan",
    tags=_TAGS,
    opt={"headers": {"201": REPLAYED_HEADER}},
)
async def create_plan_item(
    plans: NamedDependency[PlanControl],
    thread_id: FromPath[ThreadId],
    data: JSONBody[NewPlanItem],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[ThreadTask]:
    """Add an item to the plan of the newest run; an active run reads it before its next model call."""
    request = keyed_request("create_plan_item", key, [thread_id, data])
    return keyed_response(await plans.add(space_id, thread_id, data, request=request))


@get(space_paths("/threads/{thread_id:str}/tasks/{task_id:int}"), summary="Read one item of a plan", tags=_TAGS)
async def read_plan_item(
    plans: NamedDependency[PlanControl],
    thread_id: FromPath[ThreadId],
    task_id: PlanItemNumber,
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    run_id: IdQuery = None,
) -> ThreadTask:
    """Return a plan item as of the newest run or `run_id`."""
    return await plans.task(space_id, thread_id, task_id, run=parse_run_id(run_id))


@patch(space_paths("/threads/{thread_id:str}/tasks/{task_id:int}"), summary="Change a thread's plan", tags=_TAGS)
async def update_plan_item(
    plans: NamedDependency[PlanControl],
    thread_id: FromPath[ThreadId],
    task_id: PlanItemNumber,
    data: JSONBody[PlanItemPatch],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> ThreadTask:
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


@get(space_paths("/tasks"), summary="List the plan items of a space", tags=_TAGS)
async def list_space_tasks(
    plan_store: PortDependency[Plans],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    status: FromQuery[PlanStatus | None] = None,
    priority: FromQuery[PlanPriority | None] = None,
    thread_id: IdQuery = None,
    agent_type: FromQuery[str | None] = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[ThreadTask]:
    """Return the plan items of threads: by thread, latest run first, and each plan in order.

    A page may have fewer items than `limit` even if another page follows.
    """
    thread = None if thread_id is None else ThreadId(thread_id)
    where = TaskFilter(status=status, priority=priority, thread_id=thread, agent_type=agent_type)
    return await plan_store.page(space_id, where=where, limit=limit, cursor=cursor)


ROUTES = [list_plan_items, create_plan_item, read_plan_item, update_plan_item, read_plan, list_space_tasks]
