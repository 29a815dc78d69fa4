"""Routes for runs: list, read, cancel, respond, retry, and steer, and the response of a started run.

The route that starts runs accepts AG-UI requests too, so it is in `api/ag_ui/routes.py`.
"""

from typing import Annotated

import msgspec
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody, QueryParameter

from holdfast.api.ag_ui.runs import AgUiControl
from holdfast.api.ag_ui.segments import ProjectedStream, run_headers
from holdfast.api.bodies import CancelBody, InterruptResponseBody, RetryBody, SteeringBody, ThreadRunBody
from holdfast.api.idempotency import REPLAYED_HEADER, IdempotencyKey, keyed_request, keyed_response, replay_headers
from holdfast.api.parameters import (
    ID_PATTERN,
    Cursor,
    FromTime,
    IdQuery,
    Limit,
    PortDependency,
    ToTime,
    WaitSeconds,
    parse_run_id,
    prefers_stream,
    space_paths,
)
from holdfast.api.streams.sse import StreamResponse
from holdfast.control.run_details import DetailedRun, RunDetailsControl
from holdfast.control.run_starts import RunStartControl
from holdfast.control.runs import RunControl
from holdfast.control.threads import ThreadControl, run_of_thread
from holdfast.domain.errors import Invalid
from holdfast.domain.idempotency import KeyedResult
from holdfast.domain.ids import MemoryId, RunId, SpaceId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.new_run import CreatedRun, NewRun
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Mode, Run, RunStatus
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.ports.runs import RunFilter, Runs
from holdfast.skills.locale import preferred_language

_TAGS = ["runs"]
_DEFAULT_CANCEL = CancelBody()
_DEFAULT_RETRY = RetryBody()
THREAD_RUNS_PATHS = space_paths("/threads/{thread_id:str}/runs")

RUN_STREAM_HEADERS = {"X-Run-Id": "The id of the run.", "Content-Location": "The URL of the run."}

