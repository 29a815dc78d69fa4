"""The AG-UI routes: request decoding, segment streams over server-sent events, and the two handlers.

Unknown fields are ignored and null means absent. A stream ends where its segment ends, although the run may continue.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from litestar import get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody
from litestar.typing import FieldDefinition

from holdfast.api.ag_ui.runs import AgUiControl
from holdfast.api.ag_ui.segments import SegmentProjection, SegmentSubscription
from holdfast.api.bodies import RunBody
from holdfast.api.json_body import JsonBody, check_json_type, decode_json, mismatch_error
from holdfast.api.parameters import IdQuery, parse_run_id, space_paths
from holdfast.api.streams.sse import KEEPALIVE, RETRY, EventStream, StreamBody, StreamResponse, sse_frames_with_ids
from holdfast.control.streams.broadcast import EventBatch, StreamEnd
from holdfast.domain.events.messages import RunAgentInput
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.space import DEFAULT_SPACE

_AG_UI_KEYS: Final = (b'"threadId"', b'"runId"')
"""What a request of the protocol has, and none of ours."""
_ANY_JSON_FIELDS: Final = frozenset({"state", "forwardedProps", "parameters", "metadata", "payload"})
_NATIVE: Final = msgspec.json.Decoder(RunBody)
_ANY: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()


class AgUiBody(JsonBody):
    """Reads a request of the protocol."""

    @classmethod
    def create_for_field_definition(
        cls, field_definition: FieldDefinition, handler_id: str, backend_cls: Any = None
    ) -> None:
        """Need no decoder of the route's own."""

    def decode_bytes(self, value: bytes) -> Any:
        """Return the request."""
        check_json_type(self.asgi_connection.headers.get("content-type"))
        return decode_input(decode_json(_ANY, value))


class RunOrAgUiBody(AgUiBody):
    """Reads a run to be made, in our own words or in those of the protocol."""

    def decode_bytes(self, value: bytes) -> Any:
        """Return the body of a run, or the request."""
        check_json_type(self.asgi_connection.headers.get("content-type"))
        if any(mark in value for mark in _AG_UI_KEYS):
            found = decode_json(_ANY, value)
            if isinstance(found, dict) and ("threadId" in found or "runId" in found):
                return decode_input(found)
        return decode_json(_NATIVE, value)


def decode_input(body: Any) -> RunAgentInput:
    """Return a request of the protocol, or raise what is wrong with it."""
    given = _without_nulls(body)
    try:
        return msgspec.convert(given, RunAgentInput)
    except msgspec.ValidationError as exc:
        raise mismatch_error(exc, given, RunAgentInput) from exc


def _without_nulls(found: Any) -> Any:
    """Return a request without the null fields that some clients write; what may be any JSON is left as it is."""
    if isinstance(found, list):
        return [_without_nulls(each) for each in found]
    if not isinstance(found, dict):
        return found
    given = {name: value for name, value in found.items() if value is not None}
    return {name: value if name in _ANY_JSON_FIELDS else _without_nulls(value) for name, value in given.items()}


class SegmentStream(EventStream):
    """An ASGI app that sends a segment."""

    def __init__(self, subscription: SegmentSubscription, *, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(subscription.follower, render=sse_frames_with_ids, prelude=RETRY, headers=headers)
        self._segment: SegmentProjection = subscription.segment

    async def _write_all(self, body: StreamBody) -> StreamEnd:
        while not isinstance(found := await body.next(), StreamEnd):
            body.write(KEEPALIVE if found is None else await self._rendered(found))
            if self._segment.ended:
                return StreamEnd.ENDED
        return found

    async def _rendered(self, chunk: EventBatch) -> bytes:
        sent: Sequence[Any] = await self._segment.project(chunk.items)
        return chunk.rendered(sse_frames_with_ids) if sent is chunk.items else sse_frames_with_ids(sent)


def segment_stream(subscription: SegmentSubscription) -> StreamResponse:
    """Return a segment as the answer of a route."""
    run = subscription.run
    named = {"content-location": f"/api/spaces/{run.space_id}/runs/{run.id}", "x-run-id": run.id}
    headers = [(name.encode(), value.encode()) for name, value in named.items()]
    return StreamResponse(SegmentStream(subscription, headers=headers))


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
    """Run an agent as AG-UI 1.0 says, on the thread that the client names, which is made on first use."""
    return segment_stream(await ag_ui.run_agent(space_id, name, data, base=parse_run_id(base_run_id)))


@get(space_paths("/runs/{run_id:str}/segment"), summary="Join a segment", tags=_TAGS, opt=_SSE)
async def join_segment(
    ag_ui: NamedDependency[AgUiControl], run_id: FromPath[RunId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> StreamResponse:
    """Send a segment from its beginning, with the conversation before it, until it ends.

    It is for clients of AG-UI that were cut off: what they have of the segment is taken back and sent again. By the id
    of a run it is its latest segment.
    """
    return segment_stream(await ag_ui.join(space_id, run_id))


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (run_agent, join_segment)
