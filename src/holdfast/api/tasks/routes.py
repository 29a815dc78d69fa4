"""The nine routes of the tasks contract, and the stream of a task as server-sent events.

event: task      …  one for each event so far
event: status       once
event: task      …  one for each new event
event: task         `task.status`, the last event
"""

from typing import Annotated, Final

import msgspec
from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec.structs import replace

from holdfast.api.parameters import LastEventHeader, LastEventId, resume_position
from holdfast.api.routes.runs import REPLAYED_HEADER, IdempotencyKey
from holdfast.api.streams.sse import KEEPALIVE, EventStream, StreamBody
from holdfast.api.tasks.bodies import (
    TaskBody,
    TaskContextResponse,
    TaskDeleted,
    TaskPage,
    TaskRespondBody,
    TaskResponse,
    TaskStatus,
    TaskStatusResponse,
    task_state,
    task_status,
)
from holdfast.api.tasks.error_handlers import TASK_ERROR_HANDLERS
from holdfast.api.tasks.errors import TaskNotFound
from holdfast.api.tasks.events import TaskEvent, TaskEvents, TaskProjection, task_end_event
from holdfast.api.tasks.tasks import TaskControl, TaskFilter
from holdfast.control.streams.broadcast import EventBatch, StreamEnd, Subscriber
from holdfast.domain.run import Priority, Run
from holdfast.domain.task_ids import run_id_of, task_id_of


class TaskStream(EventStream):
    """An ASGI app that sends what happens to a task."""

    def __init__(self, tasks: TaskControl, run: Run, follower: Subscriber, *, after: int) -> None:
        """Send events with an id above `after`; `follower` begins with the log."""
        super().__init__(follower)
        self._tasks = tasks
        self._run = run
        self._after = after
        self._log = TaskProjection()

    async def _write_all(self, body: StreamBody) -> StreamEnd:
        try:
            while self._follower.position < self._follower.joined_at:
                if (ending := await self._write_next(body)) is not None:
                    return ending
            body.write(_status_frame(await self._tasks.run(self._run.id), self._log.status))
            while (ending := await self._write_next(body)) is None:
                pass
            if ending is StreamEnd.ENDED:
                body.write(_end_frame(await self._tasks.run(self._run.id)))
        except TaskNotFound:
            return StreamEnd.GONE
        return ending

    async def _write_next(self, body: StreamBody) -> StreamEnd | None:
        """Write what comes next, or return why nothing does any more."""
        found = await body.next()
        match found:
            case EventBatch():
                if frames := b"".join(self._frames(found)):
                    body.write(frames)
            case None:
                body.write(KEEPALIVE)
            case StreamEnd():
                return found
        return None

    def _frames(self, chunk: EventBatch) -> list[bytes]:
        events = (event for logged in chunk.items for event in self._log.feed(logged))
        return [_event_frame(event) for event in events if event.id > self._after]


def _event_frame(event: TaskEvent) -> bytes:
    return b"id: %d\nevent: task\ndata: %b\n\n" % (event.id, msgspec.json.encode(event))


def _status_frame(run: Run, told: TaskStatus) -> bytes:
    """Say where the events so far have led to: what happened since follows, and must not be told before."""
    state = task_state(run)
    if state.status is not told:
        state = replace(state, status=told, output=None, error=None)
    return b"event: status\ndata: %b\n\n" % msgspec.json.encode(state)


def _end_frame(run: Run) -> bytes:
    word = task_end_event(task_state(run), at=run.completed_at or run.created_at)
    return b"event: task\ndata: %b\n\n" % msgspec.json.encode(word)


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
    exception_handlers=TASK_ERROR_HANDLERS,
    opt={"headers": {"202": REPLAYED_HEADER}},
)
async def create_task(
    tasks: NamedDependency[TaskControl], name: FromPath[str], data: JSONBody[TaskBody], key: IdempotencyKey = None
) -> Response[TaskStatusResponse]:
    """Give an agent a task. It is kept once this is answered, and runs in the background."""
    created = await tasks.create(
        name, data.input, limits=data.limits(), priority=data.priority, tags=data.tags, key=key
    )
    moved = TaskStatusResponse(task_id=task_id_of(created.run.id), status=task_status(created.run))
    return Response(moved, headers={"Idempotency-Replayed": "true"} if created.replayed else {})


