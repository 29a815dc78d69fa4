"""Walking a working folder in order of name, without files that `.gitignore` excludes, within a budget."""

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
    """The limits of one search; `notes` tells which were reached and what was skipped."""

    def __init__(self, cancelled: CancelFlag, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._cancelled = cancelled
        self._monotonic = monotonic
        self._deadline = monotonic() + MAX_SEARCH_SECONDS
        self.entries = MAX_SEARCH_ENTRIES
        """Folder entries that may still be visited."""
        self._bytes = MAX_SEARCH_BYTES
        self._reasons: dict[str, int] = {}

    def spend(self, *, entries: int = 0, bytes: int = 0) -> bool:
        """Use a part of the budget, and return whether the search may continue."""
        self.entries -= entries
        self._bytes -= bytes
        if self._cancelled.is_set() or self._monotonic() > self._deadline:
            self._reasons[f"it took longer than {MAX_SEARCH_SECONDS:g} seconds"] = 0
        elif self.entries <= 0:
            self._reasons[f"there are more than {MAX_SEARCH_ENTRIES} files and folders"] = 0
        elif self._bytes <= 0:
            self._reasons[f"there are more than {MAX_SEARCH_BYTES} bytes"] = 0
        else:
            return True
        return False

    def skip(self, reason: str) -> None:
        """Count a skipped entry."""
        self._reasons[reason] = self._reasons.get(reason, 0) + 1

    @property
    def notes(self) -> list[str]:
        """Why the result is incomplete, in words."""
        return [
            f"{count} skipped: {reason}" if count else f"the search ended early: {reason}: name a smaller folder"
            for reason, count in self._reasons.items()
        ]


IGNORE_FILE: Final = ".gitignore"
MAX_IGNORE_FILE_BYTES: Final = 256 * 1024

_MAX_PATTERNS_PER_SPEC: Final = 200
"""Patterns that are matched together: RE2 refuses larger sets."""


class IgnoreRules(NamedTuple):
    """Patterns of an ignore file, which apply beneath its folder."""

    folder: WorkingPath
    spec: "GitIgnoreSpec"


def ignore_rules(folder: WorkingFolder, path: WorkingPath) -> list[IgnoreRules]:
    """Return the rules of the ignore file in a folder; none if it cannot be read."""
    try:
        content = folder.read(child_path(path, IGNORE_FILE), max_bytes=MAX_IGNORE_FILE_BYTES).content
    except HoldfastError:
        return []
    lines = content.decode(errors="replace").splitlines()
    parts = (lines[first : first + _MAX_PATTERNS_PER_SPEC] for first in range(0, len(lines), _MAX_PATTERNS_PER_SPEC))
    return [IgnoreRules(path, spec) for part in parts for spec in _parse_specs(part)]


def is_ignored(path: WorkingPath, rules: Sequence[IgnoreRules], *, folder: bool) -> bool:
    """Return whether a path is ignored: the nearest ignore file with a matching pattern decides."""
    for rule in reversed(rules):
        name = path if rule.folder == WORKING_ROOT else path.removeprefix(f"{rule.folder}/")
        included = rule.spec.check_file(f"{name}/" if folder else name).include
        if included is not None:
            return included
    return False


def _parse_specs(lines: Sequence[str]) -> list["GitIgnoreSpec"]:
    """Return the patterns of these lines, in order, without invalid lines."""
    from pathspec import GitIgnoreSpec  # slow to import, and rarely needed

    try:
        # RE2, because an untrusted pattern must not be able to hang the worker.
        return [GitIgnoreSpec.from_lines(lines, backend="re2")]
    except (ValueError, re.error, re2.error):
        middle = len(lines) // 2
        return [*_parse_specs(lines[:middle]), *_parse_specs(lines[middle:])] if middle else []


class FolderWalk:
    """Walks a working folder within a budget."""

    def __init__(self, folder: WorkingFolder, budget: SearchBudget, *, include_ignored: bool = False) -> None:
        self._folder = folder
        self._budget = budget
        self._include_ignored = include_ignored

    def files(self, start: WorkingPath) -> Iterator[WorkingPath]:
        """Yield the files beneath `start`, which must be a folder that can be opened."""
        ancestors = () if self._include_ignored else _ancestors(start)
        rules = [rule for folder in ancestors for rule in ignore_rules(self._folder, folder)]
        if is_ignored(start, rules, folder=True):
            rules = []  # a folder that is named explicitly is searched
        yield from self._files_in(start, self._list(start), rules)

    def _list(self, path: WorkingPath) -> Sequence[FolderEntry]:
        return self._folder.list(path, max_entries=max(self._budget.entries, 1)).entries

    def _files_in(
        self, path: WorkingPath, entries: Sequence[FolderEntry], rules: Sequence[IgnoreRules]
    ) -> Iterator[WorkingPath]:
        if not self._include_ignored and any(entry.name == IGNORE_FILE for entry in entries):
            rules = [*rules, *ignore_rules(self._folder, path)]
        for entry in entries:
            if not self._budget.spend(entries=1):
                return
            child = child_path(path, entry.name)
            if not is_valid_name(entry.name):
                self._budget.skip("names that are not UTF-8 or have control characters in them")
            elif self._include_ignored or not (
                entry.name == ".git" or is_ignored(child, rules, folder=entry.kind is EntryKind.FOLDER)
            ):
                yield from self._visit(child, entry, rules)

    def _visit(self, path: WorkingPath, entry: FolderEntry, rules: Sequence[IgnoreRules]) -> Iterator[WorkingPath]:
        if entry.kind is EntryKind.FILE:
            yield path
        elif entry.kind is EntryKind.LINK:
            self._budget.skip("symbolic links, which are not followed")
        elif entry.kind is EntryKind.FOLDER and path.count("/") + 1 >= MAX_PATH_DEPTH:
            self._budget.skip(f"folders more than {MAX_PATH_DEPTH} deep")
        elif entry.kind is EntryKind.FOLDER:
            try:
                entries = self._list(path)
            except HoldfastError:
                self._budget.skip("folders that could not be opened")
                return
            yield from self._files_in(path, entries, rules)


def _ancestors(path: WorkingPath) -> Iterator[WorkingPath]:
    """Yield the parent folders of a folder, the outermost first."""
    if path == WORKING_ROOT:
        return
    yield WORKING_ROOT
    parts = path.split("/")
    for depth in range(1, len(parts)):
        yield WorkingPath("/".join(parts[:depth]))
