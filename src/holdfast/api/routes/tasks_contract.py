"""The tasks contract: nine routes, as its page has them."""

from typing import Annotated, Final

from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from holdfast.api.routes.runs import REPLAYED, IdempotencyKey
from holdfast.api.streams.cursor import LastEventHeader, LastEventId, position_of
from holdfast.api.task_contract.bodies import (
    MessageBody,
    OneTask,
    TaskBody,
    TaskContextAnswer,
    TaskDeleted,
    TaskMoved,
    TaskPage,
)
from holdfast.api.task_contract.refusals import REFUSALS
from holdfast.api.task_contract.stream import TaskStream
from holdfast.control.task_contract.events import TaskEvents
from holdfast.control.task_contract.ids import run_id_of, task_id_of
from holdfast.control.task_contract.task import TaskStatus, status_of
from holdfast.control.task_contract.tasks import TaskControl, TaskFilter
from holdfast.domain.run import Priority

_TAGS: Final = ["tasks contract"]

_Limit = Annotated[int, QueryParameter(ge=1, le=1000, description="How many tasks there are at most.")]
_Cursor = Annotated[
    str | None,
    QueryParameter(pattern=r"^[A-Za-z0-9_-]{1,128}\Z", description="The id of the last task of the page before."),
]
_Since = Annotated[int, QueryParameter(ge=0, le=2**53 - 1, description="Only events with an id above this.")]
_EventLimit = Annotated[int, QueryParameter(ge=1, le=10_000, description="How many events there are at most.")]
_AgentName = Annotated[str | None, QueryParameter(name="agentName", max_length=256, description="Only of this agent.")]
_Tag = Annotated[str | None, QueryParameter(max_length=128, description="Only those with this tag.")]
_Force = Annotated[bool, QueryParameter(description="Cancel and delete a task that is active.")]


@post(
    "/agents/{name:str}/task",
    summary="Create a task",
    tags=_TAGS,
    status_code=202,
    exception_handlers=REFUSALS,
    opt={"headers": {"202": REPLAYED}},
)
async def create_task(
    tasks: NamedDependency[TaskControl], name: FromPath[str], data: JSONBody[TaskBody], key: IdempotencyKey = None
) -> Response[TaskMoved]:
    """Give an agent a task. It is kept once this is answered, and runs in the background."""
    created = await tasks.create(
        name, data.input, limits=data.limits(), priority=data.priority, tags=data.tags, key=key
    )
    moved = TaskMoved(task_id=task_id_of(created.run.id), status=status_of(created.run))
    return Response(moved, headers={"Idempotency-Replayed": "true"} if created.replayed else {})


@get("/tasks", summary="List tasks", tags=_TAGS, exception_handlers=REFUSALS)
async def list_tasks(
    tasks: NamedDependency[TaskControl],
    agent_name: _AgentName = None,
    status: FromQuery[TaskStatus | None] = None,
    priority: FromQuery[Priority | None] = None,
    tag: _Tag = None,
    limit: _Limit = 20,
    cursor: _Cursor = None,
) -> TaskPage:
    """Return tasks, the newest first."""
    where = TaskFilter(agent_name=agent_name, status=status, priority=priority, tag=tag)
    page = await tasks.page(where, limit=limit, cursor=cursor)
    return TaskPage(tasks=page.items, next_cursor=page.next_cursor)


@get("/tasks/{task_id:str}", summary="Read a task", tags=_TAGS, exception_handlers=REFUSALS)
async def read_task(tasks: NamedDependency[TaskControl], task_id: FromPath[str]) -> OneTask:
    """Return a task."""
    return OneTask(task=await tasks.get(task_id))


@get("/tasks/{task_id:str}/events", summary="List the events of a task", tags=_TAGS, exception_handlers=REFUSALS)
async def list_task_events(
    tasks: NamedDependency[TaskControl], task_id: FromPath[str], since: _Since = 0, limit: _EventLimit = 500
) -> TaskEvents:
    """Return what happened to a task, in order."""
    return await tasks.events(task_id, since=since, limit=limit)


@delete("/tasks/{task_id:str}", summary="Delete a task", tags=_TAGS, status_code=200, exception_handlers=REFUSALS)
async def delete_task(
    tasks: NamedDependency[TaskControl], task_id: FromPath[str], force: _Force = False
) -> TaskDeleted:
    """Remove a task with its events, its context and its thread; an active one only with `force`."""
    await tasks.delete(task_id, force=force)
    return TaskDeleted(task_id=_name(task_id))


@get(
    "/tasks/{task_id:str}/stream",
    summary="Follow a task",
    tags=_TAGS,
    exception_handlers=REFUSALS,
    opt={"content": {"text/event-stream": str}},
)
async def follow_task(
    tasks: NamedDependency[TaskControl],
    task_id: FromPath[str],
    header: LastEventHeader = None,
    last_event_id: LastEventId = None,
) -> TaskStream:
    """Send what happened to a task, where it stands, and what happens, until it has ended."""
    after = position_of(header, last_event_id) or 0
    run, follower = await tasks.follow(task_id, after=after)
    return TaskStream(tasks, run, follower, after=after)


@post("/tasks/{task_id:str}/respond", summary="Answer a task", tags=_TAGS, status_code=200, exception_handlers=REFUSALS)
async def respond_to_task(
    tasks: NamedDependency[TaskControl], task_id: FromPath[str], data: JSONBody[MessageBody]
) -> TaskMoved:
    """Answer what a task waits for. An approval is answered with `approve` or `deny: reason`."""
    await tasks.respond(task_id, data.message)
    return TaskMoved(task_id=_name(task_id), status=TaskStatus.PROCESSING)


@post("/tasks/{task_id:str}/cancel", summary="Cancel a task", tags=_TAGS, status_code=200, exception_handlers=REFUSALS)
async def cancel_task(tasks: NamedDependency[TaskControl], task_id: FromPath[str]) -> TaskMoved:
    """End a task that has not ended, and all that it spawned."""
    await tasks.cancel(task_id)
    return TaskMoved(task_id=_name(task_id), status=TaskStatus.CANCELED)


@get("/tasks/{task_id:str}/context", summary="Read a task's context", tags=_TAGS, exception_handlers=REFUSALS)
async def read_task_context(tasks: NamedDependency[TaskControl], task_id: FromPath[str]) -> TaskContextAnswer:
    """Return what the model was told in the most recent iteration; null before the first."""
    return TaskContextAnswer(task_id=_name(task_id), context=await tasks.context(task_id))


def _name(task_id: str) -> str:
    """Return the id of a task, by whichever name it was called."""
    return task_id_of(run_id_of(task_id))


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (
    create_task,
    list_tasks,
    read_task,
    list_task_events,
    delete_task,
    follow_task,
    respond_to_task,
    cancel_task,
    read_task_context,
)
