"""Walking a working folder in order of name, without what `.gitignore` excludes, within a budget."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import re2  # type: ignore[import-untyped]  # it ships no types

from holdfast.domain.errors import HoldfastError
from holdfast.domain.working_path import MAX_PATH_DEPTH, WORKING_ROOT, WorkingPath, child_path, is_valid_name
from holdfast.ports.tools import EntryKind, FolderEntry, WorkingFolder
from holdfast.tools.thread_pool import CancelFlag

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


MAX_SEARCH_SECONDS: Final = 20.0
MAX_SEARCH_ENTRIES: Final = 100_000
MAX_SEARCH_BYTES: Final = 512 * 1024 * 1024


class SearchBudget:
    """Spent while a search goes on. What is used up, and what was passed over, is in `notes`."""

    def __init__(self, halt: CancelFlag, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._halt = halt
        self._monotonic = monotonic
        self._until = monotonic() + MAX_SEARCH_SECONDS
        self._entries = MAX_SEARCH_ENTRIES
        self._bytes = MAX_SEARCH_BYTES
        self._reasons: dict[str, int] = {}

    @property
    def entries(self) -> int:
        """How many entries of folders may still be looked at."""
        return self._entries

    def spend(self, *, entries: int = 0, bytes: int = 0) -> bool:
        """Take something off; return whether the search may go on."""
        self._entries -= entries
        self._bytes -= bytes
        if self._halt.is_set() or self._monotonic() > self._until:
            self._reasons[f"it took longer than {MAX_SEARCH_SECONDS:g} seconds"] = 0
        elif self._entries <= 0:
            self._reasons[f"there are more than {MAX_SEARCH_ENTRIES} files and folders"] = 0
        elif self._bytes <= 0:
            self._reasons[f"there are more than {MAX_SEARCH_BYTES} bytes"] = 0
        else:
            return True
        return False

    def skip(self, why: str) -> None:
        """Count something that was not looked at."""
        self._reasons[why] = self._reasons.get(why, 0) + 1

    @property
    def notes(self) -> list[str]:
        """What the result does not have, in words."""
        return [
            f"{count} passed over: {why}" if count else f"the search ended early: {why}: name a smaller folder"
            for why, count in self._reasons.items()
        ]


IGNORE_FILE: Final = ".gitignore"
ALWAYS_IGNORED: Final = frozenset({".git"})
"""Never looked into: it is for git alone."""
MAX_IGNORE_FILE_BYTES: Final = 256 * 1024
"""Bytes."""

_MAX_PATTERNS_PER_SPEC: Final = 200
"""Patterns that are matched together: RE2 refuses sets that are too large."""


class IgnoreRules(NamedTuple):
    """What some lines of a file leave out, beneath its folder."""

    folder: WorkingPath
    spec: "GitIgnoreSpec"


def ignore_rules(folder: WorkingFolder, path: WorkingPath) -> list[IgnoreRules]:
    """Return what the file of a folder leaves out; one that cannot be read leaves out nothing."""
    try:
        lines = (
            folder.read(child_path(path, IGNORE_FILE), max_bytes=MAX_IGNORE_FILE_BYTES)
            .content.decode(errors="replace")
            .splitlines()
        )
    except HoldfastError:
        return []
    parts = (lines[first : first + _MAX_PATTERNS_PER_SPEC] for first in range(0, len(lines), _MAX_PATTERNS_PER_SPEC))
    return [IgnoreRules(path, spec) for part in parts for spec in _parse_specs(part)]


def is_ignored(path: WorkingPath, rules: Sequence[IgnoreRules], *, folder: bool) -> bool:
    """Say whether something is left out: the file that is nearest to it and says something about it decides."""
    for rule in reversed(rules):
        name = path if rule.folder == WORKING_ROOT else path.removeprefix(f"{rule.folder}/")
        said = rule.spec.check_file(f"{name}/" if folder else name).include
        if said is not None:
            return said
    return False


def _parse_specs(lines: Sequence[str]) -> list["GitIgnoreSpec"]:
    """Return what the lines say, in order, without those that nobody can understand."""
    from pathspec import GitIgnoreSpec  # it takes a while to import, and few need it

    try:
        # RE2, because a pattern of somebody else must not be able to hang us.
        return [GitIgnoreSpec.from_lines(lines, backend="re2")]
    except (ValueError, re.error, re2.error):
        middle = len(lines) // 2
        return [*_parse_specs(lines[:middle]), *_parse_specs(lines[middle:])] if middle else []


SYMLINK_REASON: Final = "symbolic links, which are not followed"
BAD_NAME_REASON: Final = "names that are not UTF-8 or have control characters in them"
UNREADABLE_FOLDER_REASON: Final = "folders that could not be opened"
TOO_DEEP_REASON: Final = f"folders more than {MAX_PATH_DEPTH} deep"


class FolderWalk:
    """Goes through a working folder as long as its budget lasts."""

    def __init__(self, folder: WorkingFolder, budget: SearchBudget, *, include_ignored: bool = False) -> None:
        self._folder = folder
        self._budget = budget
        self._include_ignored = include_ignored

    def files(self, start: WorkingPath) -> Iterator[WorkingPath]:
        """Yield the files beneath `start`, which must be a folder that can be opened."""
        above = () if self._include_ignored else _ancestors(start)
        rules = [rule for folder in above for rule in ignore_rules(self._folder, folder)]
        if is_ignored(start, rules, folder=True):
            rules = []  # whoever names it wants to look into it
        yield from self._beneath(start, rules, first=True)

    def _beneath(
        self, path: WorkingPath, rules: Sequence[IgnoreRules], *, first: bool = False
    ) -> Iterator[WorkingPath]:
        entries = self._entries(path, first=first)
        if not self._include_ignored and any(entry.name == IGNORE_FILE for entry in entries):
            rules = [*rules, *ignore_rules(self._folder, path)]
        for entry in entries:
            if not self._budget.spend(entries=1):
                return
            below = child_path(path, entry.name)
            if not is_valid_name(entry.name):
                self._budget.skip(BAD_NAME_REASON)
            elif not self._is_excluded(below, entry, rules):
                yield from self._visit(below, entry, rules)

    def _visit(self, path: WorkingPath, entry: FolderEntry, rules: Sequence[IgnoreRules]) -> Iterator[WorkingPath]:
        if entry.kind is EntryKind.FILE:
            yield path
        elif entry.kind is EntryKind.LINK:
            self._budget.skip(SYMLINK_REASON)
        elif entry.kind is EntryKind.FOLDER and path.count("/") + 1 < MAX_PATH_DEPTH:
            yield from self._beneath(path, rules)
        elif entry.kind is EntryKind.FOLDER:
            self._budget.skip(TOO_DEEP_REASON)

    def _is_excluded(self, path: WorkingPath, entry: FolderEntry, rules: Sequence[IgnoreRules]) -> bool:
        if self._include_ignored:
            return False
        return entry.name in ALWAYS_IGNORED or is_ignored(path, rules, folder=entry.kind is EntryKind.FOLDER)

    def _entries(self, path: WorkingPath, *, first: bool) -> Sequence[FolderEntry]:
        try:
            return self._folder.list(path, max_entries=max(self._budget.entries, 1)).entries
        except HoldfastError:
            if first:
                raise
            self._budget.skip(UNREADABLE_FOLDER_REASON)
            return ()


def _ancestors(path: WorkingPath) -> Iterator[WorkingPath]:
    """Yield the folders that a folder is in, from the outermost."""
    if path == WORKING_ROOT:
        return
    yield WORKING_ROOT
    parts = path.split("/")
    for depth in range(1, len(parts)):
        yield WorkingPath("/".join(parts[:depth]))
