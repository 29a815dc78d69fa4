"""The server and the agent of the guide work as documented."""

import re
import sys
from pathlib import Path

import msgspec

from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.scenario.mcp.declaring import tool_results
from tests.unit.sandbox.confined import need_sandbox

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "mcp.md").read_text(encoding="utf-8")


def block(kind: str) -> str:
    """Return the first code block of a language."""
    found = re.search(rf"^```{kind}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


async def test_the_server_of_the_guide_answers_the_agent_of_the_guide(workspace: AgentWorkspace) -> None:
    settings = msgspec.json.decode(block("json agent.json"))
    await need_sandbox()
    weather = {**settings["mcp_servers"]["weather"], "command": sys.executable}  # it has the SDK
    workspace.write("tools/weather/server.py", block("python"))
    workspace.agent(calling(call("mcp__weather__forecast", city="Bern")), say("done"))
    workspace.configure(**{**settings, "mcp_servers": {"weather": weather}})
    async with workspace.open() as runtime:
        (results,) = await tool_results(runtime, await runtime.start())
    assert msgspec.json.decode(results) == {"city": "Bern", "sky": "clear"}
