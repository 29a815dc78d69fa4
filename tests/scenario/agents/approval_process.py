"""A process that runs an agent, approves one call and denies another, and is killed on the way."""

from pathlib import Path
from typing import Final

from holdfast.domain.content import Json
from holdfast.tools.permissions.shell.parser import parse_script
from holdfast.tools.tool import Tool, ToolResult
from tests.scenario.agents.fake_tools import FakeTool
from tests.scenario.agents.killed_process import victim

GOOD: Final = "touch good"
BAD: Final = "touch bad"

parse_script(GOOD)  # imported before the first process is forked


def tools(ran: Path) -> list[Tool]:
    """Return a tool that appends its commands to a file."""

    async def do(arguments: dict[str, Json]) -> ToolResult:
        with ran.open("a") as opened:
            opened.write(f"{arguments['command']}\n")
        return ToolResult(content="done")

    return [FakeTool("bash", do)]


work = victim(tools, lambda interrupt: "approve" if interrupt.arguments == {"command": GOOD} else "deny")
