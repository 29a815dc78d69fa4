"""A segment as server-sent events: it ends where the segment ends, although the run may go on."""

from collections.abc import Sequence
from typing import Any

from holdfast.api.streams.body import Body
from holdfast.api.streams.frames import KEEPALIVE, RETRY, numbered
from holdfast.api.streams.sse import EventStream, StreamResponse
from holdfast.control.ag_ui.segment import Segment, Streamed
from holdfast.control.feeds.chunk import Chunk
from holdfast.control.feeds.feed import Ending


class SegmentStream(EventStream):
    """An ASGI app that sends a segment."""

    def __init__(self, streamed: Streamed, *, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(streamed.follower, render=numbered, prelude=RETRY, headers=headers)
        self._segment: Segment = streamed.segment

    async def _write_all(self, body: Body) -> Ending:
        while not isinstance(found := await body.next(), Ending):
            body.write(KEEPALIVE if found is None else await self._rendered(found))
            if self._segment.over:
                return Ending.ENDED
        return found

    async def _rendered(self, chunk: Chunk) -> bytes:
        sent: Sequence[Any] = await self._segment.sent(chunk.items)
        return chunk.rendered(numbered) if sent is chunk.items else numbered(sent)


def segment_stream(streamed: Streamed) -> StreamResponse:
    """Return a segment as the answer of a route."""
    run = streamed.run
    named = {"content-location": f"/api/spaces/{run.space_id}/runs/{run.id}", "x-run-id": run.id}
    headers = [(name.encode(), value.encode()) for name, value in named.items()]
    return StreamResponse(SegmentStream(streamed, headers=headers))
