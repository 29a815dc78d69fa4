"""Ports of the runtime: clock, executor, and what a worker asks of the control plane by its lease.

`Library`, `SubagentRuns` and `RemoteTools` are small and separate: a control RPC can implement each.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.ids import FileId, RunId
from holdfast.domain.instant import Millis
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Run
from holdfast.domain.tool import ToolInterrupt, ToolReply, ToolSpec


class Clock(Protocol):
    """The time of this process."""

    def now(self) -> Millis:
        """Return the present moment in UTC."""


class Executor(Protocol):
    """Works on runs."""

    async def execute(self, lease: Lease, *, stop: asyncio.Event) -> None:
        """Work on the run of `lease` until a commit of it ends the lease: the run waits, is queued again or has ended.

        Returning without such a commit gives the run back. Once `stop` is set it commits what it has and returns at
        the next point where nothing is in flight. Cancelled, it stops at once, with all that it started, and writes
        nothing more. `LeaseLost` means that the run is somebody else's now; `Unavailable` that it can be tried again.
        """


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the space, with its bytes."""

    media_type: str
    content: bytes


class Library(Protocol):
    """What a run may read of the workspace, in the name of its lease."""

    async def agent(self, lease: Lease) -> Agent:
        """Return the agent of the run as it is defined now, or raise `NotFound`."""

    async def agents(self, lease: Lease) -> list[Agent]:
        """Return the agents that the run may spawn, by name."""

    async def file(self, lease: Lease, file: FileId) -> StoredFile:
        """Return a file of the run's space, or raise `NotFound`."""

    async def grant(self, lease: Lease, *, agent: str, rules: Sequence[str]) -> None:
        """Write rules that allow an agent more, because a person said so; those that are there already stay once.

        What nobody answered a question of the run with raises `Conflict`. A file that cannot be written raises
        `Unavailable`, one that is in error now `Conflict`.
        """


class SubagentRuns(Protocol):
    """What a run may do with other runs of its space, in the name of its lease, which must still hold (`LeaseLost`)."""

    async def count_active_children(self, lease: Lease) -> int:
        """Return how many runs that the run spawned have not ended."""

    async def spawn(self, lease: Lease, new: NewRun, *, awaited: bool = False, pending_spawns: int = 0) -> Run:
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


class RemoteTools(Protocol):
    """Tools that run elsewhere, in the name of a lease."""

    async def list(self, lease: Lease) -> list[ToolSpec]:
        """Return the tools that the run may use, by name. A local tool of the same name wins."""

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Run a tool. `key` is the same however often this call is made, so that the tool can know it again.

        A tool that fails says so in its reply. A name that is not listed raises `NotFound`; a lease that is lost,
        `LeaseLost`.
        """

    async def resume(
        self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str, interrupt: ToolInterrupt, response: Json
    ) -> ToolReply:
        """Go on with the call of that key, which asked `question`; a null `response` says that nobody answered.

        It replies as `call` does, and may ask again. A tool that has never asked raises `NotFound`.
        """

    async def trust(self, lease: Lease, name: str, digest: str) -> None:
        """Let a tool be called that has changed, as a person has seen it: `digest` is that of the change.

        One that has changed again by then cannot be called. A name that can be no tool of the run raises `NotFound`.
        """
