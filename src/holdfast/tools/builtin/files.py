"""The file tools: `read_file`, `write_file` and `edit_file`, in the working folder of the calling agent."""

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import replace

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.tool import ToolClass, ToolReach, ToolSpec
from holdfast.domain.validation import check_text
from holdfast.domain.working_path import parse_working_path
from holdfast.ports.tools import WorkingFolders
from holdfast.tools.files.permitted_folder import permitted_folder
from holdfast.tools.files.text import (
    MAX_FILE_BYTES,
    MAX_LINES,
    FileText,
    decode_file,
    number_lines,
    pluralize,
    split_lines,
)
from holdfast.tools.files.write import (
    check_known,
    content_before_edit,
    digest,
    known_digest,
    remember_digest,
    replace_passage,
    unchanged_result,
    write_for_call,
    written_result,
)
from holdfast.tools.thread_pool import CancelFlag, run_in_thread
from holdfast.tools.tool import Tool, ToolContext, ToolResult
from holdfast.tools.typed_tool import ArgumentsT, ToolArguments, TypedTool, tool_spec

FILE_TIMEOUT_SECONDS: Final = 60.0


def file_tool(
    folders: WorkingFolders,
    spec: ToolSpec,
    arguments_type: type[ArgumentsT],
    work: Callable[[WorkingFolders, ToolContext, ArgumentsT, CancelFlag], ToolResult],
) -> TypedTool[ArgumentsT]:
    """Return a tool that does blocking `work` in a thread."""

    async def run(call: ToolContext, arguments: ArgumentsT) -> ToolResult:
        return await run_in_thread(lambda cancelled: work(folders, call, arguments, cancelled))

    return TypedTool(spec, arguments_type, run=run)


def read_and_write_tools(folders: WorkingFolders) -> list[Tool]:
    """Return the tools of this module."""
    return [
        file_tool(folders, READ_FILE_SPEC, ReadFileArguments, _read_file),
        file_tool(folders, WRITE_FILE_SPEC, WriteFileArguments, _write_file),
        file_tool(folders, EDIT_FILE_SPEC, EditFileArguments, _edit_file),
    ]


class ReadFileArguments(ToolArguments, frozen=True, kw_only=True):
    """Read a text file of your working folder. Each line comes with its number and a tab, which are not in the file."""

    path: Annotated[str, Meta(min_length=1, description="The file, relative to your working folder.")]
    offset: Annotated[int, Meta(ge=1, description="The number of the first line to read.")] = 1
    limit: Annotated[int, Meta(ge=1, le=MAX_LINES, description="How many lines to read.")] = MAX_LINES


READ_FILE_SPEC: Final = tool_spec(
    ReadFileArguments, name="read_file", kind=ToolClass.IDEMPOTENT, read_only=True, timeout=FILE_TIMEOUT_SECONDS
)


def _read_file(
    folders: WorkingFolders, call: ToolContext, arguments: ReadFileArguments, cancelled: CancelFlag
) -> ToolResult:
    path = parse_working_path(arguments.path)
    with permitted_folder(folders, call) as folder:
        content = folder.read(path, max_bytes=MAX_FILE_BYTES).content
    text = decode_file(content, path)
    lines = split_lines(text.text)
    if arguments.offset > max(len(lines), 1):
        raise Invalid(f"`{path}` has {len(lines)} lines: there is no line {arguments.offset}", field="offset")
    part = number_lines(lines, first=arguments.offset, limit=arguments.limit)
    is_last = part.end > part.total
    notes = [
        pluralize(part.total, "line", "lines")
        if part.first == 1 and is_last
        else f"lines {part.first} to {part.end - 1} of {part.total}",
        text.encoding_note,
        "no newline at the end" if is_last and not text.text.endswith("\n") else "",
        "" if is_last else f"continue with offset {part.end}",
    ]
    note = f"`{path}`: {', '.join(filter(None, notes))}" if lines else f"`{path}` is empty"
    return ToolResult(
        content="\n".join(filter(None, [part.text, f"[{note}]"])),
        revisions=remember_digest(call.working_folder, path, digest(content)),
    )


