"""Runs: made, listed, answered, steered and ended."""

from typing import Annotated

import msgspec
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody

from holdfast.api.ag_ui.body import RunOrAgUiBody
from holdfast.api.ag_ui.stream import segment_stream
from holdfast.api.bodies import AnswerBody, CancelBody, RetryBody, RunBody, SteeringBody
from holdfast.api.parameters import Cursor, Identifier, Limit, Wait, anywhere, prefers_stream, run_named
from holdfast.api.streams.sse import StreamResponse, run_stream
from holdfast.control.ag_ui.ag_ui import AgUiControl
from holdfast.control.run_details import RunDetails
from holdfast.control.runs import RunControl
from holdfast.control.starting import RunStarts
from holdfast.domain.errors import Invalid
from holdfast.domain.events.messages import RunAgentInput
from holdfast.domain.idempotency import MAX_IDEMPOTENCY_KEY_CHARS
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.new_run import CreatedRun, NewRun
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Mode, Run, RunStatus
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.ports.runs import RunFilter

_TAGS = ["runs"]
_NO_REASON = CancelBody()
_GO_ON = RetryBody()
_OF_THREAD = anywhere("/threads/{thread_id:str}/runs")

REPLAYED = {"Idempotency-Replayed": "`true` if the run was made by an earlier request under the same key."}
_STREAMED = {"X-Run-Id": "The id of the run.", "Content-Location": "The address of the run."}

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=MAX_IDEMPOTENCY_KEY_CHARS,
        description="Two requests with the same key and body make one run; with another body the second is refused.",
    ),
]


Accept = Annotated[str, HeaderParameter(name="Accept", description="`text/event-stream` asks for the run's stream.")]


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """What was put into a run's inbox, by its number there."""

    run_id: RunId
    number: int


@post(
    _OF_THREAD,
    summary="Start a run",
    tags=_TAGS,
    dto=RunOrAgUiBody,
    opt={
        "body": {"application/json": RunBody},
        "content": {"application/json": Run},
        "also": {"200": {"text/event-stream": str}},
        "headers": {"201": REPLAYED, "200": {**REPLAYED, **_STREAMED}},
    },
)
async def create_run(
    ag_ui: NamedDependency[AgUiControl],
    thread_id: FromPath[ThreadId],
    data: JSONBody[RunBody | RunAgentInput],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
    wait: Wait = 0,
    base_run_id: Identifier = None,
    accept: Accept = "*/*",
) -> Response[Run] | StreamResponse:
    """Start a run on a thread; once it is answered for, no crash can lose it.

    With `Accept: text/event-stream` the answer is 200 and the stream of the run, whose id is in the header `X-Run-Id`;
    there is nothing to `wait` for then. Under an idempotency key that was used before with the same body, it is the run
    that was made then, with the header `Idempotency-Replayed: true`.

    A body with `threadId` or `runId` is the `RunAgentInput` of AG-UI 1.0, and the answer is 200 and the stream of one
    segment; only there `base_run_id` may stand in the query.
    """
    if isinstance(data, RunAgentInput):
        _check_asked(data, thread_id, wait=wait, key=key)
        return segment_stream(await ag_ui.run(space_id, data, base=run_named(base_run_id)))
    if base_run_id is not None:
        raise Invalid("say `base_run_id` in the body", field="base_run_id")
    new = data.new_run(thread_id, key=key)
    if prefers_stream(accept):
        return await _streamed(ag_ui.starts, space_id, new, wait=wait)
    return _created(await ag_ui.starts.start(space_id, new, wait=wait))


@get(_OF_THREAD, summary="List the runs of a thread", tags=_TAGS)
async def list_thread_runs(
    details: NamedDependency[RunDetails],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    status: FromQuery[RunStatus | None] = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Run]:
    """Return the runs of a thread, the newest first."""
    where = RunFilter(thread_id=thread_id, status=status)
    return await details.page(space_id, where=where, limit=limit, cursor=cursor)


