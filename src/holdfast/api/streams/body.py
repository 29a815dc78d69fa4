"""The body of a stream: what a follower is given, on its way to the reader."""

from collections.abc import Awaitable
from typing import Final

from holdfast.api.asgi import Send
from holdfast.control.feeds.chunk import MOST, Chunk
from holdfast.control.feeds.feed import Ending
from holdfast.control.feeds.follower import Follower

_BODY: Final = "http.response.body"


class Body:
    """Gathers what is written, and sends it before it waits for more.

    Nothing is held up, and what begins or ends a stream goes out with the events beside it: to send costs more than
    all else that a stream does.
    """

    def __init__(self, follower: Follower, send: Send) -> None:
        self._follower = follower
        self._send = send
        self._unsent: list[bytes] = []
        self._size = 0

    def write(self, piece: bytes) -> None:
        """Add something."""
        self._unsent.append(piece)
        self._size += len(piece)

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
        unsent, self._unsent, self._size = self._unsent, [], 0
        return unsent[0] if len(unsent) == 1 else b"".join(unsent)
