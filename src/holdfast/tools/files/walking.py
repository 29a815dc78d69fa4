"""Everything beneath a folder, in order of name, without what `.gitignore` leaves out."""

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.domain.errors import HoldfastError
from holdfast.domain.working_path import MAX_PATH_DEPTH, WORKING_ROOT, WorkingPath, child_path, is_valid_name
from holdfast.ports.tools import EntryKind, FolderEntry, WorkingFolder
from holdfast.tools.files.budget import Budget
from holdfast.tools.files.ignoring import ALWAYS, IGNORE, Ignored, ignored_in, is_ignored

LINKED: Final = "symbolic links, which are not followed"
UNNAMED: Final = "names that are not UTF-8 or have control characters in them"
GONE: Final = "folders that could not be opened"
DEEP: Final = f"folders more than {MAX_PATH_DEPTH} deep"


class Walk:
    """Goes through a working folder as long as its budget lasts."""

    def __init__(self, folder: WorkingFolder, budget: Budget, *, everything: bool = False) -> None:
        self._folder = folder
        self._budget = budget
        self._everything = everything

    def files(self, start: WorkingPath) -> Iterator[WorkingPath]:
        """Yield the files beneath `start`, which must be a folder that can be opened."""
        above = () if self._everything else _above(start)
        rules = [rule for folder in above for rule in ignored_in(self._folder, folder)]
        if is_ignored(start, rules, folder=True):
            rules = []  # whoever names it wants to look into it
        yield from self._beneath(start, rules, first=True)

    def _beneath(self, path: WorkingPath, rules: Sequence[Ignored], *, first: bool = False) -> Iterator[WorkingPath]:
        entries = self._entries(path, first=first)
        if not self._everything and any(entry.name == IGNORE for entry in entries):
            rules = [*rules, *ignored_in(self._folder, path)]
        for entry in entries:
            if not self._budget.spend(entries=1):
                return
            below = child_path(path, entry.name)
            if not is_valid_name(entry.name):
                self._budget.pass_over(UNNAMED)
            elif not self._leaves_out(below, entry, rules):
                yield from self._visit(below, entry, rules)

    def _visit(self, path: WorkingPath, entry: FolderEntry, rules: Sequence[Ignored]) -> Iterator[WorkingPath]:
        if entry.kind is EntryKind.FILE:
            yield path
        elif entry.kind is EntryKind.LINK:
            self._budget.pass_over(LINKED)
        elif entry.kind is EntryKind.FOLDER and path.count("/") + 1 < MAX_PATH_DEPTH:
            yield from self._beneath(path, rules)
        elif entry.kind is EntryKind.FOLDER:
            self._budget.pass_over(DEEP)

    def _leaves_out(self, path: WorkingPath, entry: FolderEntry, rules: Sequence[Ignored]) -> bool:
        if self._everything:
            return False
        return entry.name in ALWAYS or is_ignored(path, rules, folder=entry.kind is EntryKind.FOLDER)

    def _entries(self, path: WorkingPath, *, first: bool) -> Sequence[FolderEntry]:
        try:
            return self._folder.list(path, most=max(self._budget.entries, 1)).entries
        except HoldfastError:
            if first:
                raise
            self._budget.pass_over(GONE)
            return ()


def _above(path: WorkingPath) -> Iterator[WorkingPath]:
    """Yield the folders that a folder is in, from the outermost."""
    if path == WORKING_ROOT:
        return
    yield WORKING_ROOT
    parts = path.split("/")
    for depth in range(1, len(parts)):
        yield WorkingPath("/".join(parts[:depth]))
