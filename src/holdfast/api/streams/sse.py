"""Server-sent events: the frames, the buffered response body, and the ASGI response that streams a channel."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

from litestar import Response

from holdfast.api.asgi import AsgiScope, Receive, Send
from holdfast.api.middleware import unwrapped_send
from holdfast.concurrency import start_background
from holdfast.control.streams.broadcast import MAX_BATCH_BYTES, EventBatch, StreamEnd, StreamItem, Subscriber
from holdfast.domain.errors import HoldfastError

RETRY: Final = b"retry: 1000\n\n"
"""Makes a browser reconnect after 1000 milliseconds."""
NO_RETRY: Final = b"retry: 86400000\n\n"
"""Keeps a browser from reconnecting after the end of a stream, for a day."""
KEEPALIVE: Final = b": keepalive\n\n"
PING: Final = '{"type":"ping"}'
PONG: Final = '{"type":"pong"}'


def sse_frames_with_ids(items: Sequence[StreamItem]) -> bytes:
    """Render items as SSE events, with their sequence numbers as ids."""
    return b"".join([b"id: %d\ndata: %b\n\n" % (item.seq, item.data) for item in items])


def sse_frames(items: Sequence[StreamItem]) -> bytes:
    """Render items as SSE events without ids, for a stream that cannot be resumed."""
    return b"".join([b"data: %b\n\n" % item.data for item in items])


def websocket_messages(items: Sequence[StreamItem]) -> list[str]:
    """Render items as WebSocket messages."""
    return [f'{{"type":"{item.type}","seq":{item.seq},"data":{item.data.decode()}}}' for item in items]


def sse_comment(text: str) -> bytes:
    """Render an SSE comment, which clients ignore."""
    return f": {' '.join(text.split())}\n\n".encode()


Render: TypeAlias = Callable[[Sequence[Any]], bytes]

_BODY_MESSAGE: Final = "http.response.body"


class StreamBody:
    """Buffers what is written, and sends it before it waits for more events.

    Nothing is delayed, and the first and last frames are sent together with the events next to them: a send costs more
    than everything else in a stream.
    """

    __slots__ = ("_subscriber", "_send", "_size", "_unsent")

    def __init__(self, subscriber: Subscriber, send: Send) -> None:
        self._subscriber = subscriber
        self._send = send
        self._unsent: list[bytes] = []
        self._size = 0

    def write(self, frame: bytes) -> None:
        """Buffer a frame."""
        self._unsent.append(frame)
        self._size += len(frame)

    async def write_all(self, render: Render) -> StreamEnd:
        """Send all batches rendered by `render`, and return the end reason.

        This is `next` and `write` in one loop: a stream to a thousand subscribers pays for each call in between, and a
        single batch needs no buffer.
        """
        subscriber, send, unsent = self._subscriber, self._send, self._unsent
        item = subscriber.poll()
        while True:
            if item is None:
                if unsent:
                    await self._flush()
                await subscriber.wait()
                item = subscriber.poll()
            if isinstance(item, StreamEnd):
                return item
            frames = KEEPALIVE if item is None else item.rendered(render)
            item = subscriber.poll()
            if item is None and not unsent:
                await send({"type": _BODY_MESSAGE, "body": frames, "more_body": True})
            else:
                self.write(frames)
                if self._size >= MAX_BATCH_BYTES:
                    await self._flush()

    async def next(self) -> EventBatch | StreamEnd | None:
        """Return the next batch, the end reason, or `None` when a keepalive is due."""
        if self._size >= MAX_BATCH_BYTES:
            await self._flush()
        item = self._subscriber.poll()
        if item is None:
            if self._unsent:
                await self._flush()
            await self._subscriber.wait()
            item = self._subscriber.poll()
        return item

    async def end(self) -> None:
        """Send the rest, and complete the response."""
        await self._send({"type": _BODY_MESSAGE, "body": self._take_unsent()})

    def _flush(self) -> Awaitable[None]:
        return self._send({"type": _BODY_MESSAGE, "body": self._take_unsent(), "more_body": True})

    def _take_unsent(self) -> bytes:
        body = b"".join(self._unsent)
        self._unsent.clear()
        self._size = 0
        return body


SSE_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
"""Proxies must neither cache nor buffer a stream."""

CLOSING_FRAMES: Final = {
    StreamEnd.ENDED: NO_RETRY,
    StreamEnd.GONE: sse_comment("gone: the subject of this stream was deleted") + NO_RETRY,
    StreamEnd.CLOSING: sse_comment("closing: the server is shutting down, reconnect in a moment"),
    StreamEnd.BEHIND: sse_comment("behind: missed events are not stored, reconnect and read the list again"),
}


class EventStream:
    """An ASGI app that streams the batches of a subscriber."""

    def __init__(
        self,
        subscriber: Subscriber,
        *,
        render: Render = sse_frames_with_ids,
        prelude: bytes = RETRY,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """Send the `prelude`, then each batch rendered by `render`."""
        self._subscriber = subscriber
        self._render = render
        self._prelude = prelude
        self._headers = [*SSE_HEADERS, *headers]

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Stream until the end of the channel, or until the client disconnects."""
        with self._subscriber as subscriber:
            # A separate task: waking a task costs time per frame on its stack, and this one has many.
            sending = start_background(self._stream(scope, send), name="holdfast-sse", ended_by="EventStream")
            subscriber.on_stalled = sending.cancel
            await _wait_for_disconnect(receive, sending)

    async def _stream(self, scope: AsgiScope, send: Send) -> None:
        """Send the head, all batches, and the closing or error frame."""
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        body = StreamBody(self._subscriber, unwrapped_send(scope, send))
        body.write(self._opening_frame())
        try:
            body.write(self._closing_frame(await self._write_all(body)))
        except HoldfastError as error:
            body.write(self._error_frame(error))
        await body.end()

    def _opening_frame(self) -> bytes:
        """Return the first frame."""
        return self._prelude

    def _write_all(self, body: StreamBody) -> Awaitable[StreamEnd]:
        """Write all batches, and return the end reason."""
        return body.write_all(self._render)

    def _closing_frame(self, reason: StreamEnd) -> bytes:
        """Return the last frame."""
        return CLOSING_FRAMES[reason]

    def _error_frame(self, error: HoldfastError) -> bytes:
        """Return the last frame after an error."""
        return sse_comment(f"{error.code}: {error.message}")


class StreamResponse(Response[Any]):
    """A stream as the response of a route that also returns other responses."""

    def __init__(self, app: Any) -> None:
        super().__init__(None)
        self._app = app

    def to_asgi_response(self, *args: Any, **kwargs: Any) -> Any:
        """Return the ASGI app of the stream."""
        return self._app


async def _wait_for_disconnect(receive: Receive, sending: asyncio.Task[None]) -> None:
    """Wait until the stream is sent; cancel it when the client disconnects. The run continues."""
    timeout = asyncio.timeout(None)
    sending.add_done_callback(partial(_expire, timeout))
    try:
        async with timeout:
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        if not timeout.expired():
            raise
    finally:
        sending.cancel()
    if not sending.done():
        await asyncio.wait((sending,))
    if not sending.cancelled():
        sending.result()


def _expire(timeout: asyncio.Timeout, _: object) -> None:
    with suppress(RuntimeError):  # the block has ended: the server reports a disconnect after the last message
        timeout.reschedule(asyncio.get_running_loop().time())
