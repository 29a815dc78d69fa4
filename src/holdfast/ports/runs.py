"""Ports of runs and threads: create, read, list, end and delete them, and edit their plans."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.new_run import CreatedRun, NewRun
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.plan import Plan, PlanItem
from holdfast.domain.plan_edit import PlanEdit
from holdfast.domain.run import Mode, Priority, Run, RunError, RunPhase, RunStatus
from holdfast.domain.thread import NewThread, Thread, ThreadFilter, ThreadPatch
from holdfast.domain.timer import TimerClaim


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to list."""

    thread_id: ThreadId | None = None
    status: RunStatus | None = None
    phase: RunPhase | None = None
    priority: Priority | None = None
    agent_type: str | None = None
    mode: Mode | None = None
    tag: str | None = None
    root_run_id: RunId | None = None
    parent_run_id: RunId | None = None


class Runs(Protocol):
    """The runs of a space. Each method is one transaction."""

    async def create(
        self,
        space: SpaceId,
        new: NewRun,
        *,
        body: str | None = None,
        fires: TimerClaim | None = None,
        awaited: bool = False,
        thread_agent: str | None = None,
    ) -> CreatedRun:
        """Make a run with its input and its first event, all or nothing.

        The same idempotency key returns the same run, and another body under it is a conflict
        (`IdempotencyMismatch`); where `new` says more than the caller did, `body` is the digest of what the caller
        said. A run id already used is refused (`IdTaken`), also one of a deleted run. A thread that is archived or
        deleted refuses it (`ThreadClosed`). Without a base it continues the newest run; `on_busy` decides where that
        is live. It is `queued` if its base has ended and its worker has let go, else `pending`; where the base was
        ended before it began, the run above it counts. Input enters the conversation at once if the base has ended. A
        cut that parts a tool call from its result is refused (`Invalid`). A timer that it `fires` is settled in the
        same transaction. One that is `awaited` by its parent is refused if it could only begin after it
        (`WouldDeadlock`). Where a `thread_agent` is given, the thread must have that agent (`Conflict`).
        """

    async def find_by_idempotency_key(self, space: SpaceId, key: str, *, body: str) -> Run | None:
        """Return the run that was made under an idempotency key, if there was one, as it is now.

        Another body than the digest of what was said then is a conflict (`IdempotencyMismatch`), and so is a run that
        has been deleted.
        """

    async def get(self, space: SpaceId, run: RunId) -> Run:
        """Return the run, or raise `NotFound`."""

    async def get_many(self, names: Sequence[tuple[SpaceId, RunId]]) -> list[Run]:
        """Return those runs of any spaces that are there, in no order."""

    async def page(
        self,
        space: SpaceId,
        *,
        where: RunFilter | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Run]:
        """Return runs, the newest first; those of deleted threads only where the thread, or a run above, is named.

        The cursor is the id of the last run of the page before, and goes on after it even if that run is gone by now.
        """

    async def count_active_children(self, space: SpaceId, run: RunId) -> int:
        """Return how many runs that `run` spawned have not ended."""

    async def children(self, space: SpaceId, run: RunId) -> list[Run]:
        """Return the runs that `run` spawned, the oldest first."""

    async def end(
        self,
        space: SpaceId,
        run: RunId,
        *,
        to: RunStatus = RunStatus.CANCELLED,
        reason: str | None = None,
        error: RunError | None = None,
        by: str | None = None,
        fires: TimerClaim | None = None,
    ) -> list[Run]:
        """End `run` and every live run below it, parents first, and return them.

        Afterwards none of them has an open call, interrupt or timer; started effectful steps are `unknown`; the stream
        of each is closed once. What people said to them and changed of their plans, and they have not read, is said
        and kept, after the answers of open calls; where a run never began, it waits behind the run's input.
        No worker can write to them any more. A run that has ended is refused (`IllegalMove`).
        Runs that waited for one of them to end may be claimed once its worker has let go.
        """

    async def delete(self, space: SpaceId, run: RunId) -> None:
        """Remove an ended run with its children, and the thread that was made with it if nothing else stands on it.

        If another run is based on it, only its content goes and a tombstone keeps the chain. Numbers are never used
        again. A run that has not ended, or has a child that has not, is refused (`RunActive`).
        """


class Threads(Protocol):
    """The threads of a space."""

    async def create(self, space: SpaceId, new: NewThread) -> Thread:
        """Make an active thread; a chosen id already used is refused (`IdTaken`)."""

    async def get(self, space: SpaceId, thread: ThreadId) -> Thread:
        """Return the thread, or raise `NotFound`."""

    async def page(
        self,
        space: SpaceId,
        *,
        where: ThreadFilter | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Thread]:
        """Return threads, the one with the latest run first; one without a run stands where it was made.

        Paging shows no thread twice and leaves out none that was there and did not move, while others are added.
        """

    async def update(self, space: SpaceId, thread: ThreadId, patch: ThreadPatch) -> Thread:
        """Change what `patch` names and nothing else. A deleted thread stays deleted (`Conflict`).

        A thread with a live run is not deleted (`RunActive`), and one that is deleted takes no run, also where both
        come at once. Archiving lets live runs go on.
        """


class Plans(Protocol):
    """What agents plan on threads."""

    async def of_run(self, space: SpaceId, run: RunId) -> Plan:
        """Return the plan of a run, with the edits that a live run has not taken in yet."""

    async def edit(self, space: SpaceId, thread: ThreadId, edit: PlanEdit, *, by: str | None = None) -> PlanItem:
        """Change the plan of a thread's newest run, and return the item as it is then.

        A live run is given the edit in its inbox, and takes it in before its next model call; one that ends before
        that leaves its plan without it. No two items of a thread receive the same number. A thread without a run has
        no plan to change, and one that is closed takes no edit (`Conflict`).
        """
