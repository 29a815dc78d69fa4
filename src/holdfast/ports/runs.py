"""Ports of runs and threads: create, read, list, end and delete them, and edit their plans."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.domain.branch import BranchTotals, ForkPoint
from holdfast.domain.ids import MemoryId, RunId, SpaceId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.limits import Usage
from holdfast.domain.new_run import CreatedRun, NewRun
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.plan import Plan, PlanPriority, PlanStatus, ThreadTask
from holdfast.domain.plan_edit import PlanEdit
from holdfast.domain.run import Mode, Priority, Run, RunError, RunPhase, RunStatus
from holdfast.domain.thread import NewThread, Thread, ThreadFilter, ThreadPatch, ThreadTotals
from holdfast.domain.timer import TimerClaim


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for listing runs; unset fields match every run."""

    thread_id: ThreadId | None = None
    statuses: Sequence[RunStatus] = ()
    """Any of them; none means all."""
    phase: RunPhase | None = None
    priority: Priority | None = None
    agent_type: str | None = None
    mode: Mode | None = None
    tags: Sequence[str] = ()
    """All of them."""
    model: str | None = None
    """The requested model, or the one that was used last."""
    created_from: Instant | None = None
    created_to: Instant | None = None
    """Exclusive."""
    memory_id: MemoryId | None = None
    """Only runs with this memory in a prompt."""
    skill: str | None = None
    """Only runs in which a skill of this name was active."""
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
        """Create a run with its input and its first event, all or nothing.

        - The same idempotency key returns the same run; another body under it is refused (`IdempotencyMismatch`).
          `body` is the digest of the caller's request, for use when `new` holds more than that request.
        - A run id already used is refused (`IdTaken`), also if its run was deleted.
        - A thread that is archived or deleted is refused (`ThreadClosed`).
        - Without a base, the run continues the newest run of its thread; `on_busy` decides if that run is active.
        - The run is `queued` if its base has ended and the base's worker has released it, else `pending`. If the base
          was ended before it started, the base of the base counts.
        - Input enters the conversation at once if the base has ended.
        - Tool calls whose results come after the base sequence get results in the new run: they were not run.
        - The timer claim in `fires` is settled in the same transaction.
        - A run `awaited` by its parent is refused if it could start only after the parent ends (`WouldDeadlock`).
        - If `thread_agent` is given, the thread must have that agent (`Conflict`).
        """

    async def find_by_idempotency_key(self, space: SpaceId, key: str, *, body: str) -> Run | None:
        """Return the current state of the run created under an idempotency key, or `None` if the key is unused.

        A `body` digest other than the one it was created with is refused (`IdempotencyMismatch`); so is the key of a
        deleted run (`Conflict`).
        """

    async def get(self, space: SpaceId, run: RunId) -> Run:
        """Return the run, or raise `NotFound`."""

    async def get_many(self, names: Sequence[tuple[SpaceId, RunId]]) -> list[Run]:
        """Return the named runs that exist, from any spaces, in no particular order."""

    async def newest_of_threads(self, names: Sequence[tuple[SpaceId, ThreadId]]) -> list[Run]:
        """Return the newest run of each named thread that has one, from any spaces, in no particular order."""

    async def page(
        self,
        space: SpaceId,
        *,
        where: RunFilter | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Run]:
        """Return runs, newest first.

        Runs of deleted threads are included only if the filter names the thread, the root run or the parent run. The
        cursor is the id of the last run of the previous page, and stays valid if that run is deleted.
        """

    async def tree_usage(self, space: SpaceId, runs: Sequence[RunId]) -> dict[RunId, Usage]:
        """Return the usage of each of `runs` with all its descendants; deleted runs are left out."""

    async def branch_point(self, space: SpaceId, a: RunId, b: RunId) -> ForkPoint | None:
        """Return the last message that the chains of two runs of a thread have in common, if there is one.

        Runs of two threads are refused (`Invalid`). The cost does not depend on the length of the chains.
        """

    async def branch_totals(self, space: SpaceId, run: RunId, *, other: RunId) -> BranchTotals:
        """Return what the chain of `run` did after the last message that it has in common with that of `other`."""

    async def count_active_children(self, space: SpaceId, run: RunId) -> int:
        """Return the number of child runs of `run` that have not ended."""

    async def children(self, space: SpaceId, run: RunId) -> list[Run]:
        """Return the child runs of `run`, oldest first."""

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
        """End `run` and all its active descendants, parents first, and return them.

        - Afterwards none of them has an open tool call, interrupt or timer; started effectful steps are `unknown`; the
          stream of each run is closed exactly once.
        - Unread inbox messages, values and plan edits from people are saved, after the results of the open calls; if
          the run never started, they are placed after its input.
        - No worker can write to the ended runs any more.
        - A run that has already ended is refused (`IllegalMove`).
        - Runs based on an ended run may be claimed once its worker has released it.
        """

    async def delete(self, space: SpaceId, run: RunId) -> None:
        """Delete an ended run with its children, and the thread that was created with it if no other run uses it.

        If another run is based on it, only the content is deleted and a tombstone keeps the chain. Sequence numbers
        are never reused. A run that is active, or has an active child, is refused (`RunActive`).
        """


class Threads(Protocol):
    """The threads of a space."""

    async def create(self, space: SpaceId, new: NewThread) -> Thread:
        """Create an active thread; a client-chosen id already used is refused (`IdTaken`)."""

    async def get(self, space: SpaceId, thread: ThreadId) -> Thread:
        """Return the thread, or raise `NotFound`."""

    async def totals(self, space: SpaceId, threads: Sequence[ThreadId]) -> dict[ThreadId, ThreadTotals]:
        """Return the totals of the named threads that have a run."""

    async def page(
        self,
        space: SpaceId,
        *,
        where: ThreadFilter | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Thread]:
        """Return threads by the time of their latest run, newest first; a thread without a run counts as of creation.

        Threads that were created for child runs are included only if the filter says so.
        While threads are added, paging returns no thread twice and skips none that existed before and did not move.
        """

    async def update(self, space: SpaceId, thread: ThreadId, patch: ThreadPatch) -> Thread:
        """Change only the fields that `patch` sets. A deleted thread cannot be changed (`Conflict`).

        A thread with an active run cannot be deleted (`RunActive`), and a deleted thread accepts no run, also when
        both happen concurrently. Archiving leaves active runs running.
        """


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for listing plan items; unset fields match every item."""

    status: PlanStatus | None = None
    priority: PlanPriority | None = None
    thread_id: ThreadId | None = None
    agent_type: str | None = None


class Plans(Protocol):
    """The plans of threads, as people read and edit them."""

    async def of_run(self, space: SpaceId, run: RunId) -> Plan:
        """Return the plan of a run, including edits in the inbox of an active run that it has not read yet."""

    async def page(
        self,
        space: SpaceId,
        *,
        where: TaskFilter | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[ThreadTask]:
        """Return items of the plans of the newest runs of threads: by thread, latest run first, each plan in order.

        Deleted threads are left out. A page may have fewer items than `limit` even if another page follows.
        """

    async def edit(self, space: SpaceId, thread: ThreadId, edit: PlanEdit, *, by: str | None = None) -> ThreadTask:
        """Edit the plan of a thread's newest run, and return the edited item.

        An active run receives the edit in its inbox and applies it before its next model call; if the run is ended
        before that, the edit is saved with it. Each item number of a thread is used once. An item that the edit starts
        or completes gets the end of the conversation as its `start` or `end`. A thread without a run has no plan to
        edit, and a closed thread accepts no edit (`Conflict`).
        """
