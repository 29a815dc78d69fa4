"""`write_file`: a whole file, new or in the place of one that was read."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.tool import ToolClass, ToolReach
from holdfast.domain.validation import check_text
from holdfast.domain.working_path import parse_working_path
from holdfast.ports.tools import WorkingFolders
from holdfast.tools.files.permitted import permitted_folder
from holdfast.tools.files.threads import Halt, in_thread
from holdfast.tools.files.writing import check_known, find, found_so, put, wrote
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool

MAX_WRITTEN: Final = 1_000_000
"""Characters."""
TIMEOUT: Final = 60.0


class WriteFile(Arguments, frozen=True, kw_only=True):
    """Write a text file of your working folder, all of it. A file that is there already must have been read before."""

    path: Annotated[
        str,
        Meta(min_length=1, description="The file, relative to your working folder. Folders on the way to it are made."),
    ]
    content: Annotated[str, Meta(max_length=MAX_WRITTEN, description="The whole text of the file.")]


# Idempotent, because a file that is already as it should be is left so, and one that is neither that nor what the run
# knows is refused: run again after a crash, it finishes what was begun or finds it done.
SPEC: Final = spec_of(
    WriteFile, name="write_file", kind=ToolClass.IDEMPOTENT, timeout=TIMEOUT, reach=ToolReach.WORKSPACE
)


def write_file(folders: WorkingFolders) -> TypedTool[WriteFile]:
    """Return the tool, which writes in the working folder of the agent that calls it."""

    async def run(call: Call, asked: WriteFile) -> Outcome:
        return await in_thread(lambda halt: _write(folders, call, asked, halt))

    return TypedTool(SPEC, WriteFile, run=run)


def _write(folders: WorkingFolders, call: Call, asked: WriteFile, halt: Halt) -> Outcome:
    path = parse_working_path(asked.path)
    content = check_text(asked.content, field="content", most=MAX_WRITTEN).encode()
    with permitted_folder(folders, call) as folder:
        found = find(folder, path)
        if found is not None and found.content == content:
            return found_so(call, path, content)
        if found is not None:
            check_known(call, path, found)
        put(folder, call, path, content, found=found, halt=halt)
    return wrote(call, path, before=None if found is None else found.content, after=content)
