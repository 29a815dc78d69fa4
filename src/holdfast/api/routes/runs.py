"""Routes for runs: list, read, cancel, respond, retry, and steer, and the response of a started run.

The route that starts runs accepts AG-UI requests too, so it is in `api/ag_ui/routes.py`.
"""

from typing import Annotated

import msgspec
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody

from holdfast.api.bodies import CancelBody, InterruptResponseBody, RetryBody, SteeringBody
from holdfast.api.parameters import (
    Cursor,
    IdQuery,
    Limit,
    PortDependency,
    WaitSeconds,
    parse_run_id,
    prefers_stream,
    space_paths,
)
from holdfast.api.streams.sse import StreamResponse, run_stream
from holdfast.control.run_details import RunDetailsControl
from holdfast.control.run_starts import RunStartControl
from holdfast.control.runs import RunControl
from holdfast.control.threads import run_of_thread
from holdfast.domain.errors import Invalid
from holdfast.domain.idempotency import MAX_IDEMPOTENCY_KEY_CHARS
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.new_run import CreatedRun, NewRun
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Mode, Run, RunStatus
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.ports.runs import RunFilter, Runs

_TAGS = ["runs"]
_DEFAULT_CANCEL = CancelBody()
_DEFAULT_RETRY = RetryBody()
THREAD_RUNS_PATHS = space_paths("/threads/{thread_id:str}/runs")

REPLAYED_HEADER = {"Idempotency-Replayed": "`true` if an earlier request with the same key created the run."}
RUN_STREAM_HEADERS = {"X-Run-Id": "The id of the run.", "Content-Location": "The URL of the run."}

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=MAX_IDEMPOTENCY_KEY_CHARS,
        description="Requests with the same key and body create one run; a different body is refused.",
    ),
]
AcceptHeader = Annotated[
    str, HeaderParameter(name="Accept", description="`text/event-stream` asks for the run's stream.")
]


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The inbox item of an accepted message."""

    run_id: RunId
    number: int


@get(THREAD_RUNS_PATHS, summary="List the runs of a thread", tags=_TAGS)
async def list_thread_runs(
    details: NamedDependency[RunDetailsControl],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    status: FromQuery[RunStatus | None] = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Run]:
    """Return the runs of a thread, newest first."""
    where = RunFilter(thread_id=thread_id, status=status)
    return await details.page(space_id, where=where, limit=limit, cursor=cursor)


@get(space_paths("/threads/{thread_id:str}/runs/{run_id:str}"), summary="Read a run of a thread", tags=_TAGS)
async def read_thread_run(
    run_store: PortDependency[Runs],
    thread_id: FromPath[ThreadId],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Run:
    """Return a run, which must belong to the thread."""
    return await run_of_thread(run_store, space_id, thread_id, run_id)


@get(space_paths("/runs"), summary="List the runs of a space", tags=_TAGS)
async def list_runs(
    details: NamedDependency[RunDetailsControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    status: FromQuery[RunStatus | None] = None,
    agent_type: FromQuery[str | None] = None,
    mode: FromQuery[Mode | None] = None,
    tag: FromQuery[str | None] = None,
    root_run_id: IdQuery = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Run]:
    """Return runs, newest first; `root_run_id` selects a run with all its descendants."""
    root = parse_run_id(root_run_id)
    where = RunFilter(status=status, agent_type=agent_type, mode=mode, tag=tag, root_run_id=root)
    return await details.page(space_id, where=where, limit=limit, cursor=cursor)


@get(space_paths("/runs/{run_id:str}"), summary="Read a run", tags=_TAGS)
async def read_run(
    run_store: PortDependency[Runs], run_id: FromPath[RunId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Run:
    """Return a run."""
    return await run_store.get(space_id, run_id)


@post(space_paths("/runs/{run_id:str}/cancel"), summary="Cancel a run", tags=_TAGS, status_code=200)
async def cancel_run(
    runs: NamedDependency[RunControl],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    data: JSONBody[CancelBody] = _DEFAULT_CANCEL,
) -> Run:
    """Cancel a run and its descendants. A run that has ended is refused."""
    return await runs.cancel(space_id, run_id, reason=data.reason)


@post(
    space_paths("/runs/{run_id:str}/respond"), summary="Respond to an interrupt of a run", tags=_TAGS, status_code=200
)
async def respond(
    runs: NamedDependency[RunControl],
    run_id: FromPath[RunId],
    data: JSONBody[InterruptResponseBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Interrupt:
    """Respond to an interrupt of a run or of its descendants; only the first response is accepted."""
    return await runs.respond(space_id, run_id, data.response, interrupt=data.interrupt_id, digest=data.digest)


@post(space_paths("/runs/{run_id:str}/retry"), summary="Retry a run", tags=_TAGS)
async def retry_run(
    starts: NamedDependency[RunStartControl],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    data: JSONBody[RetryBody] = _DEFAULT_RETRY,
    wait: WaitSeconds = 0,
) -> Response[Run]:
    """Start a new run that continues a failed or cancelled one after its last step, or from its start."""
    return _created_response(await starts.retry(space_id, run_id, from_start=data.starts_at == "start", wait=wait))


@post(
    space_paths("/runs/{run_id:str}/messages"), summary="Send a message to an active run", tags=_TAGS, status_code=202
)
async def steer_run(
    runs: NamedDependency[RunControl],
    run_id: FromPath[RunId],
    data: JSONBody[SteeringBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Accepted:
    """Send a message to an active run, which reads it before its next model call."""
    number = await runs.steer(space_id, run_id, data.content, message=data.id)
    return Accepted(run_id=run_id, number=number)


async def start_run(
    starts: RunStartControl, space: SpaceId, new: NewRun, *, wait: float, accept: str
) -> Response[Run] | StreamResponse:
    """Start a run and respond with it, or with its stream if the client prefers that."""
    if not prefers_stream(accept):
        return _created_response(await starts.start(space, new, wait=wait))
    if wait:
        raise Invalid("a stream lasts until its run has ended: omit `wait`, or request JSON", field="wait")
    created, subscriber = await starts.start_and_subscribe(space, new)
    return run_stream(created.run, subscriber, headers=_replay_headers(created))


def _created_response(created: CreatedRun) -> Response[Run]:
    return Response(created.run, headers=_replay_headers(created))


def _replay_headers(created: CreatedRun) -> dict[str, str]:
    return {"Idempotency-Replayed": "true"} if created.replayed else {}


ROUTES = [
    list_thread_runs,
    read_thread_run,
    list_runs,
    read_run,
    cancel_run,
    respond,
    retry_run,
    steer_run,
]
