"""`grep`: lines of files that fit a regular expression."""

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.errors import HoldfastError, Invalid, TooLarge
from holdfast.domain.tool import ToolClass
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath, parse_working_path
from holdfast.ports.tools import WorkingFolder, WorkingFolders
from holdfast.tools.files.budget import Budget
from holdfast.tools.files.finding import found_files
from holdfast.tools.files.patterns import MAX_PATTERN
from holdfast.tools.files.permitted import permitted_folder
from holdfast.tools.files.results import counted, found
from holdfast.tools.files.searching import Search
from holdfast.tools.files.text import MAX_FILE, decoded
from holdfast.tools.files.threads import Halt, in_thread
from holdfast.tools.files.walking import Walk
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool

MAX_MATCHES: Final = 1_000
DEFAULT_MATCHES: Final = 100
MAX_CONTEXT: Final = 10
TIMEOUT: Final = 60.0

LARGE: Final = f"files of more than {MAX_FILE} bytes"
BINARY: Final = "files that are no text"
GONE: Final = "files that could not be opened"


class Grep(Arguments, frozen=True, kw_only=True):
    """Find lines in text files of your working folder by a regular expression. They come as `path:number:line`."""

    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_PATTERN,
            description="A regular expression in the syntax of RE2: no look-around, no references back.",
        ),
    ]
    path: Annotated[str, Meta(min_length=1, description="The file or folder to look in.")] = WORKING_ROOT
    glob: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_PATTERN)] | None,
        Meta(description="Which files to look in, such as `*.py` or `src/**/*.{js,ts}`, relative to `path`."),
    ] = None
    ignore_case: Annotated[bool, Meta(description="Whether small and capital letters are the same.")] = False
    context: Annotated[int, Meta(ge=0, le=MAX_CONTEXT, description="How many lines around each to show.")] = 0
    files_only: Annotated[bool, Meta(description="Whether to show only which files have such lines.")] = False
    limit: Annotated[int, Meta(ge=1, le=MAX_MATCHES, description="After how many lines to stop.")] = DEFAULT_MATCHES
    ignored: Annotated[bool, Meta(description="Whether to look also at what `.gitignore` leaves out.")] = False


SPEC: Final = spec_of(Grep, name="grep", kind=ToolClass.IDEMPOTENT, read_only=True, timeout=TIMEOUT)


def grep(folders: WorkingFolders) -> TypedTool[Grep]:
    """Return the tool, which looks in the working folder of the agent that calls it."""

    async def run(call: Call, asked: Grep) -> Outcome:
        return await in_thread(lambda halt: _grep(folders, call, asked, halt))

    return TypedTool(SPEC, Grep, run=run)


def _grep(folders: WorkingFolders, call: Call, asked: Grep, halt: Halt) -> Outcome:
    budget = Budget(halt)
    findings = _Findings(asked)
    with permitted_folder(folders, call) as folder:
        for path, text in _texts(folder, asked, budget):
            if not findings.add(path, text):
                break
    more = ["and there are more: use a narrower pattern, or a larger `limit`"] if findings.more else []
    return found(findings.rows, summary=findings.summary, notes=[*more, *budget.notes])


class _Findings:
    """What was found so far, up to the limit."""

    def __init__(self, asked: Grep) -> None:
        self._search = Search(asked.pattern, ignore_case=asked.ignore_case, context=asked.context)
        self._files_only = asked.files_only
        self._room = asked.limit
        self._lines = self._files = 0
        self.rows: list[str] = []
        self.more = False

    def add(self, path: WorkingPath, text: str) -> bool:
        """Look into a text; return whether to look into another."""
        hits = self._search.matches(text, most=1 if self._files_only else self._room + 1)
        self.more = len(hits) > self._room
        if kept := hits[: self._room]:
            self._room -= len(kept)
            self._lines += len(kept)
            self._files += 1
            self.rows += [path] if self._files_only else self._search.rows(path, text, kept)
        return not self.more

    @property
    def summary(self) -> str:
        files = counted(self._files, "file", "files")
        return files if self._files_only else f"{counted(self._lines, 'line', 'lines')} in {files}"


def _texts(folder: WorkingFolder, asked: Grep, budget: Budget) -> Iterator[tuple[WorkingPath, str]]:
    """Yield the texts to look in."""
    start = parse_working_path(asked.path)
    if not _is_folder(folder, start):
        yield start, decoded(folder.read(start, most=MAX_FILE).content, start).text
        return
    walk = Walk(folder, budget, everything=asked.ignored)
    files = walk.files(start) if asked.glob is None else found_files(folder, walk, _anywhere(asked.glob), start=start)
    for path in files:
        text = _text(folder, path, budget)
        if text is not None:
            yield path, text


def _is_folder(folder: WorkingFolder, path: WorkingPath) -> bool:
    try:
        folder.list(path, most=1)
    except Invalid:
        return False
    return True


def _text(folder: WorkingFolder, path: WorkingPath, budget: Budget) -> str | None:
    """Return what a file says; one that says nothing to us is passed over."""
    try:
        content = folder.read(path, most=MAX_FILE).content
    except HoldfastError as error:
        budget.pass_over(LARGE if isinstance(error, TooLarge) else GONE)
        return None
    if not budget.spend(bytes=len(content)):
        return None
    try:
        return decoded(content, path).text
    except Invalid:
        budget.pass_over(BINARY)
        return None


def _anywhere(pattern: str) -> str:
    """Return a pattern that also fits deeper if it is one for names."""
    return pattern if "/" in pattern else f"**/{pattern}"
