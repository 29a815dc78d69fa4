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
from tests.scenario.mcp.declaring import SDK, agent, answers, program

TURNS: list[Turn] = [
    calling(call("mcp__sdk__add", a=1, b=2)),
    calling(call("mcp__sdk__fail")),
    calling(call("mcp__sdk__picture")),
    calling(call("mcp__sdk__find", what="key")),
    calling(call("mcp__sdk__learn", skill="juggle")),
    calling(call("mcp__sdk__whoami")),
]


class Address:
    """An HTTP server process that can be restarted."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
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
def address() -> Iterator[Address]:
    found = Address()
    try:
        yield found
    finally:
        found.stop()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + HANG_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)  # another process sends no event
        else:
            return


async def played(runtime: AgentRuntime) -> list[str]:
    """Run an agent that uses every tool, respond to its interrupt, and return the tool results."""
    run = await runtime.start()
    (question,) = await runtime.wait_for_interrupts(run)
    assert question.message == "The MCP server `sdk` asks: Who has the key?"
    await runtime.runs.respond(SPACE, run.id, {"action": "accept", "content": {"name": "Ada"}})
    return await answers(runtime, run)


async def check(runtime: AgentRuntime, said: list[str]) -> None:
    """Check the tool results."""
    assert msgspec.json.decode(said[0]) == {"total": 3}
    assert "it is broken" in said[1]
    assert said[2].startswith("look:\n[image/png, 12 bytes: file `")
    picture = FileId(said[2].partition("file `")[2].partition("`")[0])
    assert await runtime.store.files.content(SPACE, picture) == b"\x89PNG no more"
    assert said[3] == "Ada has the key"
    assert said[4] == "learned"
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
        while "mcp__sdk__juggle" not in await shown(runtime):
            pass  # it tells of new tools when it likes


async def shown(runtime: AgentRuntime) -> list[str]:
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
        said = await played(runtime)
        await check(runtime, said)
        assert said[5] == "nobody"


async def test_a_server_over_http_gets_the_headers_and_its_secrets_stay_secret(
    workspace: AgentWorkspace, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDK_PHRASE", "open sesame 789")
    agents(workspace, {"url": address.url, "headers": {"Authorization": "Bearer ${SDK_PHRASE}"}})
    async with workspace.open() as runtime:
        said = await played(runtime)
        await check(runtime, said)
        assert said[5] == "Bearer [redacted]"


async def test_an_http_server_that_dies_in_a_call_fails_the_call_and_is_reconnected(
    workspace: AgentWorkspace, address: Address
) -> None:
    agents(workspace, {"url": address.url})
    async with workspace.open() as runtime:
        (died,) = await answers(runtime, await runtime.start(agent="killer"))
        (away,) = await answers(runtime, await runtime.start(agent="counter"))
        address.stop()
        address.start()
        async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
            while "total" not in (again := (await answers(runtime, await runtime.start(agent="counter")))[0]):
                assert again.startswith("MCP_SERVER_FAILED: ")  # it is in backoff
    assert died.startswith("MCP_SERVER_FAILED: the MCP server `sdk` failed: ")
    assert "Its outcome is unknown" in died
    assert away.startswith("MCP_SERVER_FAILED: ")
    assert "Nobody knows" not in away
