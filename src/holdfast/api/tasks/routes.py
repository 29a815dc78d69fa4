"""The nine routes of the tasks contract, and the stream of a task as server-sent events.

event: task      …  one for each event so far
event: status       once
event: task      …  one for each new event
event: task         `task.status`, at the end
"""

from typing import Annotated, Any, Final

import msgspec
from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec.structs import replace

from holdfast.api.idempotency import REPLAYED_HEADER, IdempotencyKey, keyed_request, keyed_response, replay_headers
from holdfast.api.parameters import LastEventHeader, LastEventId, resume_position
from holdfast.api.streams.sse import KEEPALIVE, EventStream, StreamBody
from holdfast.api.tasks.bodies import (
    PHASE_OF_STATUS,
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
from holdfast.api.tasks.errors import TASK_ERROR_HANDLERS, TaskNotFound
from holdfast.api.tasks.events import TaskEvents, TaskProjection, task_end_event
from holdfast.api.tasks.tasks import TaskControl
from holdfast.control.streams.broadcast import EventBatch, StreamEnd, Subscriber
from holdfast.domain.idempotency import KeyedResult
from holdfast.domain.run import Mode, Priority, Run
from holdfast.domain.task_ids import run_id_of, task_id_of
from holdfast.ports.runs import RunFilter


class TaskStream(EventStream):
    """An ASGI app that sends the events of a task."""

    def __init__(self, tasks: TaskControl, run: Run, subscriber: Subscriber, *, after: int) -> None:
        """Send events with an id above `after`; `subscriber` starts at the beginning of the log."""
        super().__init__(subscriber)
        self._tasks = tasks
        self._run = run
        self._after = after
        self._projection = TaskProjection()

    async def _write_all(self, body: StreamBody) -> StreamEnd:
        try:
            while self._subscriber.position < self._subscriber.joined_at:
                if (ending := await self._write_next(body)) is not None:
                    return ending
            body.write(self._status_frame(await self._tasks.run(self._run.id)))
            while (ending := await self._write_next(body)) is None:
                pass
            if ending is StreamEnd.ENDED:
                end = task_end_event(await self._tasks.run(self._run.id))
                body.write(b"event: task\ndata: %b\n\n" % msgspec.json.encode(end))
        except TaskNotFound:
            return StreamEnd.GONE
        return ending

    async def _write_next(self, body: StreamBody) -> StreamEnd | None:
        """Write the next batch of events, or return why the stream ends."""
        batch = await body.next()
        match batch:
            case EventBatch():
                events = (event for logged in batch.items for event in self._projection.feed(logged))
                for event in events:
                    if event.id > self._after:
                        body.write(b"id: %d\nevent: task\ndata: %b\n\n" % (event.id, msgspec.json.encode(event)))
            case None:
                body.write(KEEPALIVE)
            case StreamEnd():
                return batch
        return None

    def _status_frame(self, run: Run) -> bytes:
        """Return the status after the events sent so far, which may be older than the status of the run."""
        state = task_state(run)
        if state.status is not self._projection.status:
            state = replace(state, status=self._projection.status, output=None, error=None)
        return b"event: status\ndata: %b\n\n" % msgspec.json.encode(state)


_OPTIONS: Final[dict[str, Any]] = {"tags": ["tasks contract"], "exception_handlers": TASK_ERROR_HANDLERS}

_Limit = Annotated[int, QueryParameter(ge=1, le=1000, description="Maximum number of tasks.")]
_Cursor = Annotated[
    str | None,
    QueryParameter(pattern=r"^[A-Za-z0-9_-]{1,128}\Z", description="The id of the last task of the previous page."),
]
_Since = Annotated[int, QueryParameter(ge=0, le=2**53 - 1, description="Only events with an id above this.")]
_EventLimit = Annotated[int, QueryParameter(ge=1, le=10_000, description="Maximum number of events.")]
_AgentName = Annotated[str | None, QueryParameter(name="agentName", max_length=256, description="Only of this agent.")]
_Tag = Annotated[str | None, QueryParameter(max_length=128, description="Only tasks with this tag.")]
_Force = Annotated[bool, QueryParameter(description="Cancel and delete a task that is active.")]


@post(
    "/agents/{name:str}/task",
    summary="Create a task",
    status_code=202,
    opt={"headers": {"202": REPLAYED_HEADER}},
    **_OPTIONS,
)
async def create_task(
    tasks: NamedDependency[TaskControl], name: FromPath[str], data: JSONBody[TaskBody], key: IdempotencyKey = None
) -> Response[TaskStatusResponse]:
    """Create a task, which runs in the background. It is durable before the response is sent."""
    created = await tasks.create(name, data, key=key)
    body = TaskStatusResponse(task_id=task_id_of(created.run.id), status=task_status(created.run))
    return Response(body, headers=replay_headers(replayed=created.replayed))


@get("/tasks", summary="List tasks", **_OPTIONS)
async def list_tasks(
    tasks: NamedDependency[TaskControl],
    agent_name: _AgentName = None,
    status: FromQuery[TaskStatus | None] = None,
    priority: FromQuery[Priority | None] = None,
    tag: _Tag = None,
    limit: _Limit = 20,
    cursor: _Cursor = None,
) -> TaskPage:
    """Return tasks, newest first."""
    phase = None if status is None else PHASE_OF_STATUS[status]
    tags = () if tag is None else (tag,)
    where = RunFilter(mode=Mode.TASK, phase=phase, priority=priority, agent_type=agent_name, tags=tags)
    page = await tasks.page(where, limit=limit, cursor=cursor)
    return TaskPage(tasks=page.items, next_cursor=page.next_cursor)


@get("/tasks/{task_id:str}", summary="Read a task", **_OPTIONS)
async def read_task(tasks: NamedDependency[TaskControl], task_id: FromPath[str]) -> TaskResponse:
    """Return a task."""
    return TaskResponse(task=await tasks.get(task_id))


@get("/tasks/{task_id:str}/events", summary="List the events of a task", **_OPTIONS)
async def list_task_events(
    tasks: NamedDependency[TaskControl], task_id: FromPath[str], since: _Since = 0, limit: _EventLimit = 500
) -> TaskEvents:
    """Return the events of a task, in order."""
    return await tasks.events(task_id, since=since, limit=limit)


@delete("/tasks/{task_id:str}", summary="Delete a task", status_code=200, **_OPTIONS)
async def delete_task(
    tasks: NamedDependency[TaskControl], task_id: FromPath[str], force: _Force = False
) -> TaskDeleted:
    """Delete a task with its events, its context and its thread; an active one only with `force`."""
    await tasks.delete(task_id, force=force)
    return TaskDeleted(task_id=_task_id(task_id))


@get("/tasks/{task_id:str}/stream", summary="Follow a task", opt={"content": {"text/event-stream": str}}, **_OPTIONS)
async def follow_task(
    tasks: NamedDependency[TaskControl],
    task_id: FromPath[str],
    header: LastEventHeader = None,
    last_event_id: LastEventId = None,
) -> TaskStream:
    """Send the events of a task so far, its status, and its new events until it has ended."""
    after = resume_position(header, last_event_id) or 0
    run, subscriber = await tasks.follow(task_id, after=after)
    return TaskStream(tasks, run, subscriber, after=after)


@post(
    "/tasks/{task_id:str}/respond",
    summary="Respond to a task",
    status_code=200,
    opt={"headers": {"200": REPLAYED_HEADER}},
    **_OPTIONS,
)
async def respond_to_task(
    tasks: NamedDependency[TaskControl],
    task_id: FromPath[str],
    data: JSONBody[TaskRespondBody],
    key: IdempotencyKey = None,
) -> Response[TaskStatusResponse]:
    """Respond to the oldest open interrupt of a task. An approval takes `approve` or `deny: reason`."""
    task = _task_id(task_id)
    request = keyed_request("respond_to_task", key, [task, data])
    replayed = await tasks.respond(task_id, data.message, request=request)
    body = TaskStatusResponse(task_id=task, status=TaskStatus.PROCESSING)
    return keyed_response(KeyedResult(value=body, replayed=replayed))


@post("/tasks/{task_id:str}/cancel", summary="Cancel a task", status_code=200, **_OPTIONS)
async def cancel_task(tasks: NamedDependency[TaskControl], task_id: FromPath[str]) -> TaskStatusResponse:
    """Cancel an active task and all tasks that it spawned."""
    await tasks.cancel(task_id)
    return TaskStatusResponse(task_id=_task_id(task_id), status=TaskStatus.CANCELED)


@get("/tasks/{task_id:str}/context", summary="Read a task's context", **_OPTIONS)
async def read_task_context(tasks: NamedDependency[TaskControl], task_id: FromPath[str]) -> TaskContextResponse:
    """Return the model context of the most recent iteration; null before the first."""
    return TaskContextResponse(task_id=_task_id(task_id), context=await tasks.context(task_id))


def _task_id(task_id: str) -> str:
    """Return a task id in its `task_` form."""
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
