"""Errors of the tasks contract, with its own codes.

HoldfastError (domain)
├── Invalid
│   ├── ModeNotSupported     the agent may not be run in this mode
│   ├── TaskNotWaiting       the task has no open interrupt
│   └── TaskAlreadyTerminal  the task has ended
├── NotFound
│   ├── AgentNotFound
│   └── TaskNotFound
└── Conflict
    └── TaskActive           cancel it first, or delete it with `force`
"""

from typing import Final

from holdfast.api.contract_errors import ContractInvalid, contract_error_handlers
from holdfast.domain.errors import Conflict, Invalid, NotFound


class ModeNotSupported(Invalid):
    """The agent may not be run in this mode."""

    code = "MODE_NOT_SUPPORTED"


class TaskNotWaiting(Invalid):
    """The task has no open interrupt."""

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


TASK_ERRORS: Final = (
    ContractInvalid,
    ModeNotSupported,
    TaskNotWaiting,
    TaskAlreadyTerminal,
    AgentNotFound,
    TaskNotFound,
    TaskActive,
)
TASK_ERROR_HANDLERS: Final = contract_error_handlers(TASK_ERRORS, not_found=TaskNotFound)
