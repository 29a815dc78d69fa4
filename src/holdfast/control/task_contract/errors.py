"""What the tasks contract refuses, by its own codes.

HoldfastError (domain)
├── Invalid
│   ├── TaskInvalid          the request does not fit the contract
│   ├── ModeNotSupported     the agent may not be run in this mode
│   ├── TaskNotWaiting       nobody is asked anything
│   └── TaskAlreadyTerminal  it has ended
├── NotFound
│   ├── AgentNotFound
│   └── TaskNotFound
└── Conflict
    └── TaskActive           end it first, or force it
"""

from holdfast.domain.errors import Conflict, Invalid, NotFound


class TaskInvalid(Invalid):
    """The request does not fit the contract."""

    code = "VALIDATION_ERROR"


class ModeNotSupported(Invalid):
    """The agent may not be run in this mode."""

    code = "MODE_NOT_SUPPORTED"


class TaskNotWaiting(Invalid):
    """The task waits for nobody's answer."""

    code = "TASK_NOT_WAITING"


class TaskAlreadyTerminal(Invalid):
    """The task has ended."""

    code = "TASK_ALREADY_TERMINAL"


class AgentNotFound(NotFound):
    """There is no agent of that name."""

    code = "AGENT_NOT_FOUND"


class TaskNotFound(NotFound):
    """There is no task of that id."""

    code = "TASK_NOT_FOUND"


class TaskActive(Conflict):
    """The task has not ended."""

    code = "TASK_ACTIVE"


CONTRACT_ERRORS = (
    TaskInvalid,
    ModeNotSupported,
    TaskNotWaiting,
    TaskAlreadyTerminal,
    AgentNotFound,
    TaskNotFound,
    TaskActive,
)
