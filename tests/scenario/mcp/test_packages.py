"""Servers from npm and PyPI, as their READMEs print them, with `"network": true`: in the sandbox, from the registry.

The machine's own client says whether its registry can be reached; if not, the test is skipped with the reason.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.domain.content import Json
from holdfast.domain.events.custom import McpServerUnavailable
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.scenario.mcp.declaring import tool_results
from tests.unit.sandbox.confined import need_sandbox

CLIENT_TIMEOUT_SECONDS = 60


def need_answer(*command: str) -> str:
    """Return what a client of a registry prints; skip the test, with the reason, if it fails."""
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=CLIENT_TIMEOUT_SECONDS)
    if answer.returncode:
        pytest.skip(f"`{' '.join(command)}` failed: {answer.stderr.strip()[-500:]}")
    return answer.stdout.strip()


def need_program(name: str, *, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the test where a program is missing, also beside the Python of the tests."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if shutil.which(name) is None:
        pytest.skip(f"`{name}` is not installed")


def declare(workspace: AgentWorkspace, server: dict[str, Json], tool: str, **arguments: Json) -> None:
    """Write an agent that calls one tool of the server."""
    workspace.agent(
        calling(call(f"mcp__server__{tool}", **arguments)),
        say("done"),
        mcp_servers={"server": server},
        permissions={"allow": ["mcp__server__*"]},
    )


async def results(workspace: AgentWorkspace) -> list[str]:
    """Run the agent, and return the results of its calls."""
    async with workspace.open() as runtime:
        run = await runtime.start()
        found = await tool_results(runtime, run)
        assert await runtime.custom_events(run, McpServerUnavailable) == []
        return found


async def test_a_server_from_npm_works_with_network_access_and_then_without(
    workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    await need_sandbox()
    need_program("npx", monkeypatch=monkeypatch)
    need_answer("npm", "view", "@modelcontextprotocol/server-everything", "version")
    registry = need_answer("npm", "config", "get", "registry")  # a file may configure it, which the sandbox hides
    printed: dict[str, Json] = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"]}
    declare(workspace, {**printed, "network": True, "env": {"NPM_CONFIG_REGISTRY": registry}}, "echo", message="hi")
    assert await results(workspace) == ["Echo: hi"]
    declare(workspace, printed, "echo", message="hi")
    assert await results(workspace) == ["Echo: hi"]


async def test_a_server_from_pypi_works_with_network_access(
    workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    await need_sandbox()
    need_program("uvx", monkeypatch=monkeypatch)
    need_answer("uvx", "mcp-server-time", "--help")
    printed: dict[str, Json] = {"command": "uvx", "args": ["mcp-server-time"]}
    declare(workspace, {**printed, "network": True}, "get_current_time", timezone="Europe/Zurich")
    (result,) = await results(workspace)
    assert "Europe/Zurich" in result
