"""Every error the platform raises on purpose.

HoldfastError
├── NotFound                the thing named does not exist, or not in this space
├── Conflict                the thing exists but is not in the needed state
│   ├── IdTaken             choose another id
│   ├── IdempotencyMismatch the key was used with another body
│   ├── VersionChanged      the object has changed since it was read
│   ├── IllegalMove         the run's status does not allow this change
│   ├── LeaseLost           another worker owns the run now: stop, do not write
│   ├── InboxNotEmpty       new inbox items arrived: read them, then retry
│   ├── ThreadClosed        the thread is archived or deleted: it accepts no runs
│   ├── Busy                the branch has an active run and `on_busy` is `reject`
│   ├── Waiting             the branch waits for a person: respond first
│   ├── AlreadyAnswered     the interrupt is no longer open
│   ├── RunActive           the run has not ended: cancel it first
│   ├── InUse               other objects still refer to it
│   ├── FolderChanged       files were moved while a command was being started: try again
│   ├── MemoryFileChanged   the file is not the one that was read: read it again
│   └── WouldDeadlock       the run would wait for a run that waits for it
├── Invalid                 the request can never succeed as written
│   ├── TooLarge
│   ├── ModelRefused        the provider rejects this call, also on a retry
│   │   ├── ContextOverflow the call exceeds the context window of the model
│   │   └── ScriptError     the call does not match the script of a scripted model
│   └── NotHoldfast         the URL is not of a Holdfast server
├── RunFailed               the run that a client waits for failed or was cancelled
├── McpServerFailed         an MCP server failed or broke the protocol: reported to the model as a result
├── LimitExceeded           the run reached one of its limits
│   ├── IterationLimit
│   ├── DeadlineExceeded
│   ├── BudgetExceeded
│   └── SpawnLimit          too many or too deeply nested sub-agents
└── Unavailable             a dependency failed: the same call may succeed later
    ├── ModelUnavailable    the provider failed this time: `retry_after` may say when to retry
    ├── ServerUnreachable   no server answers at the URL of a client
    ├── OutcomeUnknown      the connection broke during a commit: read before you retry
    ├── StoreFull
    ├── StoreReadOnly
    ├── StoreOwned          another process writes to this file
    ├── StoreCorrupt
    └── StoreTooNew         the database was created by a later version

`code` is the wire contract. `details` holds machine-readable values.
"""

from typing import Any, ClassVar


class HoldfastError(Exception):
    """Base of all errors that a caller may act on."""

    code: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class NotFound(HoldfastError):
    """The thing named does not exist, or not in this space."""

    code = "NOT_FOUND"


class Conflict(HoldfastError):
    """The thing exists but is not in the needed state."""

    code = "CONFLICT"


class IdTaken(Conflict):
    """The id was used before in this space."""

    code = "ID_TAKEN"


class IdempotencyMismatch(Conflict):
    """The idempotency key was used before with another body."""

    code = "IDEMPOTENCY_MISMATCH"


class VersionChanged(Conflict):
    """The object has another version than the one that the change was made for."""

    code = "VERSION_CHANGED"


class IllegalMove(Conflict):
    """The run cannot change from its status to the requested one."""

    code = "ILLEGAL_MOVE"


class LeaseLost(Conflict):
    """The worker no longer holds the lease of the run."""

    code = "LEASE_LOST"


class InboxNotEmpty(Conflict):
    """The run may not wait or end while inbox items are unread."""

    code = "INBOX_NOT_EMPTY"


class ThreadClosed(Conflict):
    """The thread is archived or deleted."""

    code = "THREAD_CLOSED"


class Busy(Conflict):
    """The branch has an active run and `on_busy` is `reject`."""

    code = "BUSY"


class Waiting(Conflict):
    """The branch waits for a person; `details.interrupts` names the open interrupts."""

    code = "WAITING"


class AlreadyAnswered(Conflict):
    """The interrupt is no longer open."""

    code = "ALREADY_ANSWERED"


