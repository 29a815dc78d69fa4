"""Server-sent events: the frames, the buffered response body, and the ASGI response that streams a feed."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

from litestar import Response

from holdfast.api.asgi import AsgiScope, Receive, Send
from holdfast.api.middleware import unwrapped_send
from holdfast.concurrency import start_background
from holdfast.control.streams.broadcast import MAX_BATCH_BYTES, EventBatch, StreamEnd, StreamItem, Subscriber
from holdfast.domain.errors import HoldfastError
from holdfast.domain.run import Run

RETRY: Final = b"retry: 1000\n\n"
"""How long a browser waits before it comes back, in milliseconds."""
NO_RETRY: Final = b"retry: 86400000\n\n"
"""A browser comes back whatever the reason; after the end there is nothing to come back for."""
KEEPALIVE: Final = b": keepalive\n\n"
PING: Final = '{"type":"ping"}'
PONG: Final = '{"type":"pong"}'


def sse_frames_with_ids(items: Sequence[StreamItem]) -> bytes:
    """Write items as events of an SSE stream, with their numbers as ids."""
    return b"".join([b"id: %d\ndata: %b\n\n" % (item.seq, item.data) for item in items])


def sse_frames(items: Sequence[StreamItem]) -> bytes:
    """Write items as events of an SSE stream that cannot be resumed."""
    return b"".join([b"data: %b\n\n" % item.data for item in items])


def websocket_messages(items: Sequence[StreamItem]) -> list[str]:
    """Write items as messages of a WebSocket."""
    return [f'{{"type":"{item.type}","seq":{item.seq},"data":{item.data.decode()}}}' for item in items]


def sse_comment(text: str) -> bytes:
    """Write something that only people read."""
    return f": {' '.join(text.split())}\n\n".encode()


Render: TypeAlias = Callable[[Sequence[Any]], bytes]

_BODY_MESSAGE: Final = "http.response.body"


class StreamBody:
    """Gathers what is written, and sends it before it waits for more.

    Nothing is held up, and what begins or ends a stream goes out with the events beside it: to send costs more than
    all else that a stream does.
    """

    __slots__ = ("_follower", "_send", "_size", "_unsent")

    def __init__(self, follower: Subscriber, send: Send) -> None:
        self._follower = follower
        self._send = send
        self._unsent: list[bytes] = []
        self._size = 0

    def write(self, piece: bytes) -> None:
        """Add something."""
        self._unsent.append(piece)
        self._size += len(piece)

    async def write_all(self, render: Render) -> StreamEnd:
        """Write what `render` makes of all that comes, and return why there is no more.

        It is what `next` and `write` do, in one loop: a stream to a thousand readers pays for each call in between, and
        of what comes to them all at once nothing need be gathered.
        """
        follower, send, unsent = self._follower, self._send, self._unsent
        found = follower.poll()
        while True:
            if found is None:
                if unsent:
                    await self._flush()
                await follower.wait()
                found = follower.poll()
            if isinstance(found, StreamEnd):
                return found
            piece = KEEPALIVE if found is None else found.rendered(render)
            found = follower.poll()
            if found is None and not unsent:
                await send({"type": _BODY_MESSAGE, "body": piece, "more_body": True})
            else:
                self.write(piece)
                if self._size >= MAX_BATCH_BYTES:
                    await self._flush()

    async def next(self) -> EventBatch | StreamEnd | None:
        """Return what comes next, or why nothing does any more; nothing at all if it is time for a sign of life."""
        if self._size >= MAX_BATCH_BYTES:
            await self._flush()
        found = self._follower.poll()
        if found is None:
            if self._unsent:
                await self._flush()
            await self._follower.wait()
            found = self._follower.poll()
        return found

    async def end(self) -> None:
        """Send the rest; there is no more."""
        await self._send({"type": _BODY_MESSAGE, "body": self._take_unsent()})

    def _flush(self) -> Awaitable[None]:
        return self._send({"type": _BODY_MESSAGE, "body": self._take_unsent(), "more_body": True})

    def _take_unsent(self) -> bytes:
        taken = b"".join(self._unsent)
        self._unsent.clear()
        self._size = 0
        return taken


SSE_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
"""Proxies must neither keep nor gather what they pass on."""

CLOSING_FRAMES: Final = {
    StreamEnd.ENDED: NO_RETRY,
    StreamEnd.GONE: sse_comment("gone: what this stream followed was deleted") + NO_RETRY,
    StreamEnd.CLOSING: sse_comment("closing: the server stops, reconnect in a moment"),
    StreamEnd.BEHIND: sse_comment("behind: what this reader missed is not kept, reconnect and read the list again"),
}


class EventStream:
    """An ASGI app that sends what a follower is given."""

    def __init__(
        self,
        follower: Subscriber,
        *,
        render: Render = sse_frames_with_ids,
        prelude: bytes = RETRY,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """Send the `prelude`, and then what `render` makes of each chunk."""
        self._follower = follower
        self._render = render
        self._prelude = prelude
        self._headers = [*SSE_HEADERS, *headers]

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer, and send until there is no more, or nobody who listens."""
        with self._follower as follower:
            # a task of its own: to wake a task costs something for each call that waits in it, and here wait many
            sending = start_background(self._stream(scope, send), name="holdfast-sse", ended_by="EventStream")
            follower.on_stalled = sending.cancel
            await _wait_for_disconnect(receive, sending)

    async def _stream(self, scope: AsgiScope, send: Send) -> None:
        """Send what there is, and at last why there is no more."""
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        body = StreamBody(self._follower, unwrapped_send(scope, send))
        body.write(self._opening_frame())
        try:
            body.write(self._closing_frame(await self._write_all(body)))
        except HoldfastError as error:
            body.write(self._error_frame(error))
        await body.end()

    def _opening_frame(self) -> bytes:
        """Return what is written before all else."""
        return self._prelude

    def _write_all(self, body: StreamBody) -> Awaitable[StreamEnd]:
        """Write everything, and return why there is no more."""
        return body.write_all(self._render)

    def _closing_frame(self, ending: StreamEnd) -> bytes:
        """Return how it is written why there is no more."""
        return CLOSING_FRAMES[ending]

    def _error_frame(self, error: HoldfastError) -> bytes:
        """Return how it is written that there is no more because something went wrong."""
        return sse_comment(f"{error.code}: {error.message}")