@get(anywhere("/threads/{thread_id:str}/runs/{run_id:str}"), summary="Read a run of a thread", tags=_TAGS)
async def read_thread_run(
    details: NamedDependency[RunDetails],
    thread_id: FromPath[ThreadId],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Run:
    """Return a run, which must be of that thread."""
    return await details.of_thread(space_id, thread_id, run_id)


@get(anywhere("/runs"), summary="List the runs of a space", tags=_TAGS)
async def list_runs(
    details: NamedDependency[RunDetails],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    status: FromQuery[RunStatus | None] = None,
    agent_type: FromQuery[str | None] = None,
    mode: FromQuery[Mode | None] = None,
    tag: FromQuery[str | None] = None,
    root_run_id: Identifier = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Run]:
    """Return runs, the newest first; `root_run_id` gives one run with all that were spawned below it."""
    root = run_named(root_run_id)
    where = RunFilter(status=status, agent_type=agent_type, mode=mode, tag=tag, root_run_id=root)
    return await details.page(space_id, where=where, limit=limit, cursor=cursor)


@get(anywhere("/runs/{run_id:str}"), summary="Read a run", tags=_TAGS)
async def read_run(
    details: NamedDependency[RunDetails], run_id: FromPath[RunId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Run:
    """Return a run as it is now."""
    return await details.get(space_id, run_id)


@post(anywhere("/runs/{run_id:str}/cancel"), summary="Cancel a run", tags=_TAGS, status_code=200)
async def cancel_run(
    runs: NamedDependency[RunControl],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    data: JSONBody[CancelBody] = _NO_REASON,
) -> Run:
    """End a run and all below it. One that has ended is refused."""
    return await runs.cancel(space_id, run_id, reason=data.reason)


@post(anywhere("/runs/{run_id:str}/respond"), summary="Answer a run's question", tags=_TAGS, status_code=200)
async def respond(
    runs: NamedDependency[RunControl],
    run_id: FromPath[RunId],
    data: JSONBody[AnswerBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Interrupt:
    """Answer what a run, or one below it, asks; of many answers one is accepted."""
    return await runs.respond(space_id, run_id, data.response, interrupt=data.interrupt_id, digest=data.digest)


@post(anywhere("/runs/{run_id:str}/retry"), summary="Try a run again", tags=_TAGS)
async def retry_run(
    starts: NamedDependency[RunStarts],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    data: JSONBody[RetryBody] = _GO_ON,
    wait: Wait = 0,
) -> Response[Run]:
    """Start a new run where one that failed or was cancelled stopped, or from its start."""
    return _created(await starts.retry(space_id, run_id, from_start=data.starts_at == "start", wait=wait))


@post(anywhere("/runs/{run_id:str}/messages"), summary="Tell a run something", tags=_TAGS, status_code=202)
async def steer_run(
    runs: NamedDependency[RunControl],
    run_id: FromPath[RunId],
    data: JSONBody[SteeringBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Accepted:
    """Tell a run something on its way: it hears it before its next model call."""
    number = await runs.steer(space_id, run_id, data.content, message=data.id)
    return Accepted(run_id=run_id, number=number)


def _check_asked(asked: RunAgentInput, thread: ThreadId, *, wait: float, key: str | None) -> None:
    if asked.thread_id != thread:
        raise Invalid(f"`threadId` names another thread than the address, `{thread}`", field="threadId")
    if wait or key is not None:
        raise Invalid("the stream of a segment is not waited for, and its `runId` is used once: send neither")


async def _streamed(starts: RunStarts, space: SpaceId, new: NewRun, *, wait: float) -> StreamResponse:
    if wait:
        raise Invalid("a stream goes on until its run has ended: leave out `wait`, or ask for JSON", field="wait")
    created, follower = await starts.follow(space, new)
    return run_stream(created.run, follower, headers=_headers(created))


def _created(created: CreatedRun) -> Response[Run]:
    return Response(created.run, headers=_headers(created))


def _headers(created: CreatedRun) -> dict[str, str]:
    return {"Idempotency-Replayed": "true"} if created.replayed else {}


ROUTES = [
    create_run,
    list_thread_runs,
    read_thread_run,
    list_runs,
    read_run,
    cancel_run,
    respond,
    retry_run,
    steer_run,
]
