"""The body of a stream: what a follower is given, on its way to the reader."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from holdfast.api.asgi import Send
from holdfast.api.streams.frames import KEEPALIVE
from holdfast.control.feeds.chunk import MOST, Chunk
from holdfast.control.feeds.feed import Ending
from holdfast.control.feeds.follower import Follower

Render: TypeAlias = Callable[[Sequence[Any]], bytes]

_BODY: Final = "http.response.body"


class Body:
    """Gathers what is written, and sends it before it waits for more.

    Nothing is held up, and what begins or ends a stream goes out with the events beside it: to send costs more than
    all else that a stream does.
    """

    __slots__ = ("_follower", "_send", "_size", "_unsent")

    def __init__(self, follower: Follower, send: Send) -> None:
        self._follower = follower
        self._send = send
        self._unsent: list[bytes] = []
        self._size = 0

    def write(self, piece: bytes) -> None:
        """Add something."""
        self._unsent.append(piece)
        self._size += len(piece)

    async def write_all(self, render: Render) -> Ending:
        """Write what `render` makes of all that comes, and return why there is no more.

        It is what `next` and `write` do, in one loop: a stream to a thousand readers pays for each call in between, and
        of what comes to them all at once nothing need be gathered.
        """
        follower, send, unsent = self._follower, self._send, self._unsent
        found = follower.take()
        while True:
            if found is None:
                if unsent:
                    await self._flush()
                await follower.more()
                found = follower.take()
            if isinstance(found, Ending):
                return found
            piece = KEEPALIVE if found is None else found.rendered(render)
            found = follower.take()
            if found is None and not unsent:
                await send({"type": _BODY, "body": piece, "more_body": True})
            else:
                self.write(piece)
                if self._size >= MOST:
                    await self._flush()

    async def next(self) -> Chunk | Ending | None:
        """Return what comes next, or why nothing does any more; nothing at all if it is time for a sign of life."""
        if self._size >= MOST:
            await self._flush()
        found = self._follower.take()
        if found is None:
            if self._unsent:
                await self._flush()
            await self._follower.more()
            found = self._follower.take()
        return found

    async def end(self) -> None:
        """Send the rest; there is no more."""
        await self._send({"type": _BODY, "body": self._taken()})

    def _flush(self) -> Awaitable[None]:
        return self._send({"type": _BODY, "body": self._taken(), "more_body": True})

    def _taken(self) -> bytes:
        taken = b"".join(self._unsent)
        self._unsent.clear()
        self._size = 0
        return taken
