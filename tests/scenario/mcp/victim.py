"""A worker that is killed during an MCP call."""

from typing import Final

import holdfast.mcp.connection
import holdfast.mcp.transports  # noqa: F401 - imported on use otherwise, by each victim again
from tests.scenario.command_victim import Task, work

__all__ = ["WORKER", "Task", "work"]

WORKER: Final = "tests.scenario.mcp.victim:work"