class RunActive(Conflict):
    """The run, or one of its descendants, has not ended yet."""

    code = "RUN_ACTIVE"


class InUse(Conflict):
    """Other objects still refer to the thing."""

    code = "IN_USE"


class FolderChanged(Conflict):
    """Files of a working folder were moved or replaced while a command was being started."""

    code = "FOLDER_CHANGED"


class MemoryFileChanged(Conflict):
    """The memory file has changed since the client read it."""

    code = "MEMORY_FILE_CHANGED"


class WouldDeadlock(Conflict):
    """The run would wait for a run that waits for it."""

    code = "WOULD_DEADLOCK"


class Invalid(HoldfastError):
    """The request can never succeed as written."""

    code = "INVALID"


class TooLarge(Invalid):
    """The value is larger than the limit named in the message."""

    code = "TOO_LARGE"


class ModelRefused(Invalid):
    """The provider rejects this call; a retry does not help."""

    code = "MODEL_REFUSED"


class ContextOverflow(ModelRefused):
    """The call exceeds the context window of the model."""

    code = "CONTEXT_OVERFLOW"


class ScriptError(ModelRefused):
    """A call does not match the script of a scripted model."""

    code = "SCRIPT_ERROR"


class NotHoldfast(Invalid):
    """The URL is not of a Holdfast server, or of another version of it."""

    code = "NOT_HOLDFAST"


class RunFailed(HoldfastError):
    """The run that a client waits for failed or was cancelled; `details` has its `run_id` and `status`."""

    code = "RUN_FAILED"


class McpServerFailed(HoldfastError):
    """An MCP server failed; unless `details.started` is false, a call may have had an effect."""

    code = "MCP_SERVER_FAILED"


class LimitExceeded(HoldfastError):
    """The run reached one of its limits."""

    code = "LIMIT_EXCEEDED"


class IterationLimit(LimitExceeded):
    """The run reached its maximum number of model calls."""

    code = "ITERATION_LIMIT"


class DeadlineExceeded(LimitExceeded):
    """The run reached its maximum duration."""

    code = "DEADLINE_EXCEEDED"


class BudgetExceeded(LimitExceeded):
    """The run's tree spent its token or cost budget."""

    code = "BUDGET_EXCEEDED"


class SpawnLimit(LimitExceeded):
    """The run may not spawn another agent; `details.limit` names the limit."""

    code = "SPAWN_LIMIT"


class Unavailable(HoldfastError):
    """A dependency failed; the same call may succeed later."""

    code = "UNAVAILABLE"


class ModelUnavailable(Unavailable):
    """The provider failed this call; `details.retry_after` is its delay in seconds, if it gave one."""

    code = "MODEL_UNAVAILABLE"


class ServerUnreachable(Unavailable):
    """No server answers at the URL of a client."""

    code = "SERVER_UNREACHABLE"


class OutcomeUnknown(Unavailable):
    """The connection broke during a commit, which may or may not have been applied."""

    code = "OUTCOME_UNKNOWN"


class StoreFull(Unavailable):
    """The disk is full; nothing was written."""

    code = "STORE_FULL"


class StoreReadOnly(Unavailable):
    """The database cannot be written to."""

    code = "STORE_READ_ONLY"


class StoreOwned(Unavailable):
    """Another process owns the database file."""

    code = "STORE_OWNED"


class StoreCorrupt(Unavailable):
    """The database file is damaged."""

    code = "STORE_CORRUPT"


class StoreTooNew(Unavailable):
    """The database was created by a later version of Holdfast."""

    code = "STORE_TOO_NEW"


def error_class_of(code: str, base: type[HoldfastError] = HoldfastError) -> type[HoldfastError] | None:
    """Return the class of the errors with a code, among those that this process has imported."""
    if base.code == code:
        return base
    found = (error_class_of(code, below) for below in base.__subclasses__())
    return next((each for each in found if each is not None), None)
