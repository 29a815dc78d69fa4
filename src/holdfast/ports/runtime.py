"""Ports of the runtime: clock, executor, and the control-plane calls that a worker makes under its lease.

`Library`, `SubagentRuns` and `RemoteTools` are small and separate so that the control RPC can implement each.
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
    """The clock of this process."""

    def now(self) -> Millis:
        """Return the current time in UTC."""


class Executor(Protocol):
    """Executes runs."""

    async def execute(self, lease: Lease, *, stop: asyncio.Event) -> None:
        """Execute the run of `lease` until one of its commits ends the lease: the run waits, is queued again or ended.

        Returning without such a commit releases the run. Once `stop` is set, the executor commits its pending work and
        returns at the next point where nothing is in flight. When cancelled, it stops at once, with everything it
        started, and writes nothing more. `LeaseLost` means that another worker owns the run now; `Unavailable` means
        that the run can be retried.
        """


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file of the space."""

    media_type: str
    content: bytes


class Library(Protocol):
    """The parts of the workspace that a run may read under its lease."""

    async def agent(self, lease: Lease) -> Agent:
        """Return the current definition of the run's agent, or raise `NotFound`."""

    async def agents(self, lease: Lease) -> list[Agent]:
        """Return the agents that the run may spawn, sorted by name."""

    async def file(self, lease: Lease, file: FileId) -> StoredFile:
        """Return a file of the run's space, or raise `NotFound`."""

    async def grant(self, lease: Lease, *, agent: str, rules: Sequence[str]) -> None:
        """Add allow rules that a person granted to an agent's file; a rule that exists already is not added twice.

        Rules that no response to an interrupt of the run contains raise `Conflict`. A file that cannot be written
        raises `Unavailable`; a file that is invalid now raises `Conflict`.
        """


class SubagentRuns(Protocol):
    """Operations of a run on other runs of its space. The lease must still be held (`LeaseLost`)."""

    async def count_active_children(self, lease: Lease) -> int:
        """Return the number of child runs that have not ended."""

    async def spawn(self, lease: Lease, new: NewRun, *, awaited: bool = False, pending_spawns: int = 0) -> Run:
        """Create a run. The call is idempotent: the same id returns the same run.

        Raises `SpawnLimit` if this child and the `pending_spawns` would exceed the run's limit of active children. On
        an existing thread, the child continues after the thread's active runs; that thread must belong to the run's own
        tree, and be neither the run's own thread nor that of the root run (`NotFound`). A thread that waits for a
        person is refused (`Waiting`). An `awaited` child that could start only after the run that waits for it is
        refused (`WouldDeadlock`).
        """

    async def subscribe(self, lease: Lease, target: RunId, *, waits: str | None = None) -> Run:
        """Notify the run when `target` ends, and return the current `target`, as `Subscriptions.add` promises."""

    async def taint(self, lease: Lease, run: RunId) -> Sequence[str]:
        """Return the untrusted sources that a run has read; a run that reads its output has read them too."""

    async def end(self, lease: Lease, runs: Sequence[RunId]) -> None:
        """End child runs with all their descendants; children that have ended stay as they are."""


class RemoteTools(Protocol):
    """Tools that run in another process, called under a lease."""

    async def list(self, lease: Lease) -> list[ToolSpec]:
        """Return the tools that the run may use, sorted by name. A local tool of the same name takes precedence."""

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Call a tool. `key` is the same for every retry of this call, so that the tool can recognise it.

        A tool that fails reports that in its reply. A name that is not listed raises `NotFound`; a lost lease raises
        `LeaseLost`.
        """

    async def resume(
        self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str, interrupt: ToolInterrupt, response: Json
    ) -> ToolReply:
        """Resume the call `key`, which raised `interrupt`; a null `response` means that nobody answered.

        The reply is as for `call`, and may be another interrupt. A tool that never raised an interrupt raises
        `NotFound`.
        """

    async def trust(self, lease: Lease, name: str, digest: str) -> None:
        """Allow calls to a tool whose definition has changed; `digest` is the definition that a person approved.

        A tool that has changed again since stays blocked. A name that cannot be a tool of the run raises `NotFound`.
        """
