"""A run with the file tools, in a folder of its own: it remembers what the loop would."""

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


class Desk:
    """Calls file tools, and settles their calls unless told otherwise."""

    def __init__(self, workspace: Path) -> None:
        self.place = workspace / FOLDER
        self.place.mkdir()
        self.values: dict[str, Json] = {}
        self.permissions = Permissions()
        self.tools = {
            tool.spec.name: with_standard_middleware(tool) for tool in file_tools(WorkspaceFolders(workspace))
        }
        self._calls = 0

    async def run(self, tool: str, *, settle: bool = True, key: str | None = None, **arguments: Json) -> ToolResult:
        """Call a tool; a call that is not settled was cut off after it did what it does."""
        outcome = await self.tools[tool].run(self.call(key), arguments)
        if settle:
            self.values |= outcome.values
            self.values |= {name: revise(self.values.get(name)) for name, revise in outcome.revisions.items()}
        return outcome

    async def does(self, tool: str, **arguments: Json) -> Json:
        """Call a tool that does what it is asked to, and return what it says."""
        outcome = await self.run(tool, **arguments)
        assert not outcome.failed, outcome.content
        return outcome.content

    async def refuses(self, tool: str, **arguments: Json) -> str:
        """Call a tool that refuses, and return why."""
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
        """Write a file, as a person does."""
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def stamp(self, name: str) -> tuple[int, int]:
        """Return which file it is, and when it was last written."""
        found = (self.place / name).stat()
        return found.st_ino, found.st_mtime_ns


def the_change(outcome: ToolResult) -> FileChanged:
    """Return the event of a file that was written."""
    (event,) = outcome.events
    assert isinstance(event, FileChanged)
    return event
