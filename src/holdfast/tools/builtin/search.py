"""The file search tools: `list_dir`, `glob` and `grep`, in the working folder of the agent that calls."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.errors import HoldfastError, Invalid, TooLarge
from holdfast.domain.tool import ToolClass
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath, parse_working_path
from holdfast.ports.tools import EntryKind, FolderEntry, WorkingFolder, WorkingFolders
from holdfast.tools.files.patterns import MAX_PATTERN_CHARS, LineSearch, find_files
from holdfast.tools.files.permitted_folder import permitted_folder
from holdfast.tools.files.text import MAX_FILE_BYTES, decode_file, pluralize, rows_result
from holdfast.tools.files.walk import FolderWalk, SearchBudget
from holdfast.tools.thread_pool import CancelFlag, run_in_thread
from holdfast.tools.tool import ToolContext, ToolResult
from holdfast.tools.typed_tool import ToolArguments, TypedTool, tool_spec

MAX_LISTED_ENTRIES: Final = 1_000
SEARCH_TIMEOUT_SECONDS: Final = 60.0

_KIND_SUFFIXES: Final = {EntryKind.FOLDER: "/", EntryKind.LINK: "@", EntryKind.OTHER: "?"}


class ListDirArguments(ToolArguments, frozen=True, kw_only=True):
    """List a folder of your working folder: folders end with `/`, links with `@`, and files have their size."""

    path: Annotated[
        str, Meta(min_length=1, description="The folder, relative to your working folder, which itself is `.`.")
    ] = WORKING_ROOT


LIST_DIR_SPEC: Final = tool_spec(
    ListDirArguments, name="list_dir", kind=ToolClass.IDEMPOTENT, read_only=True, timeout=SEARCH_TIMEOUT_SECONDS
)


def list_dir(folders: WorkingFolders) -> TypedTool[ListDirArguments]:
    """Return the tool, which lists in the working folder of the agent that calls it."""

    async def run(call: ToolContext, asked: ListDirArguments) -> ToolResult:
        return await run_in_thread(lambda _: _list_dir(folders, call, asked))

    return TypedTool(LIST_DIR_SPEC, ListDirArguments, run=run)


def _list_dir(folders: WorkingFolders, call: ToolContext, asked: ListDirArguments) -> ToolResult:
    path = parse_working_path(asked.path)
    with permitted_folder(folders, call) as folder:
        listing = folder.list(path, max_entries=MAX_LISTED_ENTRIES)
    more = [] if listing.complete else ["and there are more: find them with `glob`"]
    summary = f"{pluralize(len(listing.entries), 'entry', 'entries')} in `{path}`"
    return rows_result([_entry_row(entry) for entry in listing.entries], summary=summary, notes=more)


def _entry_row(entry: FolderEntry) -> str:
    name = entry.name.encode(errors="backslashreplace").decode()
    return f"{name} {entry.size}" if entry.kind is EntryKind.FILE else f"{name}{_KIND_SUFFIXES[entry.kind]}"


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
    path: Annotated[str, Meta(min_length=1, description="The folder to look in; the pattern is relative to it.")] = (
        WORKING_ROOT
    )
    ignored: Annotated[bool, Meta(description="Whether to look also at what `.gitignore` leaves out.")] = False


GLOB_SPEC: Final = tool_spec(
    GlobArguments, name="glob", kind=ToolClass.IDEMPOTENT, read_only=True, timeout=SEARCH_TIMEOUT_SECONDS
)


def glob(folders: WorkingFolders) -> TypedTool[GlobArguments]:
    """Return the tool, which looks in the working folder of the agent that calls it."""

    async def run(call: ToolContext, asked: GlobArguments) -> ToolResult:
        return await run_in_thread(lambda halt: _glob(folders, call, asked, halt))

    return TypedTool(GLOB_SPEC, GlobArguments, run=run)


def _glob(folders: WorkingFolders, call: ToolContext, asked: GlobArguments, halt: CancelFlag) -> ToolResult:
    budget, start = SearchBudget(halt), parse_working_path(asked.path)
    with permitted_folder(folders, call) as folder:
        walk = FolderWalk(folder, budget, include_ignored=asked.ignored)
        paths = list(islice(find_files(folder, walk, asked.pattern, start=start), MAX_GLOB_FILES + 1))
    more = ["and there are more: use a narrower pattern"] if len(paths) > MAX_GLOB_FILES else []
    paths = paths[:MAX_GLOB_FILES]
    return rows_result(paths, summary=pluralize(len(paths), "file", "files"), notes=[*more, *budget.notes])


MAX_MATCHES: Final = 1_000
DEFAULT_MATCHES: Final = 100
MAX_CONTEXT_LINES: Final = 10

TOO_LARGE_REASON: Final = f"files of more than {MAX_FILE_BYTES} bytes"
BINARY_REASON: Final = "files that are no text"
UNREADABLE_REASON: Final = "files that could not be opened"


class GrepArguments(ToolArguments, frozen=True, kw_only=True):
    """Find lines in text files of your working folder by a regular expression. They come as `path:number:line`."""

    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_PATTERN_CHARS,
            description="A regular expression in the syntax of RE2: no look-around, no references back.",
        ),
    ]
    path: Annotated[str, Meta(min_length=1, description="The file or folder to look in.")] = WORKING_ROOT
    glob: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_PATTERN_CHARS)] | None,
        Meta(description="Which files to look in, such as `*.py` or `src/**/*.{js,ts}`, relative to `path`."),
    ] = None
    ignore_case: Annotated[bool, Meta(description="Whether small and capital letters are the same.")] = False
    context: Annotated[int, Meta(ge=0, le=MAX_CONTEXT_LINES, description="How many lines around each to show.")] = 0
    files_only: Annotated[bool, Meta(description="Whether to show only which files have such lines.")] = False
    limit: Annotated[int, Meta(ge=1, le=MAX_MATCHES, description="After how many lines to stop.")] = DEFAULT_MATCHES
    ignored: Annotated[bool, Meta(description="Whether to look also at what `.gitignore` leaves out.")] = False


GREP_SPEC: Final = tool_spec(
    GrepArguments, name="grep", kind=ToolClass.IDEMPOTENT, read_only=True, timeout=SEARCH_TIMEOUT_SECONDS
)


def grep(folders: WorkingFolders) -> TypedTool[GrepArguments]:
    """Return the tool, which looks in the working folder of the agent that calls it."""

    async def run(call: ToolContext, asked: GrepArguments) -> ToolResult:
        return await run_in_thread(lambda halt: _grep(folders, call, asked, halt))

    return TypedTool(GREP_SPEC, GrepArguments, run=run)


def _grep(folders: WorkingFolders, call: ToolContext, asked: GrepArguments, halt: CancelFlag) -> ToolResult:
    budget = SearchBudget(halt)
    findings = _GrepMatches(asked)
    with permitted_folder(folders, call) as folder:
        for path, text in _texts_to_search(folder, asked, budget):
            if not findings.add(path, text):
                break
    more = ["and there are more: use a narrower pattern, or a larger `limit`"] if findings.more else []
    return rows_result(findings.rows, summary=findings.summary, notes=[*more, *budget.notes])


class _GrepMatches:
    """What was found so far, up to the limit."""

    def __init__(self, asked: GrepArguments) -> None:
        self._search = LineSearch(asked.pattern, ignore_case=asked.ignore_case, context=asked.context)
        self._files_only = asked.files_only
        self._room = asked.limit
        self._lines = self._files = 0
        self.rows: list[str] = []
        self.more = False

    def add(self, path: WorkingPath, text: str) -> bool:
        """Look into a text; return whether to look into another."""
        hits = self._search.matches(text, limit=1 if self._files_only else self._room + 1)
        self.more = len(hits) > self._room
        if kept := hits[: self._room]:
            self._room -= len(kept)
            self._lines += len(kept)
            self._files += 1
            self.rows += [path] if self._files_only else self._search.rows(path, text, kept)
        return not self.more

    @property
    def summary(self) -> str:
        files = pluralize(self._files, "file", "files")
        return files if self._files_only else f"{pluralize(self._lines, 'line', 'lines')} in {files}"


def _texts_to_search(
    folder: WorkingFolder, asked: GrepArguments, budget: SearchBudget
) -> Iterator[tuple[WorkingPath, str]]:
    """Yield the texts to look in."""
    start = parse_working_path(asked.path)
    if not _is_folder(folder, start):
        yield start, decode_file(folder.read(start, max_bytes=MAX_FILE_BYTES).content, start).text
        return
    walk = FolderWalk(folder, budget, include_ignored=asked.ignored)
    files = (
        walk.files(start) if asked.glob is None else find_files(folder, walk, _at_any_depth(asked.glob), start=start)
    )
    for path in files:
        text = _text_or_skip(folder, path, budget)
        if text is not None:
            yield path, text


def _is_folder(folder: WorkingFolder, path: WorkingPath) -> bool:
    try:
        folder.list(path, max_entries=1)
    except Invalid:
        return False
    return True


def _text_or_skip(folder: WorkingFolder, path: WorkingPath, budget: SearchBudget) -> str | None:
    """Return what a file says; one that says nothing to us is passed over."""
    try:
        content = folder.read(path, max_bytes=MAX_FILE_BYTES).content
    except HoldfastError as error:
        budget.skip(TOO_LARGE_REASON if isinstance(error, TooLarge) else UNREADABLE_REASON)
        return None
    if not budget.spend(bytes=len(content)):
        return None
    try:
        return decode_file(content, path).text
    except Invalid:
        budget.skip(BINARY_REASON)
        return None


def _at_any_depth(pattern: str) -> str:
    """Return a pattern that also fits deeper if it is one for names."""
    return pattern if "/" in pattern else f"**/{pattern}"
