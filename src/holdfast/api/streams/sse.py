"""Server-sent events: a response that goes on until there is nothing more to say, or nobody who listens."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from litestar import Response

from holdfast.api.asgi import Receive, Scope, Send
from holdfast.api.gate import past_the_gate
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
Write: TypeAlias = Callable[[bytes], Awaitable[None]]


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
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(self._send(past_the_gate(scope, send)))
                follower.cut_off = sending.cancel
                listening = tasks.create_task(_listen(receive, sending))
                sending.add_done_callback(lambda _: listening.cancel())

    async def _send(self, send: Send) -> None:
        def write(body: bytes) -> Awaitable[None]:
            return send({"type": "http.response.body", "body": body, "more_body": True})

        try:
            await write(self._prelude)
            last_words = LAST_WORDS[await self._write_all(write)]
        except HoldfastError as error:
            last_words = comment(f"{error.code}: {error.message}")
        await send({"type": "http.response.body", "body": last_words})

    async def _write_all(self, write: Write) -> Ending:
        """Send everything, and return why there is no more."""
        follower, render = self._follower, self._render
        while True:
            found = follower.take()
            if found is None:
                await follower.more()
                found = follower.take()
            if isinstance(found, Ending):
                return found
            await write(KEEPALIVE if found is None else found.rendered(render))


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
    """End the sending when the reader is gone. The run goes on."""
    while (await receive())["type"] != "http.disconnect":
        pass
    sending.cancel()
