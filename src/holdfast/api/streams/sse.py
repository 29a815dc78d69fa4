"""Server-sent events: a response that goes on until there is nothing more to say, or nobody who listens."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from litestar import Response

from holdfast.api.asgi import Receive, Scope, Send
from holdfast.api.gate import past_the_gate
from holdfast.api.streams.body import Body
from holdfast.api.streams.frames import KEEPALIVE, NO_RETRY, RETRY, comment, numbered
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

Render: TypeAlias = Callable[[Sequence[Any]], bytes]


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
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            time = asyncio.timeout(None)
            try:
                async with time:
                    await self._send_until(partial(_end, time), Body(follower, past_the_gate(scope, send)), receive)
            except TimeoutError:
                if not time.expired():
                    raise

    async def _send_until(self, end: Callable[[], None], body: Body, receive: Receive) -> None:
        """Send all of it; `end` is called when the reader is too slow, or gone."""
        self._follower.cut_off = end
        listening = asyncio.get_running_loop().create_task(_listen(receive, end))
        try:
            await self._send(body)
        finally:
            listening.cancel()

    async def _send(self, body: Body) -> None:
        """Send what there is, and at last why there is no more."""
        body.write(self._prelude)
        try:
            body.write(LAST_WORDS[await self._write_all(body)])
        except HoldfastError as error:
            body.write(comment(f"{error.code}: {error.message}"))
        await body.end()

    async def _write_all(self, body: Body) -> Ending:
        """Write everything, and return why there is no more."""
        render = self._render
        while not isinstance(found := await body.next(), Ending):
            body.write(KEEPALIVE if found is None else found.rendered(render))
        return found


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


async def _listen(receive: Receive, end: Callable[[], None]) -> None:
    """End the sending when the reader is gone. The run goes on."""
    while (await receive())["type"] != "http.disconnect":
        pass
    end()


def _end(time: asyncio.Timeout) -> None:
    """End a block whose time is not limited otherwise."""
    if not time.expired():
        time.reschedule(asyncio.get_running_loop().time())
