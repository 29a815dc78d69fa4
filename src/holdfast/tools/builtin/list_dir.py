"""`list_dir`: what is in a folder."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.tool import ToolClass
from holdfast.domain.working_path import WORKING_ROOT, parse_working_path
from holdfast.ports.tools import EntryKind, FolderEntry, WorkingFolders
from holdfast.tools.files.permitted import permitted_folder
from holdfast.tools.files.results import counted, found
from holdfast.tools.files.threads import in_thread
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool

MAX_LISTED: Final = 1_000
TIMEOUT: Final = 60.0

_SIGNS: Final = {EntryKind.FOLDER: "/", EntryKind.LINK: "@", EntryKind.OTHER: "?"}


class ListDir(Arguments, frozen=True, kw_only=True):
    """List a folder of your working folder: folders end with `/`, links with `@`, and files have their size."""

    path: Annotated[
        str, Meta(min_length=1, description="The folder, relative to your working folder, which itself is `.`.")
    ] = WORKING_ROOT


SPEC: Final = spec_of(ListDir, name="list_dir", kind=ToolClass.IDEMPOTENT, read_only=True, timeout=TIMEOUT)


def list_dir(folders: WorkingFolders) -> TypedTool[ListDir]:
    """Return the tool, which lists in the working folder of the agent that calls it."""

    async def run(call: Call, asked: ListDir) -> Outcome:
        return await in_thread(lambda _: _list(folders, call, asked))

    return TypedTool(SPEC, ListDir, run=run)


def _list(folders: WorkingFolders, call: Call, asked: ListDir) -> Outcome:
    path = parse_working_path(asked.path)
    with permitted_folder(folders, call) as folder:
        listing = folder.list(path, most=MAX_LISTED)
    more = [] if listing.complete else ["and there are more: find them with `glob`"]
    summary = f"{counted(len(listing.entries), 'entry', 'entries')} in `{path}`"
    return found([_row(entry) for entry in listing.entries], summary=summary, notes=more)


def _row(entry: FolderEntry) -> str:
    name = entry.name.encode(errors="backslashreplace").decode()
    return f"{name} {entry.size}" if entry.kind is EntryKind.FILE else f"{name}{_SIGNS[entry.kind]}"
