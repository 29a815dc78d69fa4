"""`edit_file`: a passage of a file that was read, replaced by another."""

from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import replace

from holdfast.domain.tool import ToolClass, ToolReach
from holdfast.domain.validation import check_text
from holdfast.domain.working_path import WorkingPath, parse_working_path
from holdfast.ports.tools import WorkingFolders
from holdfast.tools.files.editing import digest, replaced, undone
from holdfast.tools.files.permitted import permitted_folder
from holdfast.tools.files.text import MAX_FILE, Text, decoded
from holdfast.tools.files.threads import Halt, in_thread
from holdfast.tools.files.writing import check_known, known_as, put, wrote
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool

MAX_PASSAGE: Final = 1_000_000
"""Characters."""
TIMEOUT: Final = 60.0


class EditFile(Arguments, frozen=True, kw_only=True):
    """Replace a passage of a text file that you have read. The passage must be in the file exactly once."""

    path: Annotated[str, Meta(min_length=1, description="The file, relative to your working folder.")]
    old: Annotated[
        str,
        Meta(min_length=1, max_length=MAX_PASSAGE, description="The passage exactly as it is, without line numbers."),
    ]
    new: Annotated[str, Meta(max_length=MAX_PASSAGE, description="What to put in its place.")]
    replace_all: Annotated[bool, Meta(description="Whether to replace the passage wherever it is.")] = False


# Idempotent, because only the file that was read is edited, and whether that has happened already can be found out.
SPEC: Final = spec_of(EditFile, name="edit_file", kind=ToolClass.IDEMPOTENT, timeout=TIMEOUT, reach=ToolReach.WORKSPACE)


def edit_file(folders: WorkingFolders) -> TypedTool[EditFile]:
    """Return the tool, which edits in the working folder of the agent that calls it."""

    async def run(call: Call, asked: EditFile) -> Outcome:
        return await in_thread(lambda halt: _edit(folders, call, asked, halt))

    return TypedTool(SPEC, EditFile, run=run)


def _edit(folders: WorkingFolders, call: Call, asked: EditFile, halt: Halt) -> Outcome:
    path = parse_working_path(asked.path)
    for field, passage in (("old", asked.old), ("new", asked.new)):
        check_text(passage, field=field, most=MAX_PASSAGE)
    with permitted_folder(folders, call) as folder:
        found = folder.read(path, most=MAX_FILE)
        before = _undone(call, path, asked, found.content)
        if before is not None:
            after, count = _edited(decoded(before, path), asked)
            return wrote(call, path, before=before, after=after, replaced=count)
        check_known(call, path, found)
        after, count = _edited(decoded(found.content, path), asked)
        put(folder, call, path, after, found=found, halt=halt)
    return wrote(call, path, before=found.content, after=after, replaced=count)


def _edited(text: Text, asked: EditFile) -> tuple[bytes, int]:
    edited, count = replaced(
        text.text, _passage(text, asked.old), _passage(text, asked.new), everywhere=asked.replace_all
    )
    return replace(text, text=edited).encoded(), count


def _undone(call: Call, path: WorkingPath, asked: EditFile, content: bytes) -> bytes | None:
    """Return the file as the run knows it, if it is now what this call makes of that."""
    known = known_as(call, path)
    if known is None or known == digest(content):
        return None
    text = decoded(content, path)
    old, new = (text.piece(_passage(text, passage)) for passage in (asked.old, asked.new))
    return undone(content, old, new, everywhere=asked.replace_all, was=known)


def _passage(text: Text, passage: str) -> str:
    """Return a passage with the line ends that the text has here."""
    return passage.replace("\r\n", "\n") if text.crlf else passage
