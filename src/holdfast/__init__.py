"""Holdfast: a durable runtime for AI agents.

async with holdfast.open_store("holdfast.db") as store:
...
"""

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
    "open_bus",
    "open_store",
]

__version__ = "0.1.0"
