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
from holdfast.domain.busy import OnBusy
from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.errors import HoldfastError
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import Answer, InterruptKind, NewInterrupt
from holdfast.domain.message import Message, NewMessage, Role, ToolCall
from holdfast.domain.new_run import Base, NewRun
from holdfast.domain.run import Move, Run, RunStatus
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.domain.stream import Stream
from holdfast.domain.thread import NewThread, Thread
from holdfast.domain.usage import Usage
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
    "Answer",
    "Base",
    "Commit",
    "Committed",
    "Holdfast",
    "HoldfastError",
    "InboxKind",
    "InterruptKind",
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
    "RunStatus",
    "Step",
    "StepKind",
    "StepState",
    "Store",
    "Stream",
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
    """Import what runs agents when it is first asked for: the log alone needs none of it."""
    if name in ("Holdfast", "Options", "open"):
        from holdfast.bootstrap import workspace

        return getattr(workspace, name)
    raise AttributeError(f"module `holdfast` has no attribute `{name}`")
