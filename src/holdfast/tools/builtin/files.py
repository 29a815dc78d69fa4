"""The file tools: `read_file`, `write_file` and `edit_file`, in the working folder of the agent that calls."""

from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import replace

from holdfast.domain.errors import Invalid
from holdfast.domain.tool import ToolClass, ToolReach
from holdfast.domain.validation import check_text
from holdfast.domain.working_path import WorkingPath, parse_working_path
from holdfast.ports.tools import WorkingFolders
from holdfast.tools.files.permitted_folder import permitted_folder
from holdfast.tools.files.text import (
    MAX_FILE_BYTES,
    MAX_LINES,
    FileText,
    NumberedLines,
    decode_file,
    number_lines,
    pluralize,
    split_lines,
)
from holdfast.tools.files.write import (
    check_known,
    content_before_edit,
    digest,
    known_digest_for,
    read_if_exists,
    remember_digest,
    replace_passage,
    unchanged_result,
    write_for_call,
    written_result,
)
from holdfast.tools.thread_pool import CancelFlag, run_in_thread
from holdfast.tools.tool import ToolContext, ToolResult
from holdfast.tools.typed_tool import ToolArguments, TypedTool, tool_spec

FILE_TIMEOUT_SECONDS: Final = 60.0


class ReadFileArguments(ToolArguments, frozen=True, kw_only=True):
    """Read a text file of your working folder. Each line comes with its number and a tab, which are not in the file."""

    path: Annotated[str, Meta(min_length=1, description="The file, relative to your working folder.")]
    offset: Annotated[int, Meta(ge=1, description="The number of the first line to read.")] = 1
    limit: Annotated[int, Meta(ge=1, le=MAX_LINES, description="How many lines to read.")] = MAX_LINES


READ_FILE_SPEC: Final = tool_spec(
    ReadFileArguments, name="read_file", kind=ToolClass.IDEMPOTENT, read_only=True, timeout=FILE_TIMEOUT_SECONDS
)


def read_file(folders: WorkingFolders) -> TypedTool[ReadFileArguments]:
    """Return the tool, which reads in the working folder of the agent that calls it."""

    async def run(call: ToolContext, asked: ReadFileArguments) -> ToolResult:
        return await run_in_thread(lambda _: _read_file(folders, call, asked))

    return TypedTool(READ_FILE_SPEC, ReadFileArguments, run=run)


def _read_file(folders: WorkingFolders, call: ToolContext, asked: ReadFileArguments) -> ToolResult:
    path = parse_working_path(asked.path)
    with permitted_folder(folders, call) as folder:
        content = folder.read(path, max_bytes=MAX_FILE_BYTES).content
    text = decode_file(content, path)
    lines = split_lines(text.text)
    if asked.offset > max(len(lines), 1):
        raise Invalid(f"`{path}` has {len(lines)} lines: there is no line {asked.offset}", field="offset")
    part = number_lines(lines, first=asked.offset, limit=asked.limit)
    return ToolResult(
        content="\n".join(filter(None, [part.text, f"[{_read_note(path, text, part)}]"])),
        revisions=remember_digest(call.agent.working_folder, path, digest(content)),
    )


def _read_note(path: WorkingPath, text: FileText, part: NumberedLines) -> str:
    """Say what was read, and how to go on."""
    if part.total == 0:
        return f"`{path}` is empty"
    last = part.end > part.total
    some = pluralize(part.total, "line", "lines")
    notes = [
        some if part.first == 1 and last else f"lines {part.first} to {part.end - 1} of {part.total}",
        text.encoding_note,
        "the last line has no end" if last and not text.text.endswith("\n") else "",
        "" if last else f"go on with offset {part.end}",
    ]
    return f"`{path}`: {', '.join(filter(None, notes))}"


MAX_WRITE_CHARS: Final = 1_000_000
"""Characters."""


class WriteFileArguments(ToolArguments, frozen=True, kw_only=True):
    """Write a text file of your working folder, all of it. A file that is there already must have been read before."""

    path: Annotated[
        str,
        Meta(min_length=1, description="The file, relative to your working folder. Folders on the way to it are made."),
    ]
    content: Annotated[str, Meta(max_length=MAX_WRITE_CHARS, description="The whole text of the file.")]


# Idempotent, because a file that is already as it should be is left so, and one that is neither that nor what the run
# knows is refused: run again after a crash, it finishes what was begun or finds it done.
WRITE_FILE_SPEC: Final = tool_spec(
    WriteFileArguments,
    name="write_file",
    kind=ToolClass.IDEMPOTENT,
    timeout=FILE_TIMEOUT_SECONDS,
    reach=ToolReach.WORKSPACE,
)


