"""A run: its statuses and the only moves between them, its phase, and the names of its values.

    pending ──► queued ──► running ──► completed · failed · cancelled
                  ▲           │
                  └─ waiting ◄┘      (expired or released: running ──► queued)

A crash is not a move: a run whose lease has expired is `running` until `expire` moves it. Every move but the
claim raises the lease number or needs it, so a worker that has lost its lease can write nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import IllegalMove, Invalid
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.instant import Instant, Millis
from holdfast.domain.limits import Limits, Usage


class RunStatus(StrEnum):
    """Status of a run."""

    PENDING = "pending"
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether a run in this status has ended."""
        return not _NEXT_STATUSES[self]


_FAILURES: Final = frozenset({RunStatus.FAILED, RunStatus.CANCELLED})
_NEXT_STATUSES: Final[Mapping[RunStatus, frozenset[RunStatus]]] = {
    RunStatus.PENDING: frozenset({RunStatus.QUEUED}) | _FAILURES,
    RunStatus.QUEUED: frozenset({RunStatus.RUNNING}) | _FAILURES,
    RunStatus.RUNNING: frozenset({RunStatus.QUEUED, RunStatus.WAITING, RunStatus.COMPLETED}) | _FAILURES,
    RunStatus.WAITING: frozenset({RunStatus.QUEUED}) | _FAILURES,
    RunStatus.COMPLETED: frozenset(),
    RunStatus.FAILED: frozenset(),
    RunStatus.CANCELLED: frozenset(),
}
ACTIVE_STATUSES: Final = frozenset(status for status in RunStatus if not status.terminal)


class Mode(StrEnum):
    """Mode of a run."""

    CHAT = "chat"
    TASK = "task"
    DAEMON = "daemon"
    API = "api"


class Priority(StrEnum):
    """Priority of a run in the queue."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


PRIORITY_HEAD_START_MS: Final[Mapping[Priority, int]] = {
    Priority.HIGH: 120_000,
    Priority.NORMAL: 60_000,
    Priority.LOW: 0,
}
"""A low-priority run waits at most two minutes longer than a high-priority one queued with it."""


class WaitsFor(StrEnum):
    """Reason why a run waits; stored as its `status_reason`."""

    PERSON = "person"
    CHILD = "child"
    TASK = "task"
    TIMER = "timer"


class RunError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run failed."""

    code: str
    message: str
    iteration: int | None = None
    """The run's `iterations` when it failed."""
    details: dict[str, Json] = {}


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One execution on a thread."""

    id: RunId
    thread_id: ThreadId
    space_id: SpaceId
    mode: Mode
    agent_type: str
    model: str | None
    """The model that was asked for; it stays as it was at creation."""
    model_used: str | None
    """The model that gave the latest response: after a fallback, another one."""
    status: RunStatus
    status_reason: str | None
    base_run_id: RunId | None
    base_sequence: int | None
    parent_run_id: RunId | None
    root_run_id: RunId
    root_thread_id: ThreadId
    child_thread_id: ThreadId | None
    session_id: str | None
    input: Json
    output: Json
    error: RunError | None
    usage: Usage
    priority: Priority
    tags: list[str]
    limits: Limits
    output_schema: dict[str, Json] | None
    """The JSON Schema that its output must match, if the request named one."""
    agent_version: str | None
    """The version of its agent that it is executed from; null if it was created before agents had versions."""
    iterations: int
    """Model calls whose response entered the conversation."""
    attempt: int
    wait_until: Instant | None
    idempotency_key: str | None
    last_event_seq: int
    created_by: str | None
    cancelled_by: str | None
    created_at: Instant
    queued_at: Instant | None
    started_at: Instant | None
    completed_at: Instant | None

    @property
    def settled(self) -> bool:
        """Whether the run has ended or waits for a person."""
        return self.status.terminal or (self.status is RunStatus.WAITING and self.status_reason == WaitsFor.PERSON)


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A status change in a commit, with its output or error."""

    to: RunStatus
    reason: str | None = None
    output: Json = None
    error: RunError | None = None
    wait_until: Instant | None = None
    waits_on: Sequence[RunId] = ()
    """Runs that must end before this one continues, if it waits for a child or a task."""
    asks: Sequence[Json] = ()
    """Open interrupts in AG-UI form, which are passed on to the parent run."""


def check_move(run_id: RunId, status: RunStatus, to: RunStatus) -> None:
    """Raise unless a run may change from `status` to `to`."""
    if to not in _NEXT_STATUSES[status]:
        problem = f"{status} already" if status is to else f"{status}: it cannot become {to}"
        raise IllegalMove(f"run `{run_id}` is {problem}", status=str(status), to=str(to))


def check_worker_move(run_id: RunId, move: Move) -> None:
    """Raise unless the lease holder of a run may make `move`; a worker never cancels its own run."""
    if move.to is RunStatus.CANCELLED:
        raise Invalid("a worker cannot cancel its run: use `end`")
    if move.wait_until is not None and move.to is not RunStatus.QUEUED:
        raise Invalid("`wait_until` requires a move to `queued`")
    if move.waits_on and move.to is not RunStatus.WAITING:
        raise Invalid("`waits_on` requires a move to `waiting`")
    if move.asks and (move.to is not RunStatus.WAITING or move.reason != WaitsFor.PERSON):
        raise Invalid("`asks` requires a move to `waiting` for a person")
    check_move(run_id, RunStatus.RUNNING, move.to)


def queue_key(priority: Priority, since: Millis) -> int:
    """Return the queue position of a run that may be claimed from `since` on; the smallest is claimed first."""
    return since - PRIORITY_HEAD_START_MS[priority]


class RunPhase(StrEnum):
    """Phase of a run, a coarser view of its status."""

    PENDING = "pending"
    """No worker has started it."""
    WORKING = "working"
    ASKING = "asking"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


def run_phase(run: Run) -> RunPhase:
    """Return the phase of a run."""
    match run.status:
        case RunStatus.PENDING | RunStatus.QUEUED if run.started_at is None:
            return RunPhase.PENDING
        case RunStatus.WAITING if run.status_reason == WaitsFor.PERSON:
            return RunPhase.ASKING
        case RunStatus.PENDING | RunStatus.QUEUED | RunStatus.RUNNING | RunStatus.WAITING:
            return RunPhase.WORKING
        case RunStatus.COMPLETED | RunStatus.FAILED | RunStatus.CANCELLED:
            return RunPhase(run.status.value)


VALUE_NAMES: Final = frozenset(
    {
        "approvals",
        "asking",
        "client_tools",
        "compaction",
        "files",
        "mail",
        "plan",
        "questions",
        "recall",
        "request",
        "rights",
        "shell",
        "skills",
        "spawned",
        "state",
        "taint",
        "todo",
        "tools",
    }
)


def check_value_names(names: Iterable[str]) -> None:
    """Raise unless all names are names of run values."""
    if not VALUE_NAMES.issuperset(names):
        raise Invalid(f"unknown value: a run has only the values {', '.join(sorted(VALUE_NAMES))}", field="values")
