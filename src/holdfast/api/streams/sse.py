"""Server-sent events: a response that goes on until there is nothing more to say, or nobody who listens."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from litestar import Response

from holdfast.api.asgi import Receive, Scope, Send
from holdfast.api.gate import past_the_gate
from holdfast.api.streams.body import Body, Render
from holdfast.api.streams.frames import NO_RETRY, RETRY, comment, numbered
from holdfast.control.feeds.feed import Ending
from holdfast.control.feeds.follower import Follower
from holdfast.domain.errors import HoldfastError
from holdfast.domain.run import Run

HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
"""Proxies must neither keep nor gather what they pass on."""

LAST_WORDS: Final = {
    Ending.ENDED: NO_RETRY,
    Ending.GONE: comment("gone: what this stream followed was deleted") + NO_RETRY,
    Ending.CLOSING: comment("closing: the server stops, reconnect in a moment"),
    Ending.BEHIND: comment("behind: what this reader missed is not kept, reconnect and read the list again"),
}


class EventStream:
    """An ASGI app that sends what a follower is given."""

    def __init__(
        self,
        follower: Follower,
        *,
        render: Render = numbered,
        prelude: bytes = RETRY,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """Send the `prelude`, and then what `render` makes of each chunk."""
        self._follower = follower
        self._render = render
        self._prelude = prelude
        self._headers = [*HEADERS, *headers]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and send until there is no more, or nobody who listens."""
        with self._follower as follower:
            # a task of its own: to wake a task costs something for each call that waits in it, and here wait many
            sending = asyncio.get_running_loop().create_task(self._answer(scope, send))
            follower.cut_off = sending.cancel
            await _listen(receive, sending)

    async def _answer(self, scope: Scope, send: Send) -> None:
        """Send what there is, and at last why there is no more."""
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        body = Body(self._follower, past_the_gate(scope, send))
        body.write(self._first())
        try:
            body.write(self._last_words(await self._write_all(body)))
        except HoldfastError as error:
            body.write(self._refusal(error))
        await body.end()

    def _first(self) -> bytes:
        """Return what is written before all else."""
        return self._prelude

    def _write_all(self, body: Body) -> Awaitable[Ending]:
        """Write everything, and return why there is no more."""
        return body.write_all(self._render)

    def _last_words(self, ending: Ending) -> bytes:
        """Return how it is written why there is no more."""
        return LAST_WORDS[ending]

    def _refusal(self, error: HoldfastError) -> bytes:
        """Return how it is written that there is no more because something went wrong."""
        return comment(f"{error.code}: {error.message}")


class StreamResponse(Response[Any]):
    """A stream as the answer of a route that also has others."""

    def __init__(self, app: Any) -> None:
        super().__init__(None)
        self._app = app

    def to_asgi_response(self, *args: Any, **kwargs: Any) -> Any:
        """Return the stream."""
        return self._app


def run_stream(run: Run, follower: Follower, *, headers: Mapping[str, str]) -> StreamResponse:
    """Return the log of a run that was just made, as the answer of the route that made it."""
    named = {"content-location": f"/api/spaces/{run.space_id}/runs/{run.id}", "x-run-id": run.id, **headers}
    return StreamResponse(EventStream(follower, headers=[(k.encode(), v.encode()) for k, v in named.items()]))


async def _listen(receive: Receive, sending: asyncio.Task[None]) -> None:
    """Return when the sending is over, which it is at the latest when the reader is gone. The run goes on."""
    time = asyncio.timeout(None)
    sending.add_done_callback(partial(_end, time))
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


def _end(time: asyncio.Timeout, _: object) -> None:
    """End a block whose time is not limited otherwise."""
    with suppress(RuntimeError):  # it has ended: the server says that nobody listens once all was sent
        time.reschedule(asyncio.get_running_loop().time())
