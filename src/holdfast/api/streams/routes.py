"""The streams, by their addresses."""

from typing import Any, Final

from litestar import WebSocket, get, websocket
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler, WebsocketRouteHandler
from litestar.params import FromPath

from holdfast.api.parameters import anywhere
from holdfast.api.streams.cursor import LastEventHeader, LastEventId, position_of
from holdfast.api.streams.frames import RETRY, plain
from holdfast.api.streams.sse import EventStream
from holdfast.api.streams.websocket import RunSocket, checked, deny
from holdfast.control.feeds.feeds import Feeds
from holdfast.control.task_contract.ids import run_id_of
from holdfast.domain.errors import HoldfastError
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.space import DEFAULT_SPACE

_SSE: Final = {"content": {"text/event-stream": str}}


@get(anywhere("/runs/{run_id:str}/sse"), summary="Follow a run", tags=["streams"], opt=_SSE)
async def follow_run(
    feeds: NamedDependency[Feeds],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    header: LastEventHeader = None,
    last_event_id: LastEventId = None,
) -> EventStream:
    """Send the log of a run after an event, then what is added to it, until the run has ended."""
    after = position_of(header, last_event_id) or 0
    return EventStream(await feeds.run(space_id, run_id_of(run_id), after=after))


@get(anywhere("/notifications/sse"), summary="Follow notifications", tags=["streams"], opt=_SSE)
async def follow_notifications(
    feeds: NamedDependency[Feeds],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    header: LastEventHeader = None,
    last_event_id: LastEventId = None,
) -> EventStream:
    """Send the notifications of a space after one of them, or from now on; `last_event_id=0` means all."""
    follower = await feeds.news(space_id, after=position_of(header, last_event_id))
    # Who is cut off before the first notification comes back to where it began.
    return EventStream(follower, prelude=b"%bid: %d\n\n" % (RETRY, follower.position))


@get("/api/spaces/{space_id:str}/feed", summary="Follow the runs of a space", tags=["streams"], opt=_SSE)
async def follow_space(feeds: NamedDependency[Feeds], space_id: FromPath[SpaceId]) -> EventStream:
    """Send hints from now on: where a run stands, each time that it moved. They are for lists, and are not kept."""
    return EventStream(await feeds.space(space_id), render=plain)


@websocket(anywhere("/runs/{run_id:str}/ws"), middleware=[checked])
async def run_socket(
    socket: WebSocket[Any, Any, Any],
    feeds: NamedDependency[Feeds],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    header: LastEventHeader = None,
    last_event_id: LastEventId = None,
) -> None:
    """Send the log of a run as messages `{type, seq, data}`, until the run has ended."""
    try:
        after = position_of(header, last_event_id) or 0
        follower = await feeds.run(space_id, run_id_of(run_id), after=after)
    except HoldfastError as error:
        await deny(error, socket.scope, socket.send)
    else:
        await RunSocket(follower, socket.scope, socket.receive, socket.send).serve()


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (follow_run, follow_notifications, follow_space)
SOCKETS: Final[tuple[WebsocketRouteHandler, ...]] = (run_socket,)
