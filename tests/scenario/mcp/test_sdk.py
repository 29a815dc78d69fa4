"""Servers written with the SDK, of today's protocol, as processes and over HTTP."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec
import pytest

from holdfast.domain.content import Json
from holdfast.domain.ids import FileId
from tests.scenario.agents.agent_workspace import (
    HANG_TIMEOUT_SECONDS,
    SPACE,
    AgentRuntime,
    AgentWorkspace,
    Turn,
    call,
    calling,
    say,
)
from tests.scenario.mcp.declaring import SDK, agent, program, tool_results

TURNS: list[Turn] = [
    calling(call("mcp__sdk__add", a=1, b=2)),
    calling(call("mcp__sdk__fail")),
    calling(call("mcp__sdk__picture")),
    calling(call("mcp__sdk__find", what="key")),
    calling(call("mcp__sdk__learn", skill="juggle")),
    calling(call("mcp__sdk__whoami")),
]


class HttpServer:
    """An HTTP server process that can be restarted."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}/mcp"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it accepts calls."""
        command = [sys.executable, str(SDK), str(self._port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _wait_for(self._port)

    def stop(self) -> None:
        """Stop it, if it is still running."""
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def http_server() -> Iterator[HttpServer]:
    server = HttpServer()
    try:
        yield server
    finally:
        server.stop()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + HANG_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)  # another process sends no event
        else:
            return


async def run_every_tool(runtime: AgentRuntime) -> list[str]:
    """Run an agent that uses every tool, respond to its interrupt, and return the tool results."""
    run = await runtime.start()
    (interrupt,) = await runtime.wait_for_interrupts(run)
    assert interrupt.message == "The MCP server `sdk` asks: Who has the key?"
    await runtime.runs.respond(SPACE, run.id, {"action": "accept", "content": {"name": "Ada"}})
    return await tool_results(runtime, run)


async def check(runtime: AgentRuntime, results: list[str]) -> None:
    """Check the tool results."""
    assert msgspec.json.decode(results[0]) == {"total": 3}
    assert "it is broken" in results[1]
    assert results[2].startswith("look:\n[image/png, 12 bytes: file `")
    picture = FileId(results[2].partition("file `")[2].partition("`")[0])
    assert await runtime.store.files.content(SPACE, picture) == b"\x89PNG no more"
    assert results[3] == "Ada has the key"
    assert results[4] == "learned"
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
        while "mcp__sdk__juggle" not in await offered_tools(runtime):
            pass  # the server announces new tools at any time


async def offered_tools(runtime: AgentRuntime) -> list[str]:
    """Return the tools of a new run."""
    return [tool["name"] for tool in (await runtime.context(await runtime.run_to_end(agent="looker"))).tools]


def agents(workspace: AgentWorkspace, declared: Json) -> None:
    """Write agents with a server: one uses every tool, one lists them, one kills it and one only counts."""
    usual: dict[str, Json] = {"mcp_servers": {"sdk": declared}, "permissions": {"allow": ["mcp__sdk__*"]}}
    agent(workspace, *TURNS, **usual)
    agent(workspace, name="looker", **usual)
    agent(workspace, calling(call("mcp__sdk__die")), name="killer", **usual)
    agent(workspace, calling(call("mcp__sdk__add", a=1, b=2)), name="counter", **usual)
    workspace.script(say("I see"), agent="looker")


async def test_a_server_on_pipes(workspace: AgentWorkspace) -> None:
    agents(workspace, program(SDK))
    async with workspace.open() as runtime:
        results = await run_every_tool(runtime)
        await check(runtime, results)
        assert results[5] == "nobody"


async def test_a_server_over_http_gets_the_headers_and_its_secrets_stay_secret(
    workspace: AgentWorkspace, http_server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDK_PHRASE", "open sesame 789")
    agents(workspace, {"url": http_server.url, "headers": {"Authorization": "Bearer ${SDK_PHRASE}"}})
    async with workspace.open() as runtime:
        results = await run_every_tool(runtime)
        await check(runtime, results)
        assert results[5] == "Bearer [redacted]"


async def test_an_http_server_that_dies_in_a_call_fails_the_call_and_is_reconnected(
    workspace: AgentWorkspace, http_server: HttpServer
) -> None:
    agents(workspace, {"url": http_server.url})
    async with workspace.open() as runtime:
        (killed_call,) = await tool_results(runtime, await runtime.start(agent="killer"))
        (backoff_call,) = await tool_results(runtime, await runtime.start(agent="counter"))
        http_server.stop()
        http_server.start()
        async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
            while "total" not in (result := (await tool_results(runtime, await runtime.start(agent="counter")))[0]):
                assert result.startswith("MCP_SERVER_FAILED: ")  # it is in backoff
    assert killed_call.startswith("MCP_SERVER_FAILED: the MCP server `sdk` failed: ")
    assert "Its outcome is unknown" in killed_call
    assert backoff_call.startswith("MCP_SERVER_FAILED: ")
    assert "Its outcome is unknown" not in backoff_call
