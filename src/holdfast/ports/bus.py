"""Ports of the bus: wake-up hints between processes, and watching a run for changes.

Any hint may be lost, and nothing depends on one arriving.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeAlias

import msgspec

from holdfast.domain.ids import RunId, SpaceId
from holdfast.ports.log import LogAppend, LoggedEvent, LogHead

WAKEUP_FALLBACK_SECONDS: Final = 2.0
"""The longest delay that a lost hint causes: subscribers then read without one."""
MAX_LOG_APPENDS_PER_HINT: Final = 256
"""Log appends that one hint carries at most; subscribers read the logs of the other runs."""


class WakeHint(msgspec.Struct, frozen=True, kw_only=True):
    """A hint that something changed. With `everything`, subscribers check all that they watch."""

    runs: frozenset[tuple[SpaceId, RunId]] = frozenset()
    """Runs whose log or status changed."""
    ended: frozenset[tuple[SpaceId, RunId]] = frozenset()
    """Runs that were ended from outside: their workers should check their leases."""
    grown: tuple[LogAppend, ...] = ()
    """Log appends of some of `runs`, in order; the logs of the others must be read. Not sent to other processes."""
    queue: bool = False
    """A run may be claimed now."""
    coming: bool = False
    """A run is about to be created: a claim now may join that transaction. Not sent to other processes."""
    delayed: bool = False
    """A run may be claimed later."""
    news: bool = False
    """There are new notifications."""
    deliveries: bool = False
    """A delivery of a webhook may be due."""
    timers: bool = False
    """A timer or another due time was set."""
    everything: bool = False

    def __or__(self, other: "WakeHint") -> "WakeHint":
        appends = self.grown + other.grown
        return WakeHint(
            runs=self.runs | other.runs,
            ended=self.ended | other.ended,
            grown=appends if len(appends) <= MAX_LOG_APPENDS_PER_HINT else (),  # bounds the memory of a slow subscriber
            queue=self.queue or other.queue,
            coming=self.coming or other.coming,
            delayed=self.delayed or other.delayed,
            news=self.news or other.news,
            deliveries=self.deliveries or other.deliveries,
            timers=self.timers or other.timers,
            everything=self.everything or other.everything,
        )


WakeListener: TypeAlias = Callable[[WakeHint], None]
"""Receives a hint. It must neither block nor raise, because the publisher calls it directly."""


class Bus(Protocol):
    """Delivers wake-up hints fast; any hint may be lost."""

    def publish(self, hint: WakeHint) -> None:
        """Send a hint; this never blocks and never fails."""

    def subscribe(self, listener: WakeListener) -> AbstractContextManager[None]:
        """Call `listener` with each hint while the context is open.

        A hint published by the same process has been delivered when `publish` returns.
        """


class Watch(Protocol):
    """A subscription to the changes of one run."""

    async def wait_past(self, seq: int) -> LogHead | None:
        """Wait until the log is longer than `seq` or the run has ended; `None` if the run was deleted."""


class RunWatcher(Protocol):
    """The watcher of a process, which watches all runs that somebody waits for."""

    def watch(self, space: SpaceId, run: RunId) -> AbstractContextManager[Watch]:
        """Watch a run while the context is open."""

    def recent_events(self, space: SpaceId, run: RunId, seq: int) -> Sequence[LoggedEvent]:
        """Return the events of a run after `seq` that are in memory; empty if they must be read from the store."""

    def listen(self, listener: WakeListener) -> AbstractContextManager[None]:
        """Call `listener` with each hint while the context is open; any hint may be lost."""
