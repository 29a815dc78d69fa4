"""Peers: the runs that work for a run, or beside it."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.domain.commit import Lease
from holdfast.domain.ids import RunId
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Run


class Peers(Protocol):
    """What a run may do with other runs of its space, in the name of its lease, which must still hold (`LeaseLost`)."""

    async def at_work(self, lease: Lease) -> int:
        """Return how many runs that the run spawned have not ended."""

    async def begin(self, lease: Lease, new: NewRun, *, awaited: bool = False, unborn: int = 0) -> Run:
        """Make a run, once: under the same id it is the same run again.

        A child is refused if with it and the `unborn` more would be at work than the run may have (`SpawnLimit`). Where
        its thread is there already, it goes on behind whatever is under way there; that must be a thread of the run's
        own tree, and neither its own nor that of the run above all (`NotFound`). A thread that waits for a person takes
        nothing (`Waiting`). One that is `awaited` and could only begin after the run that waits for it is refused
        (`WouldDeadlock`).
        """

    async def subscribe(self, lease: Lease, target: RunId, *, waits: str | None = None) -> Run:
        """Have the run told when `target` ends, and return `target` as it is now, as `Subscriptions` promise it."""

    async def taint(self, lease: Lease, run: RunId) -> Sequence[str]:
        """Return what a run has read that others wrote: whoever reads what it says has read that too."""

    async def end(self, lease: Lease, runs: Sequence[RunId]) -> None:
        """End runs that the run spawned, with all below them; those that have ended stay as they are."""
