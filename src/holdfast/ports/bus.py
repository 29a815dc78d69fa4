"""The bus: wake-ups between processes. Any of them may be lost, and nothing depends on one arriving."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeAlias

import msgspec

from holdfast.domain.ids import RunId, SpaceId
from holdfast.ports.event_log import Growth

MOST_GROWN: Final = 256
"""Runs of which one hint says what their logs grew by: past that, those who want to know read."""


class Wake(msgspec.Struct, frozen=True, kw_only=True):
    """A hint that something changed. With `everything`, look at all you watch."""

    runs: frozenset[tuple[SpaceId, RunId]] = frozenset()
    ended: frozenset[tuple[SpaceId, RunId]] = frozenset()
    """Runs that were ended from outside: whoever works on one should look at its lease."""
    grown: tuple[Growth, ...] = ()
    """What some of `runs` grew by, in order; of the others one must read it. It stays in the process."""
    queue: bool = False
    """A run may be claimed now."""
    coming: bool = False
    """One may be in a moment: who claims now may do so in the transaction that makes it. It stays in the process."""
    delayed: bool = False
    """A run may be claimed later."""
    news: bool = False
    timers: bool = False
    """Something was given a time at which it is due."""
    everything: bool = False

    def __or__(self, other: "Wake") -> "Wake":
        return Wake(
            runs=self.runs | other.runs,
            ended=self.ended | other.ended,
            grown=_together(self.grown, other.grown),
            queue=self.queue or other.queue,
            coming=self.coming or other.coming,
            delayed=self.delayed or other.delayed,
            news=self.news or other.news,
            timers=self.timers or other.timers,
            everything=self.everything or other.everything,
        )


Hear: TypeAlias = Callable[[Wake], None]
"""Takes note of a hint. It neither waits nor fails: whoever sends is held up by it."""


def _together(first: tuple[Growth, ...], second: tuple[Growth, ...]) -> tuple[Growth, ...]:
    """Return both, unless a slow reader would keep too much."""
    return first + second if len(first) + len(second) <= MOST_GROWN else ()


class Bus(Protocol):
    """Hints that travel fast and may be lost."""

    def publish(self, wake: Wake) -> None:
        """Send a hint; this never blocks and never fails."""

    def subscribe(self, hear: Hear) -> AbstractContextManager[None]:
        """Call `hear` with each hint from now on while the block runs.

        It has heard a hint of its own process when `publish` returns.
        """
