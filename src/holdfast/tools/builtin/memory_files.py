"""The memory file tools: `memory_read`, `memory_write` and `memory_search`."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.errors import Conflict
from holdfast.domain.memory_file import (
    MAX_MEMORY_FILE_BYTES,
    MEMORY_FILE,
    MemoryFileChange,
    MemoryPath,
    MemoryScope,
    WriteMode,
    memory_path,
    owner_of,
)
from holdfast.domain.recall import MAX_QUERY_CHARS
from holdfast.domain.tool import ToolClass, ToolReach
from holdfast.domain.untrusted import read_taint
from holdfast.ports.runtime import MemoryLibrary
from holdfast.tools.tool import Tool, ToolContext, ToolResult
from holdfast.tools.typed_tool import ToolArguments, TypedTool, tool_spec

MAX_SHOWN_LINES: Final = 2_000

_Path = Annotated[str, Meta(min_length=1, max_length=500, description="The file, by default `MEMORY.md`.")]


class MemoryReadArguments(ToolArguments, frozen=True, kw_only=True):
    """Read a memory file: your own notes (`agent`), or those of everybody here (`space`)."""

    path: _Path = MEMORY_FILE
    scope: Annotated[MemoryScope, Meta(description="Whose notes.")] = MemoryScope.AGENT
    from_line: Annotated[int, Meta(ge=1, description="The first line.")] = 1
    lines: Annotated[int, Meta(ge=1, le=MAX_SHOWN_LINES, description="How many lines at most.")] = MAX_SHOWN_LINES


MEMORY_READ_SPEC: Final = tool_spec(MemoryReadArguments, name="memory_read", kind=ToolClass.IDEMPOTENT, read_only=True)


class MemoryWriteArguments(ToolArguments, frozen=True, kw_only=True):
    """Write into a memory file, whose first lines are in your prompt next time.

    Lines that it has already are not added again.
    """

    text: Annotated[str, Meta(max_length=MAX_MEMORY_FILE_BYTES, description="The lines to write.")]
    path: _Path = MEMORY_FILE
    scope: Annotated[MemoryScope, Meta(description="Whose notes.")] = MemoryScope.AGENT
    mode: Annotated[
        WriteMode, Meta(description="`append` lines, `replace` the whole file, or `edit` the passage `old`.")
    ] = WriteMode.APPEND
    old: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_MEMORY_FILE_BYTES)] | None,
        Meta(description="The passage that an edit replaces, exactly as the file has it."),
    ] = None
    etag: Annotated[
        Annotated[str, Meta(min_length=1, max_length=64)] | None,
        Meta(description="The `etag` of what you read: the change is refused if the file is another one by now."),
    ] = None


MEMORY_WRITE_SPEC: Final = tool_spec(
    MemoryWriteArguments, name="memory_write", kind=ToolClass.IDEMPOTENT, reach=ToolReach.WORKSPACE
)


class MemorySearchArguments(ToolArguments, frozen=True, kw_only=True):
    """Search the lines of memory files, your own and those of everybody here."""

    query: Annotated[str, Meta(min_length=1, max_length=MAX_QUERY_CHARS, description="What to search for.")]
    scope: Annotated[MemoryScope | None, Meta(description="Whose notes; by default both.")] = None
    limit: Annotated[int, Meta(ge=1, le=100, description="How many lines at most.")] = 10


MEMORY_SEARCH_SPEC: Final = tool_spec(
    MemorySearchArguments, name="memory_search", kind=ToolClass.IDEMPOTENT, read_only=True
)

MEMORY_FILE_SPECS: Final = (MEMORY_READ_SPEC, MEMORY_SEARCH_SPEC, MEMORY_WRITE_SPEC)


def memory_file_tools(memory: MemoryLibrary) -> list[Tool]:
    """Return the tools over the memory files of the run's space and agent."""

    async def read(call: ToolContext, arguments: MemoryReadArguments) -> ToolResult:
        file = await memory.file(call.lease, _path(call, arguments.path, arguments.scope))
        first = arguments.from_line - 1
        shown = file.text.splitlines()[first : first + arguments.lines]
        return ToolResult(content={"path": file.path, "text": "\n".join(shown), "lines": file.lines, "etag": file.etag})

    async def write(call: ToolContext, arguments: MemoryWriteArguments) -> ToolResult:
        names = read_taint(call.values).names(before=call.at.message_sequence_num)
        if names:
            raise Conflict(
                f"this run has read untrusted text (`{'`, `'.join(names)}`), so it may not write memory files: "
                "use `remember`, and a person decides"
            )
        change = MemoryFileChange(text=arguments.text, mode=arguments.mode, old=arguments.old, etag=arguments.etag)
        file = await memory.change_file(call.lease, _path(call, arguments.path, arguments.scope), change)
        return ToolResult(content={"path": file.path, "lines": file.lines, "etag": file.etag})

    async def search(call: ToolContext, arguments: MemorySearchArguments) -> ToolResult:
        owners = {
            MemoryScope.SPACE: (None,),
            MemoryScope.AGENT: (call.agent.name,),
            None: (None, call.agent.name),
        }[arguments.scope]
        hits = await memory.search_files(call.lease, arguments.query, owners=owners, limit=arguments.limit)
        found = [{"path": hit.path, "line": hit.line, "text": hit.text, "score": hit.score} for hit in hits]
        return ToolResult(content={"hits": found})

    return [
        TypedTool(MEMORY_READ_SPEC, MemoryReadArguments, run=read),
        TypedTool(MEMORY_SEARCH_SPEC, MemorySearchArguments, run=search),
        TypedTool(MEMORY_WRITE_SPEC, MemoryWriteArguments, run=write),
    ]


def _path(call: ToolContext, path: str, scope: MemoryScope) -> MemoryPath:
    """Return the path of a file of the space, or of the run's own agent; those of other agents are out of reach."""
    if scope is MemoryScope.AGENT:
        return memory_path(path, agent=call.agent.name)
    found = memory_path(path)
    if owner_of(found) not in (None, call.agent.name):
        raise Conflict("the notes of an agent are its own: use the scope `agent` for yours", path=path)
    return found
