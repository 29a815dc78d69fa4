"""A run with the file tools in its own folder, which keeps values as the agent loop does."""

from pathlib import Path
from typing import Final

from msgspec.structs import replace

from holdfast.domain.agent import Permissions
from holdfast.domain.content import Json
from holdfast.domain.events.custom import FileChanged
from holdfast.domain.ids import ToolCallId
from holdfast.sandbox.working_folders import WorkspaceFolders
from holdfast.tools.builtin.catalog import file_tools
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.tool import ToolContext, ToolResult
from tests.support.calls import a_call

FOLDER: Final = "files"


class FileToolRunner:
    """Calls file tools and, by default, settles the calls."""

    def __init__(self, workspace: Path) -> None:
        self.folder = workspace / FOLDER
        self.folder.mkdir()
        self.values: dict[str, Json] = {}
        self.permissions = Permissions()
        self.tools = {
            tool.spec.name: with_standard_middleware(tool) for tool in file_tools(WorkspaceFolders(workspace))
        }
        self._calls = 0

    async def run(self, tool: str, *, settle: bool = True, key: str | None = None, **arguments: Json) -> ToolResult:
        """Call a tool; a call that is not settled stands for one interrupted after its effect."""
        outcome = await self.tools[tool].run(self.call(key), arguments)
        if settle:
            self.values |= outcome.values
            self.values |= {name: revise(self.values.get(name)) for name, revise in outcome.revisions.items()}
        return outcome

    async def call_ok(self, tool: str, **arguments: Json) -> Json:
        """Call a tool that must succeed, and return its content."""
        outcome = await self.run(tool, **arguments)
        assert not outcome.failed, outcome.content
        return outcome.content

    async def call_failing(self, tool: str, **arguments: Json) -> str:
        """Call a tool that must fail, and return the message."""
        outcome = await self.run(tool, **arguments)
        assert outcome.failed, outcome.content
        assert (outcome.events, outcome.revisions) == ((), {})
        text: str = outcome.content
        return text

    def call(self, key: str | None = None) -> ToolContext:
        """Return the next call."""
        self._calls += 1
        call_id = ToolCallId(f"call_{self._calls}")
        call = a_call(key=key or f"run_1.{self._calls}", values=self.values)
        return replace(call, id=call_id, agent=replace(call.agent, permissions=self.permissions))

    def write(self, name: str, content: str | bytes = "") -> Path:
        """Write a file without a tool."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def stamp(self, name: str) -> tuple[int, int]:
        """Return the inode and the modification time of a file."""
        status = (self.folder / name).stat()
        return status.st_ino, status.st_mtime_ns


def file_changed_event(outcome: ToolResult) -> FileChanged:
    """Return the only event of a result."""
    (event,) = outcome.events
    assert isinstance(event, FileChanged)
    return event
