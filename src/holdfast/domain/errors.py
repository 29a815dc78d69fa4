"""Every error the platform raises on purpose.

HoldfastError
├── NotFound                the thing named does not exist, or not in this space
├── Conflict                the thing exists but is not in the needed state
│   ├── IdTaken             choose another id
│   ├── IdempotencyMismatch the key was used with another body
│   ├── IllegalMove         the run cannot go there from where it is
│   ├── LeaseLost           another worker owns the run now: stop, do not write
│   ├── InboxNotEmpty       something came in meanwhile: read it, then try again
│   ├── ThreadClosed        archived or deleted: takes no run
│   ├── Busy                the branch has a live run and the caller asked to be refused
│   ├── Waiting             the branch waits for a person: answer first
│   ├── AlreadyAnswered     somebody else answered, or it was closed
│   ├── RunActive           end it first
│   ├── InUse               something else still needs it
│   └── WouldDeadlock       it would wait for something that waits for it
├── Invalid                 the request can never succeed as written
│   ├── TooLarge
│   └── ModelRefused        the provider will not serve this call as it is
│       ├── ContextOverflow it is longer than the model can read
│       └── ScriptError     a scripted model was asked for what its script does not expect
├── McpServerFailed         an MCP server is gone, stalls, floods or talks nonsense: a result for the model
├── LimitExceeded           the run used up what it was given
│   ├── IterationLimit
│   ├── DeadlineExceeded
│   ├── BudgetExceeded
│   └── SpawnLimit          do it yourself, or wait for those at work
└── Unavailable             a dependency failed: the same call may succeed later
    ├── ModelUnavailable    the provider is down, busy, slow or talks nonsense: `retry_after` may say when
    ├── OutcomeUnknown      the connection broke while it committed: read before you repeat
    ├── StoreFull
    ├── StoreReadOnly
    ├── StoreOwned          another process writes to this file
    ├── StoreCorrupt
    └── StoreTooNew         the database was made by a later version

`code` is the wire contract. `details` holds what a program may want to read.
"""

from typing import Any, ClassVar


class HoldfastError(Exception):
    """Something that a caller may act on."""

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


class IllegalMove(Conflict):
    """The run cannot go to that status from where it is."""

    code = "ILLEGAL_MOVE"


class LeaseLost(Conflict):
    """Another worker owns the run now, or nobody does."""

    code = "LEASE_LOST"


class InboxNotEmpty(Conflict):
    """The run may not stop while something in its inbox is unread."""

    code = "INBOX_NOT_EMPTY"


class ThreadClosed(Conflict):
    """The thread is archived or deleted."""

    code = "THREAD_CLOSED"


class Busy(Conflict):
    """The branch has a live run and `on_busy` is `reject`."""

    code = "BUSY"


class Waiting(Conflict):
    """The branch waits for a person; `details.interrupts` says for what."""

    code = "WAITING"


class AlreadyAnswered(Conflict):
    """The interrupt is no longer open."""

    code = "ALREADY_ANSWERED"


class RunActive(Conflict):
    """The run, or one below it, has not ended yet."""

    code = "RUN_ACTIVE"


class InUse(Conflict):
    """Something else still needs the thing."""

    code = "IN_USE"


class WouldDeadlock(Conflict):
    """The run would wait for something that waits for it."""

    code = "WOULD_DEADLOCK"


class Invalid(HoldfastError):
    """The request can never succeed as written."""

    code = "INVALID"


class TooLarge(Invalid):
    """The value is larger than the limit named in the message."""

    code = "TOO_LARGE"


class ModelRefused(Invalid):
    """The provider will not serve this call as it is, however often it is tried."""

    code = "MODEL_REFUSED"


class ContextOverflow(ModelRefused):
    """The call is longer than the model can read."""

    code = "CONTEXT_OVERFLOW"


class ScriptError(ModelRefused):
    """A scripted model was asked for something that its script does not expect."""

    code = "SCRIPT_ERROR"


class McpServerFailed(HoldfastError):
    """An MCP server did not do its part; unless `details.started` is false, a call may have done something."""

    code = "MCP_SERVER_FAILED"


class LimitExceeded(HoldfastError):
    """The run used up what it was given."""

    code = "LIMIT_EXCEEDED"


class IterationLimit(LimitExceeded):
    """The run made as many model calls as it may."""

    code = "ITERATION_LIMIT"


class DeadlineExceeded(LimitExceeded):
    """The run worked for as long as it may."""

    code = "DEADLINE_EXCEEDED"


class BudgetExceeded(LimitExceeded):
    """The run's tree spent its tokens or its money."""

    code = "BUDGET_EXCEEDED"


class SpawnLimit(LimitExceeded):
    """The run may have no further agent work for it; `details.limit` says which limit it is."""

    code = "SPAWN_LIMIT"


class Unavailable(HoldfastError):
    """A dependency failed; the same call may succeed later."""

    code = "UNAVAILABLE"


class ModelUnavailable(Unavailable):
    """The provider did not serve the call this time; `details.retry_after` are seconds, if it named any."""

    code = "MODEL_UNAVAILABLE"


class OutcomeUnknown(Unavailable):
    """The connection broke during a commit, which may or may not have happened."""

    code = "OUTCOME_UNKNOWN"


class StoreFull(Unavailable):
    """The disk has no room for the write; nothing of it was kept."""

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
    """The database was made by a later version of Holdfast."""

    code = "STORE_TOO_NEW"
