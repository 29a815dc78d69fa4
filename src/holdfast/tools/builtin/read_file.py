"""`read_file`: the text of a file, or a part of it, with line numbers."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.errors import Invalid
from holdfast.domain.tool import ToolClass
from holdfast.domain.working_path import WorkingPath, parse_working_path
from holdfast.ports.tools import WorkingFolders
from holdfast.tools.files.editing import digest
from holdfast.tools.files.known import knowing
from holdfast.tools.files.lines import MAX_LINES, Shown, shown, split
from holdfast.tools.files.permitted import permitted_folder
from holdfast.tools.files.results import counted
from holdfast.tools.files.text import MAX_FILE, Text, decoded
from holdfast.tools.files.threads import in_thread
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool

TIMEOUT: Final = 60.0


class ReadFile(Arguments, frozen=True, kw_only=True):
    """Read a text file of your working folder. Each line comes with its number and a tab, which are not in the file."""

    path: Annotated[str, Meta(min_length=1, description="The file, relative to your working folder.")]
    offset: Annotated[int, Meta(ge=1, description="The number of the first line to read.")] = 1
    limit: Annotated[int, Meta(ge=1, le=MAX_LINES, description="How many lines to read.")] = MAX_LINES


SPEC: Final = spec_of(ReadFile, name="read_file", kind=ToolClass.IDEMPOTENT, read_only=True, timeout=TIMEOUT)


def read_file(folders: WorkingFolders) -> TypedTool[ReadFile]:
    """Return the tool, which reads in the working folder of the agent that calls it."""

    async def run(call: Call, asked: ReadFile) -> Outcome:
        return await in_thread(lambda _: _read(folders, call, asked))

    return TypedTool(SPEC, ReadFile, run=run)


def _read(folders: WorkingFolders, call: Call, asked: ReadFile) -> Outcome:
    path = parse_working_path(asked.path)
    with permitted_folder(folders, call) as folder:
        content = folder.read(path, most=MAX_FILE).content
    text = decoded(content, path)
    lines = split(text.text)
    if asked.offset > max(len(lines), 1):
        raise Invalid(f"`{path}` has {len(lines)} lines: there is no line {asked.offset}", field="offset")
    part = shown(lines, first=asked.offset, most=asked.limit)
    return Outcome(
        content="\n".join(filter(None, [part.text, f"[{_note(path, text, part)}]"])),
        revisions=knowing(call.agent.working_folder, path, digest(content)),
    )


def _note(path: WorkingPath, text: Text, part: Shown) -> str:
    """Say what was read, and how to go on."""
    if part.total == 0:
        return f"`{path}` is empty"
    last = part.end > part.total
    some = counted(part.total, "line", "lines")
    notes = [
        some if part.first == 1 and last else f"lines {part.first} to {part.end - 1} of {part.total}",
        text.kind,
        "the last line has no end" if last and not text.text.endswith("\n") else "",
        "" if last else f"go on with offset {part.end}",
    ]
    return f"`{path}`: {', '.join(filter(None, notes))}"