MAX_WRITE_CHARS: Final = 1_000_000


class WriteFileArguments(ToolArguments, frozen=True, kw_only=True):
    """Write a whole text file of your working folder. An existing file must have been read before."""

    path: Annotated[
        str,
        Meta(min_length=1, description="The file, relative to your working folder. Missing folders are created."),
    ]
    content: Annotated[str, Meta(max_length=MAX_WRITE_CHARS, description="The whole text of the file.")]


# Idempotent, because a file that already has the content is left alone, and one with any content other than that which
# the run knows is refused: run again after a crash, the call finishes what was started or finds it done.
WRITE_FILE_SPEC: Final = tool_spec(
    WriteFileArguments,
    name="write_file",
    kind=ToolClass.IDEMPOTENT,
    timeout=FILE_TIMEOUT_SECONDS,
    reach=ToolReach.WORKSPACE,
)


def _write_file(
    folders: WorkingFolders, call: ToolContext, arguments: WriteFileArguments, cancelled: CancelFlag
) -> ToolResult:
    path = parse_working_path(arguments.path)
    content = check_text(arguments.content, field="content", max_chars=MAX_WRITE_CHARS).encode()
    with permitted_folder(folders, call) as folder:
        existing = None
        with suppress(NotFound):
            existing = folder.read(path, max_bytes=MAX_FILE_BYTES)
        if existing is not None:
            if existing.content == content:
                return unchanged_result(call, path, content)
            check_known(call, path, existing)
        write_for_call(folder, call, path, content, existing=existing, cancelled=cancelled)
    return written_result(call, path, before=None if existing is None else existing.content, after=content)


MAX_PASSAGE_CHARS: Final = 1_000_000


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
    new: Annotated[str, Meta(max_length=MAX_PASSAGE_CHARS, description="What to write in its place.")]
    replace_all: Annotated[bool, Meta(description="Whether to replace the passage wherever it is.")] = False


# Idempotent, because only the file that was read is edited, and whether the edit was already made can be found out.
EDIT_FILE_SPEC: Final = tool_spec(
    EditFileArguments,
    name="edit_file",
    kind=ToolClass.IDEMPOTENT,
    timeout=FILE_TIMEOUT_SECONDS,
    reach=ToolReach.WORKSPACE,
)


def _edit_file(
    folders: WorkingFolders, call: ToolContext, arguments: EditFileArguments, cancelled: CancelFlag
) -> ToolResult:
    path = parse_working_path(arguments.path)
    for field, passage in (("old", arguments.old), ("new", arguments.new)):
        check_text(passage, field=field, max_chars=MAX_PASSAGE_CHARS)
    with permitted_folder(folders, call) as folder:
        existing = folder.read(path, max_bytes=MAX_FILE_BYTES)
        known = known_digest(call.values, call.working_folder, path)
        if known is not None and known != digest(existing.content):
            # If this call was interrupted after its edit, the file is already as it would make it.
            text = decode_file(existing.content, path)
            old, new = (text.encode_piece(passage) for passage in _passages(text, arguments))
            before = content_before_edit(existing.content, old, new, everywhere=arguments.replace_all, known=known)
            if before is not None:
                after, count = _apply_edit(decode_file(before, path), arguments)
                return written_result(call, path, before=before, after=after, replaced=count)
        check_known(call, path, existing)
        after, count = _apply_edit(decode_file(existing.content, path), arguments)
        write_for_call(folder, call, path, after, existing=existing, cancelled=cancelled)
    return written_result(call, path, before=existing.content, after=after, replaced=count)


def _apply_edit(text: FileText, arguments: EditFileArguments) -> tuple[bytes, int]:
    old, new = _passages(text, arguments)
    edited, count = replace_passage(text.text, old, new, everywhere=arguments.replace_all)
    return replace(text, text=edited).encoded(), count


def _passages(text: FileText, arguments: EditFileArguments) -> tuple[str, str]:
    """Return the passages with the line ends of the decoded text."""
    old, new = arguments.old, arguments.new
    return (old.replace("\r\n", "\n"), new.replace("\r\n", "\n")) if text.crlf else (old, new)
