"""A task: a run of mode `task`, in the words of the contract."""

from enum import StrEnum
from typing import Final

import msgspec

from holdfast.control.task_contract.ids import task_id_of
from holdfast.domain.content import Json
from holdfast.domain.ids import ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.run import Priority, Run, RunError, RunPhase, run_phase


class TaskStatus(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    PROCESSING = "processing"
    WAITING = "waiting"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELED = "canceled"


PHASES: Final = {
    TaskStatus.PENDING: RunPhase.PENDING,
    TaskStatus.PROCESSING: RunPhase.WORKING,
    TaskStatus.WAITING: RunPhase.ASKING,
    TaskStatus.FINISHED: RunPhase.COMPLETED,
    TaskStatus.FAILED: RunPhase.FAILED,
    TaskStatus.CANCELED: RunPhase.CANCELLED,
}
_STATUSES: Final = {phase: status for status, phase in PHASES.items()}


class ListedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task in a list."""

    id: str
    agent_name: str
    session_id: ThreadId
    status: TaskStatus
    priority: Priority
    input: str
    output: str | None
    error: RunError | None
    iterations: int
    token_input: int
    token_output: int
    tags: list[str]
    parent_task_id: str | None
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None


class Task(ListedTask, frozen=True, kw_only=True):
    """A task with all that is known of it."""

    event_count: int = msgspec.field(name="eventCount")


class TaskState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a task stands, and what came of it."""

    task_id: str
    status: TaskStatus
    output: str | None
    error: RunError | None


def status_of(run: Run) -> TaskStatus:
    """Return the status of a run in the words of the contract."""
    return _STATUSES[run_phase(run)]


def listed(run: Run) -> ListedTask:
    """Return a run as a list shows it."""
    return ListedTask(
        id=task_id_of(run.id),
        agent_name=run.agent_type,
        session_id=run.thread_id,
        status=status_of(run),
        priority=run.priority,
        input=_text(run.input) or "",
        output=_text(run.output),
        error=run.error,
        iterations=run.iterations,
        token_input=run.usage.input_tokens,
        token_output=run.usage.output_tokens,
        tags=run.tags,
        parent_task_id=None if run.parent_run_id is None else task_id_of(run.parent_run_id),
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.completed_at,
    )


def detailed(run: Run, *, event_count: int) -> Task:
    """Return a run with all that the contract tells of it."""
    return Task(**msgspec.structs.asdict(listed(run)), event_count=event_count)


def state_of(run: Run) -> TaskState:
    """Return where a run stands."""
    return TaskState(task_id=task_id_of(run.id), status=status_of(run), output=_text(run.output), error=run.error)


def _text(value: Json) -> str | None:
    """Return what is text in the contract and any JSON in a run."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
