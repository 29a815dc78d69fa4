"""The file search tools: `list_dir`, `glob` and `grep`, in the working folder of the calling agent."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.errors import HoldfastError, Invalid, TooLarge
from holdfast.domain.tool import ToolClass
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath, parse_working_path
from holdfast.ports.tools import EntryKind, WorkingFolder, WorkingFolders
from holdfast.tools.builtin.files import file_tool
from holdfast.tools.files.patterns import MAX_PATTERN_CHARS, LineSearch, find_files
from holdfast.tools.files.permitted_folder import permitted_folder
from holdfast.tools.files.text import MAX_FILE_BYTES, decode_file, pluralize, rows_result
from holdfast.tools.files.walk import FolderWalk, SearchBudget
from holdfast.tools.thread_pool import CancelFlag
from holdfast.tools.tool import Tool, ToolContext, ToolResult
from holdfast.tools.typed_tool import ToolArguments, tool_spec

MAX_LISTED_ENTRIES: Final = 1_000
SEARCH_TIMEOUT_SECONDS: Final = 60.0

_KIND_SUFFIXES: Final = {EntryKind.FOLDER: "/", EntryKind.LINK: "@", EntryKind.OTHER: "?"}


def search_tools(folders: WorkingFolders) -> list[Tool]:
    """Return the tools of this module."""
    return [
        file_tool(folders, LIST_DIR_SPEC, ListDirArguments, _list_dir),
        file_tool(folders, GLOB_SPEC, GlobArguments, _glob),
        file_tool(folders, GREP_SPEC, GrepArguments, _grep),
    ]


class ListDirArguments(ToolArguments, frozen=True, kw_only=True):
    """List a folder of your working folder: folders end with `/`, links with `@`, and files have their size."""

    path: Annotated[
        str, Meta(min_length=1, description="The folder, relative to your working folder, which itself is `.`.")
    ] = WORKING_ROOT


LIST_DIR_SPEC: Final = tool_spec(
    ListDirArguments, name="list_dir", kind=ToolClass.IDEMPOTENT, read_only=True, timeout=SEARCH_TIMEOUT_SECONDS
)


def _list_dir(
    folders: WorkingFolders, call: ToolContext, arguments: ListDirArguments, cancelled: CancelFlag
) -> ToolResult:
    path = parse_working_path(arguments.path)
    with permitted_folder(folders, call) as folder:
        listing = folder.list(path, max_entries=MAX_LISTED_ENTRIES)
    rows = []
    for entry in listing.entries:
        name = entry.name.encode(errors="backslashreplace").decode()
        rows.append(f"{name} {entry.size}" if entry.kind is EntryKind.FILE else f"{name}{_KIND_SUFFIXES[entry.kind]}")
    notes = [] if listing.complete else ["and there are more: find them with `glob`"]
    return rows_result(rows, summary=f"{pluralize(len(rows), 'entry', 'entries')} in `{path}`", notes=notes)


MAX_GLOB_FILES: Final = 1_000


class GlobArguments(ToolArguments, frozen=True, kw_only=True):
    """Find files of your working folder by a pattern for their paths, such as `**/*.py` or `src/*.{js,ts}`."""

    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_PATTERN_CHARS,
            description="`*` and `?` stand for characters of a name, `**` for any folders, `{a,b}` for either.",
        ),
    ]
    path: Annotated[str, Meta(min_length=1, description="The folder to search; the pattern is relative to it.")] = (
        WORKING_ROOT
    )
    ignored: Annotated[bool, Meta(description="Whether to include files that `.gitignore` excludes.")] = False


GLOB_SPEC: Final = tool_spec(
    GlobArguments, name="glob", kind=ToolClass.IDEMPOTENT, read_only=True, timeout=SEARCH_TIMEOUT_SECONDS
)


def _glob(folders: WorkingFolders, call: ToolContext, arguments: GlobArguments, cancelled: CancelFlag) -> ToolResult:
    budget, start = SearchBudget(cancelled), parse_working_path(arguments.path)
    with permitted_folder(folders, call) as folder:
        walk = FolderWalk(folder, budget, include_ignored=arguments.ignored)
        paths = list(islice(find_files(folder, walk, arguments.pattern, start=start), MAX_GLOB_FILES + 1))
    more = ["and there are more: use a narrower pattern"] if len(paths) > MAX_GLOB_FILES else []
    paths = paths[:MAX_GLOB_FILES]
    return rows_result(paths, summary=pluralize(len(paths), "file", "files"), notes=[*more, *budget.notes])


MAX_MATCHES: Final = 1_000
"""Lines in the result of one call."""
DEFAULT_MATCHES: Final = 100
MAX_CONTEXT_LINES: Final = 10


class GrepArguments(ToolArguments, frozen=True, kw_only=True):
    """Find lines in text files of your working folder by a regular expression. They come as `path:number:line`."""

    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_PATTERN_CHARS,
            description="A regular expression in the syntax of RE2: no look-around, no backreferences.",
        ),
    ]
    path: Annotated[str, Meta(min_length=1, description="The file or folder to search.")] = WORKING_ROOT
    glob: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_PATTERN_CHARS)] | None,
        Meta(description="Which files to search, such as `*.py` or `src/**/*.{js,ts}`, relative to `path`."),
    ] = None
    ignore_case: Annotated[bool, Meta(description="Whether to ignore the case of letters.")] = False
    context: Annotated[int, Meta(ge=0, le=MAX_CONTEXT_LINES, description="How many lines around each to show.")] = 0
    files_only: Annotated[bool, Meta(description="Whether to show only the paths of files with such lines.")] = False
    limit: Annotated[int, Meta(ge=1, le=MAX_MATCHES, description="How many lines at most.")] = DEFAULT_MATCHES
    ignored: Annotated[bool, Meta(description="Whether to include files that `.gitignore` excludes.")] = False


GREP_SPEC: Final = tool_spec(
    GrepArguments, name="grep", kind=ToolClass.IDEMPOTENT, read_only=True, timeout=SEARCH_TIMEOUT_SECONDS
)


def _grep(folders: WorkingFolders, call: ToolContext, arguments: GrepArguments, cancelled: CancelFlag) -> ToolResult:
    budget = SearchBudget(cancelled)
    search = LineSearch(arguments.pattern, ignore_case=arguments.ignore_case, context=arguments.context)
    remaining, line_count, file_count, has_more = arguments.limit, 0, 0, False
    rows: list[str] = []
    with permitted_folder(folders, call) as folder:
        for path, text in _texts_to_search(folder, arguments, budget):
            matches = search.matches(text, limit=1 if arguments.files_only else remaining + 1)
            has_more = len(matches) > remaining
            if kept := matches[:remaining]:
                remaining -= len(kept)
                line_count += len(kept)
                file_count += 1
                rows += [path] if arguments.files_only else search.rows(path, text, kept)
            if has_more:
                break
    summary = pluralize(file_count, "file", "files")
    if not arguments.files_only:
        summary = f"{pluralize(line_count, 'line', 'lines')} in {summary}"
    more = ["and there are more: use a narrower pattern, or a larger `limit`"] if has_more else []
    return rows_result(rows, summary=summary, notes=[*more, *budget.notes])


def _texts_to_search(
    folder: WorkingFolder, arguments: GrepArguments, budget: SearchBudget
) -> Iterator[tuple[WorkingPath, str]]:
    start = parse_working_path(arguments.path)
    try:
        folder.list(start, max_entries=1)
        is_folder = True
    except Invalid:
        is_folder = False
    if not is_folder:
        yield start, decode_file(folder.read(start, max_bytes=MAX_FILE_BYTES).content, start).text
        return
    walk = FolderWalk(folder, budget, include_ignored=arguments.ignored)
    if arguments.glob is None:
        paths = walk.files(start)
    else:
        # A pattern for names matches at any depth.
        pattern = arguments.glob if "/" in arguments.glob else f"**/{arguments.glob}"
        paths = find_files(folder, walk, pattern, start=start)
    for path in paths:
        text = _text_or_skip(folder, path, budget)
        if text is not None:
            yield path, text


def _text_or_skip(folder: WorkingFolder, path: WorkingPath, budget: SearchBudget) -> str | None:
    """Return the text of a file, or count it as skipped."""
    try:
        content = folder.read(path, max_bytes=MAX_FILE_BYTES).content
    except HoldfastError as error:
        too_large = isinstance(error, TooLarge)
        budget.skip(f"files of more than {MAX_FILE_BYTES} bytes" if too_large else "files that could not be opened")
        return None
    if not budget.spend(bytes=len(content)):
        return None
    try:
        return decode_file(content, path).text
    except Invalid:
        budget.skip("files that are not text")
        return None
