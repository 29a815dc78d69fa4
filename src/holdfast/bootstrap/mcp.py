"""MCP servers of a workspace."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from holdfast.bootstrap.hands import sandbox_of
from holdfast.mcp.servers import ServerLauncher, open_mcp_servers
from holdfast.mcp.tools import McpTools
from holdfast.ports.sandbox import Processes
from holdfast.ports.workspace import Agents
from holdfast.sandbox.detection import UnconfinedSandbox
from holdfast.store.store import Store
from holdfast.workspace.folder import Workspace
from holdfast.workspace.settings import Settings


@asynccontextmanager
async def open_mcp(
    workspace: Workspace, processes: Processes, settings: Callable[[], Settings], *, store: Store, agents: Agents
) -> AsyncIterator[McpTools]:
    """Have the tools of MCP servers while the block runs; none is connected to before somebody needs it."""
    places = ServerLauncher(
        workspace=workspace.path,
        own=workspace.own,
        sandbox=sandbox_of(processes, settings()),
        unconfined=UnconfinedSandbox(processes),
    )
    async with open_mcp_servers(places, runs=store.runs) as servers:
        yield McpTools(
            servers,
            agents=agents,
            declared=lambda: settings().mcp_servers,
            trust=store.tool_trust,
            journal=store.journal,
            files=store.files,
        )
