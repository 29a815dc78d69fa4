"""Following a run over any number of connections: every event once, in order, until the run has ended."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Final

from holdfast.cli.remote import Lost, Remote
from holdfast.cli.transports import TRANSPORTS, Sent
from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import RunId
from holdfast.domain.run import Run

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 2.0
"""Seconds between two attempts to reach a server that is gone: each pause is twice the one before."""
MOST_DOUBLINGS: Final = 8


class Following:
    """A run that is followed: `run` is how it was last seen, `position` the last event that was handed out."""

    def __init__(
        self, remote: Remote, run: Run, *, transport: str, after: int = 0, tell: Callable[[str], None]
    ) -> None:
        """`tell` hears, in words, when the server is gone and when it is back."""
        self.run = run
        self.position = after
        self._remote = remote
        self._connect = TRANSPORTS[transport]
        self._tell = tell
        self._gone = False
        self._failures = 0

    async def events(self) -> AsyncIterator[bytes]:
        """Yield each event as the log holds it; at the end of it, `run` has its end."""
        while True:
            try:
                async with self._connect(self._remote, self.run.id, self.position) as sent:
                    self._found()
                    async for event in sent:
                        yield self._next(event)
                self.run = await self._remote.run(self.run.id)
                if self.run.status.terminal:
                    return
                raise Lost("it closed the stream")
            except Lost as lost:
                await self._pause(lost)

    def _next(self, event: Sent) -> bytes:
        if event.seq != self.position + 1:
            raise Lost(f"it sent event {event.seq} after event {self.position}")
        self.position = event.seq
        self._failures = 0
        return event.data

    def _found(self) -> None:
        if self._gone:
            self._gone = False
            self._tell(f"connected again, after event {self.position}")

    async def _pause(self, lost: Lost) -> None:
        if not self._gone:
            self._gone = True
            self._tell(f"lost the server at {self._remote.url} ({lost}): the run is safe, trying again")
        longest = min(FIRST_PAUSE * 2**self._failures, LONGEST_PAUSE)
        self._failures = min(self._failures + 1, MOST_DOUBLINGS)
        await asyncio.sleep(random.uniform(longest / 2, longest))


async def first_look(remote: Remote, run_id: RunId) -> Run:
    """Return a run that is to be followed; a server that was never there is not waited for."""
    try:
        return await remote.run(run_id)
    except Lost as lost:
        hint = "start one with `holdfast serve`, or name its address with `--url`"
        raise Unavailable(f"no server answers at {remote.url} ({lost}): {hint}") from lost
