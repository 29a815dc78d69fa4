"""Holdfast: a durable runtime for AI agents.

async with holdfast.open_store("holdfast.db") as store:
...
"""

import typing as _typing

from holdfast.bootstrap import open_bus, open_store
from holdfast.domain.agent_task import (
    AgentSubtask,
    AgentSubtaskStatus,
    AgentTask,
    AgentTaskBoundary,
    AgentTaskMinimal,
    AgentTaskStatus,
)
from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.errors import HoldfastError
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import InterruptKind, InterruptResponse, NewInterrupt
from holdfast.domain.limits import Usage
from holdfast.domain.message import Message, NewMessage, Role, ToolCall
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.placement import OnBusy
from holdfast.domain.run import Move, Run, RunStatus
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.domain.stream import StreamNormaliser
from holdfast.domain.thread import NewThread, Thread
from holdfast.engine.watcher import Watcher
from holdfast.store.store import Store

if _typing.TYPE_CHECKING:
    from holdfast.bootstrap.workspace import Holdfast, Options, open

__all__ = [
    "AgentSubtask",
    "AgentSubtaskStatus",
    "AgentTask",
    "AgentTaskBoundary",
    "AgentTaskMinimal",
    "AgentTaskStatus",
    "Commit",
    "Committed",
    "DEFAULT_SPACE",
    "Holdfast",
    "HoldfastError",
    "InboxKind",
    "InterruptKind",
    "InterruptResponse",
    "Lease",
    "Message",
    "Move",
    "NewInterrupt",
    "NewMessage",
    "NewRun",
    "NewThread",
    "OnBusy",
    "Options",
    "Role",
    "Run",
    "RunBase",
    "RunStatus",
    "Step",
    "StepKind",
    "StepState",
    "Store",
    "StreamNormaliser",
    "Thread",
    "ToolCall",
    "Usage",
    "Watcher",
    "__version__",
    "open",
    "open_bus",
    "open_store",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> _typing.Any:
    """Import the agent runtime on first use: the store alone does not need it."""
    if name in ("Holdfast", "Options", "open"):
        from holdfast.bootstrap import workspace

        return getattr(workspace, name)
    raise AttributeError(f"module `holdfast` has no attribute `{name}`")
