"""The bus: wake-ups between processes. Any of them may be lost, and nothing depends on one arriving."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from holdfast.domain.ids import RunId, SpaceId


class Wake(msgspec.Struct, frozen=True, kw_only=True):
    """A hint that something changed. With `everything`, look at all you watch."""

    runs: frozenset[tuple[SpaceId, RunId]] = frozenset()
    ended: frozenset[tuple[SpaceId, RunId]] = frozenset()
    """Runs that were ended from outside: whoever works on one should look at its lease."""
    queue: bool = False
    news: bool = False
    timers: bool = False
    """Something was given a time at which it is due."""
    everything: bool = False

    def __or__(self, other: "Wake") -> "Wake":
        return Wake(
            runs=self.runs | other.runs,
            ended=self.ended | other.ended,
            queue=self.queue or other.queue,
            news=self.news or other.news,
            timers=self.timers or other.timers,
            everything=self.everything or other.everything,
        )


class Bus(Protocol):
    """Hints that travel fast and may be lost."""

    def publish(self, wake: Wake) -> None:
        """Send a hint; this never blocks and never fails."""

    def subscribe(self) -> AbstractAsyncContextManager[AsyncIterator[Wake]]:
        """Receive hints from now on. A slow reader receives many hints as one, and never holds up a sender."""
