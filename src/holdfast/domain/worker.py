"""Workers and the queue as people see them: what waits, and who works on what."""

import msgspec

from holdfast.domain.ids import OwnerId, RunId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.run import Priority, RunStatus


class NewWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A process that executes runs."""

    id: OwnerId
    host: str
    pid: int
    version: str
    concurrency: int


class HeldRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a worker holds."""

    run_id: RunId
    thread_id: ThreadId
    agent_type: str
    title: str | None
    since: Instant | None
    lease_expires_at: Instant
    step: str | None
    """The model or tool of the newest step that has not settled."""


class WorkerStatus(NewWorker, frozen=True, kw_only=True):
    """A worker with the runs of one space that it holds."""

    started_at: Instant
    last_beat_at: Instant
    alive: bool
    """Whether it was heard of lately."""
    lost_leases: int
    """Leases that expired before it renewed them."""
    runs: list[HeldRun]
    other_runs: int
    """Runs of other spaces that it holds."""


class QueueCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of a space that have not ended, by status."""

    ready: int
    """Queued and claimable now."""
    delayed: int
    """Queued and claimable later."""
    pending: int
    running: int
    waiting: int


class QueuedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that waits for a worker, for a time, or for its base."""

    run_id: RunId
    thread_id: ThreadId
    agent_type: str
    title: str | None
    priority: Priority
    status: RunStatus
    reason: str | None
    queued_at: Instant | None
    wait_until: Instant | None
    attempt: int


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """The queue of a space, in the order in which workers take it."""

    counts: QueueCounts
    by_priority: dict[str, int]
    """Ready runs by priority."""
    oldest_ready_seconds: float
    items: list[QueuedRun]
    next_cursor: str | None