@get("/tasks", summary="List tasks", tags=_TAGS, exception_handlers=TASK_ERROR_HANDLERS)
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


@get("/tasks/{task_id:str}", summary="Read a task", tags=_TAGS, exception_handlers=TASK_ERROR_HANDLERS)
async def read_task(tasks: NamedDependency[TaskControl], task_id: FromPath[str]) -> TaskResponse:
    """Return a task."""
    return TaskResponse(task=await tasks.get(task_id))


@get(
    "/tasks/{task_id:str}/events",
    summary="List the events of a task",
    tags=_TAGS,
    exception_handlers=TASK_ERROR_HANDLERS,
)
async def list_task_events(
    tasks: NamedDependency[TaskControl], task_id: FromPath[str], since: _Since = 0, limit: _EventLimit = 500
) -> TaskEvents:
    """Return what happened to a task, in order."""
    return await tasks.events(task_id, since=since, limit=limit)


@delete(
    "/tasks/{task_id:str}", summary="Delete a task", tags=_TAGS, status_code=200, exception_handlers=TASK_ERROR_HANDLERS
)
async def delete_task(
    tasks: NamedDependency[TaskControl], task_id: FromPath[str], force: _Force = False
) -> TaskDeleted:
    """Remove a task with its events, its context and its thread; an active one only with `force`."""
    await tasks.delete(task_id, force=force)
    return TaskDeleted(task_id=_task_id(task_id))


@get(
    "/tasks/{task_id:str}/stream",
    summary="Follow a task",
    tags=_TAGS,
    exception_handlers=TASK_ERROR_HANDLERS,
    opt={"content": {"text/event-stream": str}},
)
async def follow_task(
    tasks: NamedDependency[TaskControl],
    task_id: FromPath[str],
    header: LastEventHeader = None,
    last_event_id: LastEventId = None,
) -> TaskStream:
    """Send what happened to a task, where it stands, and what happens, until it has ended."""
    after = resume_position(header, last_event_id) or 0
    run, follower = await tasks.follow(task_id, after=after)
    return TaskStream(tasks, run, follower, after=after)


@post(
    "/tasks/{task_id:str}/respond",
    summary="Answer a task",
    tags=_TAGS,
    status_code=200,
    exception_handlers=TASK_ERROR_HANDLERS,
)
async def respond_to_task(
    tasks: NamedDependency[TaskControl], task_id: FromPath[str], data: JSONBody[TaskRespondBody]
) -> TaskStatusResponse:
    """Answer what a task waits for. An approval is answered with `approve` or `deny: reason`."""
    await tasks.respond(task_id, data.message)
    return TaskStatusResponse(task_id=_task_id(task_id), status=TaskStatus.PROCESSING)


@post(
    "/tasks/{task_id:str}/cancel",
    summary="Cancel a task",
    tags=_TAGS,
    status_code=200,
    exception_handlers=TASK_ERROR_HANDLERS,
)
async def cancel_task(tasks: NamedDependency[TaskControl], task_id: FromPath[str]) -> TaskStatusResponse:
    """End a task that has not ended, and all that it spawned."""
    await tasks.cancel(task_id)
    return TaskStatusResponse(task_id=_task_id(task_id), status=TaskStatus.CANCELED)


@get(
    "/tasks/{task_id:str}/context", summary="Read a task's context", tags=_TAGS, exception_handlers=TASK_ERROR_HANDLERS
)
async def read_task_context(tasks: NamedDependency[TaskControl], task_id: FromPath[str]) -> TaskContextResponse:
    """Return what the model was told in the most recent iteration; null before the first."""
    return TaskContextResponse(task_id=_task_id(task_id), context=await tasks.context(task_id))


def _task_id(task_id: str) -> str:
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
