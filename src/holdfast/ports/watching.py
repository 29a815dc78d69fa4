"""Watching: to wait for news of a run without asking again and again."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from holdfast.domain.ids import RunId, SpaceId
from holdfast.ports.bus import Hear
from holdfast.ports.event_log import Head, LoggedEvent


class Watch(Protocol):
    """One run under observation."""

    async def beyond(self, seq: int) -> Head | None:
        """Wait until the log is longer than `seq` or the run has ended; `None` if the run is gone."""


class Watching(Protocol):
    """The one watcher of a process, as those see it who wait."""

    def watch(self, space: SpaceId, run: RunId) -> AbstractContextManager[Watch]:
        """Keep an eye on a run while the block runs."""

    def fresh(self, space: SpaceId, run: RunId, seq: int) -> Sequence[LoggedEvent]:
        """Return the events of a run that follow `seq`, as far as they need not be read; none if they must be."""

    def listen(self, hear: Hear) -> AbstractContextManager[None]:
        """Call `hear` with each hint while the block runs; any of them may be lost."""