def write_file(folders: WorkingFolders) -> TypedTool[WriteFileArguments]:
    """Return the tool, which writes in the working folder of the agent that calls it."""

    async def run(call: ToolContext, asked: WriteFileArguments) -> ToolResult:
        return await run_in_thread(lambda halt: _write_file(folders, call, asked, halt))

    return TypedTool(WRITE_FILE_SPEC, WriteFileArguments, run=run)


def _write_file(folders: WorkingFolders, call: ToolContext, asked: WriteFileArguments, halt: CancelFlag) -> ToolResult:
    path = parse_working_path(asked.path)
    content = check_text(asked.content, field="content", max_chars=MAX_WRITE_CHARS).encode()
    with permitted_folder(folders, call) as folder:
        found = read_if_exists(folder, path)
        if found is not None and found.content == content:
            return unchanged_result(call, path, content)
        if found is not None:
            check_known(call, path, found)
        write_for_call(folder, call, path, content, found=found, halt=halt)
    return written_result(call, path, before=None if found is None else found.content, after=content)


MAX_PASSAGE_CHARS: Final = 1_000_000
"""Characters."""


class EditFileArguments(ToolArguments, frozen=True, kw_only=True):
    """Replace a passage of a text file that you have read. The passage must be in the file exactly once."""

    path: Annotated[str, Meta(min_length=1, description="The file, relative to your working folder.")]
    old: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_PASSAGE_CHARS,
            description="The passage exactly as it is, without line numbers.",
        ),
    ]
    new: Annotated[str, Meta(max_length=MAX_PASSAGE_CHARS, description="What to write_for_call in its place.")]
    replace_all: Annotated[bool, Meta(description="Whether to replace the passage wherever it is.")] = False


# Idempotent, because only the file that was read is edited, and whether that has happened already can be found out.
EDIT_FILE_SPEC: Final = tool_spec(
    EditFileArguments,
    name="edit_file",
    kind=ToolClass.IDEMPOTENT,
    timeout=FILE_TIMEOUT_SECONDS,
    reach=ToolReach.WORKSPACE,
)


def edit_file(folders: WorkingFolders) -> TypedTool[EditFileArguments]:
    """Return the tool, which edits in the working folder of the agent that calls it."""

    async def run(call: ToolContext, asked: EditFileArguments) -> ToolResult:
        return await run_in_thread(lambda halt: _edit_file(folders, call, asked, halt))

    return TypedTool(EDIT_FILE_SPEC, EditFileArguments, run=run)


def _edit_file(folders: WorkingFolders, call: ToolContext, asked: EditFileArguments, halt: CancelFlag) -> ToolResult:
    path = parse_working_path(asked.path)
    for field, passage in (("old", asked.old), ("new", asked.new)):
        check_text(passage, field=field, max_chars=MAX_PASSAGE_CHARS)
    with permitted_folder(folders, call) as folder:
        found = folder.read(path, max_bytes=MAX_FILE_BYTES)
        before = _before_own_edit(call, path, asked, found.content)
        if before is not None:
            after, count = _apply_edit(decode_file(before, path), asked)
            return written_result(call, path, before=before, after=after, replaced=count)
        check_known(call, path, found)
        after, count = _apply_edit(decode_file(found.content, path), asked)
        write_for_call(folder, call, path, after, found=found, halt=halt)
    return written_result(call, path, before=found.content, after=after, replaced=count)


def _apply_edit(text: FileText, asked: EditFileArguments) -> tuple[bytes, int]:
    edited, count = replace_passage(
        text.text, _with_line_ends(text, asked.old), _with_line_ends(text, asked.new), everywhere=asked.replace_all
    )
    return replace(text, text=edited).encoded(), count


def _before_own_edit(call: ToolContext, path: WorkingPath, asked: EditFileArguments, content: bytes) -> bytes | None:
    """Return the file as the run knows it, if it is now what this call makes of that."""
    known = known_digest_for(call, path)
    if known is None or known == digest(content):
        return None
    text = decode_file(content, path)
    old, new = (text.encode_piece(_with_line_ends(text, passage)) for passage in (asked.old, asked.new))
    return content_before_edit(content, old, new, everywhere=asked.replace_all, known=known)


def _with_line_ends(text: FileText, passage: str) -> str:
    """Return a passage with the line ends that the text has here."""
    return passage.replace("\r\n", "\n") if text.crlf else passage
