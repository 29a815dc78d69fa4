"""Test agents with an MCP server, and the results of its tools."""

import asyncio
import sys
from pathlib import Path
from typing import Final

from holdfast.domain.content import Json
from holdfast.domain.run import Run, RunStatus
from tests.scenario.agents.agent_workspace import (
    HANG_TIMEOUT_SECONDS,
    AgentRuntime,
    AgentWorkspace,
    Turn,
    call,
    calling,
    say,
)

PLAIN: Final = Path(__file__).with_name("plain_server.py")
SDK: Final = Path(__file__).with_name("sdk_server.py")
READS: Final = [sys.prefix, sys.base_prefix, str(Path(__file__).parent)]
"""Paths that the Python of the tests needs in a sandbox."""


def program(script: Path, *arguments: str, **more: Json) -> dict[str, Json]:
    """Declare one of our scripts as a server, in the working folder and by default without a sandbox."""
    return {
        "command": sys.executable,
        "args": ["-I", str(script), *arguments],
        "cwd": "files",
        "sandbox": "off",
        **more,
    }


def agent(workspace: AgentWorkspace, *turns: Turn, name: str = "bot", **settings: Json) -> None:
    """Write an agent with the plain server and all its tools allowed, which ends with the last result."""
    usual: dict[str, Json] = {
        "mcp_servers": {"plain": program(PLAIN)},
        "permissions": {"allow": ["mcp__plain__*"]},
        "tainted": "allow",
    }
    workspace.agent(*turns, say("{$last_tool}"), name=name, **{**usual, **settings})


def tool_turn(tool: str, text: str = "", *, server: str = "plain") -> Turn:
    """Return a turn in which the model calls a tool of a server."""
    return calling(call(f"mcp__{server}__{tool}", text=text))


async def tool_results(runtime: AgentRuntime, run: Run) -> list[str]:
    """Return the tool results of a completed run."""
    ended_run = await runtime.wait_until_ended(run)
    assert ended_run.status is RunStatus.COMPLETED, ended_run.error
    return [str(message.content) for message in await runtime.messages(run) if message.role == "tool"]


def effects(workspace: AgentWorkspace) -> list[str]:
    """Return the lines that a server wrote in the working folder."""
    file = workspace.folder / "files" / "ran"
    return file.read_text().splitlines() if file.exists() else []


async def wait_for_effect(workspace: AgentWorkspace, line: str) -> None:
    """Wait until a server has written a line."""
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
        while line not in effects(workspace):  # noqa: ASYNC110  another process sends no event
            await asyncio.sleep(0.005)
