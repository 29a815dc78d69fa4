"""The AG-UI routes: request decoding, segment streams over server-sent events, and the handlers.

The route that starts runs accepts native and AG-UI requests, so it is here too.

Unknown fields are ignored and null means absent. A stream ends where its segment ends, although the run may continue.
"""

from typing import Any, Final

import msgspec
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody
from litestar.typing import FieldDefinition

from holdfast.api.ag_ui.runs import AgUiControl
from holdfast.api.ag_ui.segments import ProjectedStream, SegmentSubscription, run_headers
from holdfast.api.bodies import RunBody
from holdfast.api.idempotency import REPLAYED_HEADER, IdempotencyKey
from holdfast.api.json_body import JsonBody, check_json_type, decode_json, mismatch_error
from holdfast.api.parameters import IdQuery, WaitSeconds, parse_run_id, space_paths
from holdfast.api.routes.runs import (
    RUN_STREAM_HEADERS,
    THREAD_RUNS_PATHS,
    AcceptHeader,
    LanguageHeader,
    start_run,
)
from holdfast.api.streams.sse import StreamResponse
from holdfast.domain.errors import Invalid
from holdfast.domain.events.messages import RunAgentInput
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.run import Run
from holdfast.domain.space import DEFAULT_SPACE

_AG_UI_KEYS: Final = (b'"threadId"', b'"runId"')
"""Keys of AG-UI requests that native requests do not have."""
_ANY_JSON_FIELDS: Final = frozenset({"state", "forwardedProps", "parameters", "metadata", "payload"})
_NATIVE: Final = msgspec.json.Decoder(RunBody)
_ANY: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()


class AgUiBody(JsonBody):
    """Decodes an AG-UI request."""

    @classmethod
    def create_for_field_definition(
        cls, field_definition: FieldDefinition, handler_id: str, backend_cls: Any = None
    ) -> None:
        """Do nothing: the body has one fixed type."""

    def decode_bytes(self, value: bytes) -> Any:
        """Return the decoded request."""
        check_json_type(self.asgi_connection.headers.get("content-type"))
        return decode_input(decode_json(_ANY, value))


class RunOrAgUiBody(AgUiBody):
    """Decodes a new run, in the native shape or as an AG-UI request."""

    def decode_bytes(self, value: bytes) -> Any:
        """Return the decoded native body or AG-UI request."""
        check_json_type(self.asgi_connection.headers.get("content-type"))
        if any(key in value for key in _AG_UI_KEYS):
            body = decode_json(_ANY, value)
            if isinstance(body, dict) and ("threadId" in body or "runId" in body):
                return decode_input(body)
        return decode_json(_NATIVE, value)


def decode_input(body: Any) -> RunAgentInput:
    """Return a JSON body as an AG-UI request, or raise `Invalid`."""
    fields = _without_nulls(body)
    try:
        return msgspec.convert(fields, RunAgentInput)
    except msgspec.ValidationError as exc:
        raise mismatch_error(exc, fields, RunAgentInput) from exc


def _without_nulls(value: Any) -> Any:
    """Return a request without the null fields that some clients send, except in fields that may be any JSON."""
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: field if name in _ANY_JSON_FIELDS else _without_nulls(field)
        for name, field in value.items()
        if field is not None
    }


def _segment_stream(subscription: SegmentSubscription) -> StreamResponse:
    run, subscriber, segment = subscription
    return StreamResponse(ProjectedStream(subscriber, segment, headers=run_headers(run)))


_TAGS: Final = ["ag-ui"]
_SSE: Final = {"content": {"text/event-stream": str}}


@post(
    space_paths("/agents/{name:str}/run"), summary="Run an agent", tags=_TAGS, status_code=200, dto=AgUiBody, opt=_SSE
)
async def run_agent(
    ag_ui: NamedDependency[AgUiControl],
    name: FromPath[str],
    data: JSONBody[RunAgentInput],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    base_run_id: IdQuery = None,
) -> StreamResponse:
    """Run an agent with AG-UI 1.0, on the thread that the request names, which is created on first use."""
    subscription = await ag_ui.run_agent(space_id, name, data, base=parse_run_id(base_run_id))
    return _segment_stream(subscription)


@get(space_paths("/runs/{run_id:str}/segment"), summary="Join a segment", tags=_TAGS, opt=_SSE)
async def join_segment(
    ag_ui: NamedDependency[AgUiControl], run_id: FromPath[RunId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> StreamResponse:
    """Send a segment from its start, with the conversation before it, until it ends.

    For AG-UI clients that were disconnected: the part of the segment that they have is sent again. The id of a run
    stands for its latest segment.
    """
    return _segment_stream(await ag_ui.join(space_id, run_id))


@post(
    THREAD_RUNS_PATHS,
    summary="Start a run",
    tags=["runs"],
    dto=RunOrAgUiBody,
    opt={
        "body": {"application/json": RunBody},
        "content": {"application/json": Run},
        "also": {"200": {"text/event-stream": str}},
        "headers": {"201": REPLAYED_HEADER, "200": {**REPLAYED_HEADER, **RUN_STREAM_HEADERS}},
    },
)
async def create_run(
    ag_ui: NamedDependency[AgUiControl],
    thread_id: FromPath[ThreadId],
    data: JSONBody[RunBody | RunAgentInput],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
    wait: WaitSeconds = 0,
    base_run_id: IdQuery = None,
    accept: AcceptHeader = "*/*",
    language: LanguageHeader = None,
) -> Response[Run] | StreamResponse:
    """Start a run on a thread; it is durable before the response is sent.

    With `Accept: text/event-stream` the response is 200 and the stream of the run with snapshots, and the header
    `X-Run-Id` has its id; `wait` is not allowed then. A second request with the same idempotency key and body returns
    the run of the first, with the header `Idempotency-Replayed: true`.

    A body with `threadId` or `runId` is the `RunAgentInput` of AG-UI 1.0, and the response is 200 and the stream of one
    segment; only then the query may have `base_run_id`.
    """
    if isinstance(data, RunBody):
        if base_run_id is not None:
            raise Invalid("send `base_run_id` in the body", field="base_run_id")
        new = data.new_run(thread_id, key=key)
        return await start_run(ag_ui, space_id, new, wait=wait, accept=accept, language=language)
    if data.thread_id != thread_id:
        raise Invalid(f"`threadId` names another thread than the path, `{thread_id}`", field="threadId")
    if wait or key is not None:
        raise Invalid("an AG-UI request takes neither `wait` nor an idempotency key: its `runId` is used once")
    return _segment_stream(await ag_ui.run(space_id, data, base=parse_run_id(base_run_id)))


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (create_run, run_agent, join_segment)
