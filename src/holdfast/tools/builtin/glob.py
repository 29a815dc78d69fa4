"""`glob`: files by what their paths look like."""

from itertools import islice
from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.tool import ToolClass
from holdfast.domain.working_path import WORKING_ROOT, parse_working_path
from holdfast.ports.tools import WorkingFolders
from holdfast.tools.files.budget import Budget
from holdfast.tools.files.finding import found_files
from holdfast.tools.files.patterns import MAX_PATTERN
from holdfast.tools.files.permitted import permitted_folder
from holdfast.tools.files.results import counted, found
from holdfast.tools.files.threads import Halt, in_thread
from holdfast.tools.files.walking import Walk
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool

MAX_FOUND: Final = 1_000
TIMEOUT: Final = 60.0


class Glob(Arguments, frozen=True, kw_only=True):
    """Find files of your working folder by a pattern for their paths, such as `**/*.py` or `src/*.{js,ts}`."""

    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_PATTERN,
            description="`*` and `?` stand for characters of a name, `**` for any folders, `{a,b}` for either.",
        ),
    ]
    path: Annotated[str, Meta(min_length=1, description="The folder to look in; the pattern is relative to it.")] = (
        WORKING_ROOT
    )
    ignored: Annotated[bool, Meta(description="Whether to look also at what `.gitignore` leaves out.")] = False


SPEC: Final = spec_of(Glob, name="glob", kind=ToolClass.IDEMPOTENT, read_only=True, timeout=TIMEOUT)


def glob(folders: WorkingFolders) -> TypedTool[Glob]:
    """Return the tool, which looks in the working folder of the agent that calls it."""

    async def run(call: Call, asked: Glob) -> Outcome:
        return await in_thread(lambda halt: _glob(folders, call, asked, halt))

    return TypedTool(SPEC, Glob, run=run)


def _glob(folders: WorkingFolders, call: Call, asked: Glob, halt: Halt) -> Outcome:
    budget, start = Budget(halt), parse_working_path(asked.path)
    with permitted_folder(folders, call) as folder:
        walk = Walk(folder, budget, everything=asked.ignored)
        paths = list(islice(found_files(folder, walk, asked.pattern, start=start), MAX_FOUND + 1))
    more = ["and there are more: use a narrower pattern"] if len(paths) > MAX_FOUND else []
    paths = paths[:MAX_FOUND]
    return found(paths, summary=counted(len(paths), "file", "files"), notes=[*more, *budget.notes])
