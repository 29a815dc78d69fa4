"""What chats and sessions refuse, beside what the tasks contract has a code for.

HoldfastError (domain)
├── Invalid
│   └── SessionNotActive     there is nothing to cancel
├── NotFound
│   └── SessionNotFound
└── Conflict
    └── SessionActive        end its run first, or force it
"""

from holdfast.control.task_contract.errors import AgentNotFound, ModeNotSupported, TaskInvalid
from holdfast.domain.errors import Conflict, Invalid, ModelRefused, NotFound


class SessionNotActive(Invalid):
    """No run of the session is under way."""

    code = "SESSION_NOT_ACTIVE"


class SessionNotFound(NotFound):
    """There is no session of that id."""

    code = "SESSION_NOT_FOUND"


class SessionActive(Conflict):
    """A run of the session has not ended."""

    code = "SESSION_ACTIVE"


CHAT_ERRORS = (TaskInvalid, ModeNotSupported, AgentNotFound, SessionNotActive, SessionNotFound, SessionActive)
MODEL_ERRORS = (TaskInvalid, ModelRefused)
"""What a call of a model without an agent has codes of its own for."""
