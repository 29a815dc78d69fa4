"""Routes for live streams: runs over SSE and WebSocket, notifications, and status hints of a space."""

from typing import Any, Final

from litestar import WebSocket, get, websocket
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler, WebsocketRouteHandler
from litestar.params import FromPath, FromQuery

from holdfast.api.ag_ui.runs import AgUiControl
from holdfast.api.ag_ui.segments import ProjectedStream
from holdfast.api.parameters import LastEventHeader, LastEventId, resume_position, space_paths
from holdfast.api.streams.sse import RETRY, EventStream, sse_frames
from holdfast.api.streams.websocket import RunSocket, check_handshake, deny_handshake
from holdfast.control.streams.live_streams import LiveStreams
from holdfast.domain.errors import HoldfastError
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.task_ids import run_id_of

_SSE_OPTIONS: Final = {"content": {"text/event-stream": str}}


@get(space_paths("/runs/{run_id:str}/sse"), summary="Follow a run", tags=["streams"], opt=_SSE_OPTIONS)
async def follow_run(
    streams: NamedDependency[LiveStreams],
    ag_ui: NamedDependency[AgUiControl],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    header: LastEventHeader = None,
    last_event_id: LastEventId = None,
    snapshots: FromQuery[bool] = False,
) -> EventStream:
    """Stream the log of a run after an event, then new events, until the run has ended.

    With `snapshots` a `MESSAGES_SNAPSHOT` follows each event that makes messages void, and a `STATE_SNAPSHOT` the start
    of a run that has a state. They have the `id:` of the event before them, and are not in the log.
    """
    after = resume_position(header, last_event_id) or 0
    if snapshots:
        subscriber, projection, missed = await ag_ui.follow_log(space_id, run_id_of(run_id), after=after)
        return ProjectedStream(subscriber, projection, missed=missed)
    return EventStream(await streams.subscribe_run(space_id, run_id_of(run_id), after=after))


@get(space_paths("/notifications/sse"), summary="Follow notifications", tags=["streams"], opt=_SSE_OPTIONS)
async def follow_notifications(
    streams: NamedDependency[LiveStreams],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    header: LastEventHeader = None,
    last_event_id: LastEventId = None,
) -> EventStream:
    """Stream the notifications of a space after one of them, or from now on; `last_event_id=0` means all."""
    subscriber = await streams.subscribe_notifications(space_id, after=resume_position(header, last_event_id))
    # The initial id lets a client that disconnects before the first notification resume at the same position.
    return EventStream(subscriber, prelude=b"%bid: %d\n\n" % (RETRY, subscriber.position))


@get("/api/spaces/{space_id:str}/feed", summary="Follow the runs of a space", tags=["streams"], opt=_SSE_OPTIONS)
async def follow_space(streams: NamedDependency[LiveStreams], space_id: FromPath[SpaceId]) -> EventStream:
    """Stream a hint with the status of a run each time it changes. Hints are for lists, and are not stored."""
    return EventStream(await streams.subscribe_space(space_id), render=sse_frames)


@websocket(space_paths("/runs/{run_id:str}/ws"), middleware=[check_handshake])
async def run_socket(
    socket: WebSocket[Any, Any, Any],
    streams: NamedDependency[LiveStreams],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    header: LastEventHeader = None,
    last_event_id: LastEventId = None,
) -> None:
    """Stream the log of a run as messages `{type, seq, data}`, until the run has ended."""
    try:
        after = resume_position(header, last_event_id) or 0
        subscriber = await streams.subscribe_run(space_id, run_id_of(run_id), after=after)
    except HoldfastError as error:
        await deny_handshake(error, socket.scope, socket.send)
    else:
        await RunSocket(subscriber, socket.scope, socket.receive, socket.send).serve()


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (follow_run, follow_notifications, follow_space)
SOCKETS: Final[tuple[WebsocketRouteHandler, ...]] = (run_socket,)
