"""What only a chat completion can meet.

HoldfastError (domain)
├── NotFound
│   └── ModelNotFound    there is no agent of that name that chats
├── Unavailable
│   └── StillRunning     the run takes longer than an answer may: it goes on
└── RunStopped           the run of the completion failed or was cancelled
"""

from holdfast.domain.errors import HoldfastError, NotFound, Unavailable
from holdfast.domain.run import Run, RunError


class ModelNotFound(NotFound):
    """There is no agent of that name, or it does not chat."""

    code = "MODEL_NOT_FOUND"


class StillRunning(Unavailable):
    """The run takes longer than an answer may; it goes on."""

    code = "STILL_RUNNING"


class RunStopped(HoldfastError):
    """The run did not come to its end; `details.reason` is the code of what stopped it."""

    code = "RUN_STOPPED"


COMPLETION_ERRORS = (ModelNotFound, StillRunning, RunStopped)


def stopped(run: Run) -> RunStopped:
    """Make the error of a run that failed or was cancelled."""
    error = run.error or RunError(code="CANCELLED", message=f"run `{run.id}` was cancelled")
    return RunStopped(error.message, reason=error.code, run_id=run.id)
