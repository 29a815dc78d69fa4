"""The phase of a run: where it stands in the eyes of somebody who waits for it.

A run that was begun and went back to the queue is still at work, and so is one that waits for its own child or timer.
"""

from enum import StrEnum

from holdfast.domain.run import Run, RunStatus, WaitsFor


class Phase(StrEnum):
    """Where a run stands."""

    PENDING = "pending"
    """Nobody has begun it."""
    WORKING = "working"
    ASKING = "asking"
    """It waits for a person."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


def phase_of(run: Run) -> Phase:
    """Return the phase of a run."""
    match run.status:
        case RunStatus.PENDING | RunStatus.QUEUED if run.started_at is None:
            return Phase.PENDING
        case RunStatus.WAITING if run.status_reason == WaitsFor.PERSON:
            return Phase.ASKING
        case RunStatus.PENDING | RunStatus.QUEUED | RunStatus.RUNNING | RunStatus.WAITING:
            return Phase.WORKING
        case RunStatus.COMPLETED | RunStatus.FAILED | RunStatus.CANCELLED:
            return Phase(run.status.value)