LanguageHeader = Annotated[
    str | None,
    HeaderParameter(
        name="Accept-Language",
        max_length=500,
        description="The languages that the client prefers, for the run's skills.",
    ),
]
Statuses = Annotated[
    list[RunStatus] | None, QueryParameter(description="Only runs with this status; repeat it for several.")
]
Tags = Annotated[list[str] | None, QueryParameter(description="Only runs with this tag; repeat it for several.")]
TreeUsage = Annotated[
    bool, QueryParameter(description="Whether each run has `tree_usage`, which includes all its descendants.")
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
    status: Statuses = None,
    tree_usage: TreeUsage = False,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[DetailedRun]:
    """Return the runs of a thread, newest first."""
    where = RunFilter(thread_id=thread_id, statuses=status or ())
    return await details.page(space_id, where=where, tree_usage=tree_usage, limit=limit, cursor=cursor)


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
    status: Statuses = None,
    agent_type: FromQuery[str | None] = None,
    mode: FromQuery[Mode | None] = None,
    tag: Tags = None,
    model: Annotated[str | None, QueryParameter(description="The model that was requested, or used last.")] = None,
    memory_id: Annotated[
        str | None, QueryParameter(pattern=ID_PATTERN, description="Only runs with this memory in a prompt.")
    ] = None,
    skill: Annotated[str | None, QueryParameter(description="Only runs in which this skill was active.")] = None,
    created_from: FromTime = None,
    created_to: ToTime = None,
    root_run_id: IdQuery = None,
    tree_usage: TreeUsage = False,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[DetailedRun]:
    """Return runs, newest first; `root_run_id` selects a run with all its descendants."""
    where = RunFilter(
        statuses=status or (),
        agent_type=agent_type,
        mode=mode,
        tags=tag or (),
        model=model,
        memory_id=None if memory_id is None else MemoryId(memory_id),
        skill=skill,
        created_from=None if created_from is None else Instant(created_from),
        created_to=None if created_to is None else Instant(created_to),
        root_run_id=parse_run_id(root_run_id),
    )
    return await details.page(space_id, where=where, tree_usage=tree_usage, limit=limit, cursor=cursor)


@post(
    space_paths("/runs"),
    summary="Start a run on a new thread",
    tags=_TAGS,
    opt={
        "content": {"application/json": Run},
        "also": {"200": {"text/event-stream": str}},
        "headers": {"201": REPLAYED_HEADER, "200": {**REPLAYED_HEADER, **RUN_STREAM_HEADERS}},
    },
)
async def create_run_on_thread(
    ag_ui: NamedDependency[AgUiControl],
    threads: NamedDependency[ThreadControl],
    data: JSONBody[ThreadRunBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
    wait: WaitSeconds = 0,
    accept: AcceptHeader = "*/*",
    language: LanguageHeader = None,
) -> Response[Run] | StreamResponse:
    """Create a thread and start its first run, in one transaction. If the run is refused, no thread is created.

    `wait`, `Accept` and the idempotency key work as on the route that starts a run on a thread.
    """
    new = data.new_run_on_thread(default_agent=threads.default_agent, key=key)
    return await start_run(ag_ui, space_id, new, wait=wait, accept=accept, language=language)


@get(space_paths("/runs/{run_id:str}"), summary="Read a run", tags=_TAGS)
async def read_run(
    starts: NamedDependency[RunStartControl],
    details: NamedDependency[RunDetailsControl],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    wait: WaitSeconds = 0,
    tree_usage: TreeUsage = False,
) -> DetailedRun:
    """Return a run; with `wait`, once it has ended or waits for a person, or else when the time is over."""
    found = await starts.get(space_id, run_id, wait=wait)
    return (await details.views(space_id, [found], tree_usage=tree_usage))[0]


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
    space_paths("/runs/{run_id:str}/respond"),
    summary="Respond to an interrupt of a run",
    tags=_TAGS,
    status_code=200,
    opt={"headers": {"200": REPLAYED_HEADER}},
)
async def respond(
    runs: NamedDependency[RunControl],
    run_id: FromPath[RunId],
    data: JSONBody[InterruptResponseBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[Interrupt]:
    """Respond to an interrupt of a run or of its descendants; only the first response is accepted."""
    return keyed_response(
        await runs.respond_once(
            space_id,
            run_id,
            data.response,
            keyed_request("respond", key, [run_id, data]),
            interrupt=data.interrupt_id,
            digest=data.digest,
        )
    )


@post(
    space_paths("/runs/{run_id:str}/retry"),
    summary="Retry a run",
    tags=_TAGS,
    opt={"headers": {"201": REPLAYED_HEADER}},
)
async def retry_run(
    starts: NamedDependency[RunStartControl],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    data: JSONBody[RetryBody] = _DEFAULT_RETRY,
    wait: WaitSeconds = 0,
    key: IdempotencyKey = None,
) -> Response[Run]:
    """Start a new run that continues a failed or cancelled one after its last step, or from its start."""
    from_start = data.starts_at == "start"
    return _created_response(await starts.retry(space_id, run_id, from_start=from_start, wait=wait, key=key))


@post(
    space_paths("/runs/{run_id:str}/messages"),
    summary="Send a message to an active run",
    tags=_TAGS,
    status_code=202,
    opt={"headers": {"202": REPLAYED_HEADER}},
)
async def steer_run(
    runs: NamedDependency[RunControl],
    run_id: FromPath[RunId],
    data: JSONBody[SteeringBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[Accepted]:
    """Send a message to an active run, which reads it before its next model call."""
    request = keyed_request("steer_run", key, [run_id, data])
    sent = await runs.steer_once(space_id, run_id, data.content, request, message=data.id)
    accepted = Accepted(run_id=run_id, number=sent.value)
    return keyed_response(KeyedResult(value=accepted, replayed=sent.replayed))


async def start_run(
    ag_ui: AgUiControl, space: SpaceId, new: NewRun, *, wait: float, accept: str, language: str | None
) -> Response[Run] | StreamResponse:
    """Start a run and respond with it, or with its stream and snapshots if the client prefers that.

    The preferred `language` of the client is a value of the run: its skills speak it, unless something else is set.
    """
    preferred = None if language is None else preferred_language(language)
    if preferred is not None:
        new = msgspec.structs.replace(new, values={**new.values, "request": {"locale": preferred}})
    if not prefers_stream(accept):
        return _created_response(await ag_ui.starts.start(space, new, wait=wait))
    if wait:
        raise Invalid("a stream lasts until its run has ended: omit `wait`, or request JSON", field="wait")
    created, subscriber = await ag_ui.starts.start_and_subscribe(space, new)
    headers = run_headers(created.run) | replay_headers(replayed=created.replayed)
    return StreamResponse(ProjectedStream(subscriber, ag_ui.project_new_log(created.run), headers=headers))


def _created_response(created: CreatedRun) -> Response[Run]:
    return Response(created.run, headers=replay_headers(replayed=created.replayed))


ROUTES = [
    list_thread_runs,
    read_thread_run,
    list_runs,
    create_run_on_thread,
    read_run,
    cancel_run,
    respond,
    retry_run,
    steer_run,
]
