"""Holdfast: a durable runtime for AI agents.

async with holdfast.open("workspace") as hf:
    print(await hf.ask("hello", "good morning"))
"""

import typing as _typing
from importlib import import_module as _import_module

if _typing.TYPE_CHECKING:
    from holdfast.bootstrap import open_bus, open_store
    from holdfast.bootstrap.asgi import AsgiWorkspace, asgi
    from holdfast.bootstrap.embedded import Agent, Holdfast, open
    from holdfast.client.api import HoldfastApi, RunEvent, RunHandle
    from holdfast.client.client import Client
    from holdfast.client.sync.client import SyncClient
    from holdfast.domain.agent_task import (
        AgentSubtask,
        AgentSubtaskStatus,
        AgentTask,
        AgentTaskBoundary,
        AgentTaskMinimal,
        AgentTaskStatus,
    )
    from holdfast.domain.commit import Commit, Committed, Lease
    from holdfast.domain.errors import (
        Conflict,
        HoldfastError,
        Invalid,
        NotFound,
        RunFailed,
        ServerUnreachable,
        Unavailable,
        Waiting,
    )
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
    from holdfast.domain.tool import ToolClass
    from holdfast.engine.watcher import Watcher
    from holdfast.store.store import Store
    from holdfast.tools.function_tool import tool
    from holdfast.tools.tool import ToolContext, ToolResult
    from holdfast.tools.typed_tool import ToolArguments, TypedTool, tool_spec

__all__ = [
    "Agent",
    "AgentSubtask",
    "AgentSubtaskStatus",
    "AgentTask",
    "AgentTaskBoundary",
    "AgentTaskMinimal",
    "AgentTaskStatus",
    "AsgiWorkspace",
    "Client",
    "Commit",
    "Committed",
    "Conflict",
    "DEFAULT_SPACE",
    "Holdfast",
    "HoldfastApi",
    "HoldfastError",
    "InboxKind",
    "InterruptKind",
    "InterruptResponse",
    "Invalid",
    "Lease",
    "Message",
    "Move",
    "NewInterrupt",
    "NewMessage",
    "NewRun",
    "NewThread",
    "NotFound",
    "OnBusy",
    "Role",
    "Run",
    "RunBase",
    "RunEvent",
    "RunFailed",
    "RunHandle",
    "RunStatus",
    "ServerUnreachable",
    "Step",
    "StepKind",
    "StepState",
    "Store",
    "StreamNormaliser",
    "SyncClient",
    "Thread",
    "ToolArguments",
    "ToolCall",
    "ToolClass",
    "ToolContext",
    "ToolResult",
    "TypedTool",
    "Unavailable",
    "Usage",
    "Waiting",
    "Watcher",
    "__version__",
    "asgi",
    "open",
    "open_bus",
    "open_store",
    "tool",
    "tool_spec",
]

__version__ = "0.1.0"


_EXPORTS: _typing.Final = {
    "holdfast.bootstrap": "open_bus open_store",
    "holdfast.bootstrap.asgi": "AsgiWorkspace asgi",
    "holdfast.bootstrap.embedded": "Agent Holdfast open",
    "holdfast.client.api": "HoldfastApi RunEvent RunHandle",
    "holdfast.client.client": "Client",
    "holdfast.client.sync.client": "SyncClient",
    "holdfast.domain.agent_task": "AgentSubtask AgentSubtaskStatus AgentTask AgentTaskBoundary AgentTaskMinimal "
    "AgentTaskStatus",
    "holdfast.domain.commit": "Commit Committed Lease",
    "holdfast.domain.errors": "Conflict HoldfastError Invalid NotFound RunFailed ServerUnreachable Unavailable Waiting",
    "holdfast.domain.inbox": "InboxKind",
    "holdfast.domain.interrupt": "InterruptKind InterruptResponse NewInterrupt",
    "holdfast.domain.limits": "Usage",
    "holdfast.domain.message": "Message NewMessage Role ToolCall",
    "holdfast.domain.new_run": "NewRun RunBase",
    "holdfast.domain.placement": "OnBusy",
    "holdfast.domain.run": "Move Run RunStatus",
    "holdfast.domain.space": "DEFAULT_SPACE",
    "holdfast.domain.step": "Step StepKind StepState",
    "holdfast.domain.stream": "StreamNormaliser",
    "holdfast.domain.thread": "NewThread Thread",
    "holdfast.domain.tool": "ToolClass",
    "holdfast.engine.watcher": "Watcher",
    "holdfast.store.store": "Store",
    "holdfast.tools.function_tool": "tool",
    "holdfast.tools.tool": "ToolContext ToolResult",
    "holdfast.tools.typed_tool": "ToolArguments TypedTool tool_spec",
}
"""The exported names by module. A module is imported when one of its names is first used."""


def __getattr__(name: str) -> _typing.Any:
    for module, names in _EXPORTS.items():
        if name in names.split():
            return getattr(_import_module(module), name)
    raise AttributeError(f"module `holdfast` has no attribute `{name}`")