class StreamResponse(Response[Any]):
    """A stream as the answer of a route that also has others."""

    def __init__(self, app: Any) -> None:
        super().__init__(None)
        self._app = app

    def to_asgi_response(self, *args: Any, **kwargs: Any) -> Any:
        """Return the stream."""
        return self._app


def run_stream(run: Run, follower: Subscriber, *, headers: Mapping[str, str]) -> StreamResponse:
    """Return the log of a run that was just made, as the answer of the route that made it."""
    named = {"content-location": f"/api/spaces/{run.space_id}/runs/{run.id}", "x-run-id": run.id, **headers}
    return StreamResponse(EventStream(follower, headers=[(k.encode(), v.encode()) for k, v in named.items()]))


async def _wait_for_disconnect(receive: Receive, sending: asyncio.Task[None]) -> None:
    """Return when the sending is over, which it is at the latest when the reader is gone. The run goes on."""
    time = asyncio.timeout(None)
    sending.add_done_callback(partial(_expire, time))
    try:
        async with time:
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        if not time.expired():
            raise
    finally:
        sending.cancel()
    if not sending.done():
        await asyncio.wait((sending,))
    if not sending.cancelled():
        sending.result()


def _expire(time: asyncio.Timeout, _: object) -> None:
    """End a block whose time is not limited otherwise."""
    with suppress(RuntimeError):  # it has ended: the server says that nobody listens once all was sent
        time.reschedule(asyncio.get_running_loop().time())
