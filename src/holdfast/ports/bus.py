"""Ports of the bus: wake-up hints between processes, and watching a run for changes.

Any hint may be lost, and nothing depends on one arriving.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeAlias

import msgspec

from holdfast.domain.ids import RunId, SpaceId
from holdfast.ports.log import LogAppend, LoggedEvent, LogHead

MAX_LOG_APPENDS_PER_HINT: Final = 256
"""Runs of which one hint says what their logs grew by: past that, those who want to know read."""


class WakeHint(msgspec.Struct, frozen=True, kw_only=True):
    """A hint that something changed. With `everything`, look at all you watch."""

    runs: frozenset[tuple[SpaceId, RunId]] = frozenset()
    ended: frozenset[tuple[SpaceId, RunId]] = frozenset()
    """Runs that were ended from outside: whoever works on one should look at its lease."""
    grown: tuple[LogAppend, ...] = ()
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

    def __or__(self, other: "WakeHint") -> "WakeHint":
        return WakeHint(
            runs=self.runs | other.runs,
            ended=self.ended | other.ended,
            grown=_joined_appends(self.grown, other.grown),
            queue=self.queue or other.queue,
            coming=self.coming or other.coming,
            delayed=self.delayed or other.delayed,
            news=self.news or other.news,
            timers=self.timers or other.timers,
            everything=self.everything or other.everything,
        )


WakeListener: TypeAlias = Callable[[WakeHint], None]
"""Takes note of a hint. It neither waits nor fails: whoever sends is held up by it."""


def _joined_appends(first: tuple[LogAppend, ...], second: tuple[LogAppend, ...]) -> tuple[LogAppend, ...]:
    """Return both, unless a slow reader would keep too much."""
    return first + second if len(first) + len(second) <= MAX_LOG_APPENDS_PER_HINT else ()


class Bus(Protocol):
    """Hints that travel fast and may be lost."""

    def publish(self, wake: WakeHint) -> None:
        """Send a hint; this never blocks and never fails."""

    def subscribe(self, listener: WakeListener) -> AbstractContextManager[None]:
        """Call `hear` with each hint from now on while the block runs.

        It has heard a hint of its own process when `publish` returns.
        """


class Watch(Protocol):
    """One run under observation."""

    async def wait_past(self, seq: int) -> LogHead | None:
        """Wait until the log is longer than `seq` or the run has ended; `None` if the run is gone."""


class RunWatcher(Protocol):
    """The one watcher of a process, as those see it who wait."""

    def watch(self, space: SpaceId, run: RunId) -> AbstractContextManager[Watch]:
        """Keep an eye on a run while the block runs."""

    def recent_events(self, space: SpaceId, run: RunId, seq: int) -> Sequence[LoggedEvent]:
        """Return the events of a run that follow `seq`, as far as they need not be read; none if they must be."""

    def listen(self, listener: WakeListener) -> AbstractContextManager[None]:
        """Call `hear` with each hint while the block runs; any of them may be lost."""
