"""Path masks: the denied paths of a working folder, as a sandbox needs them, which takes paths and not patterns.

A denied path that does not exist yet is reserved: while a command runs, an empty folder stands there that cannot be
changed from inside. Reserved folders and their parents are removed afterwards if nobody put anything into them.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from glob import iglob
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.working_path import WorkingPath, parse_working_path
from holdfast.ports.tools import WorkingFolders
from holdfast.tools.permissions.policy import DeniedPaths
from holdfast.tools.thread_pool import CancelFlag

MAX_SCANNED_ENTRIES: Final = 100_000
MAX_MASKED_PATHS: Final = 1_000

_GLOB_CHARS: Final = frozenset("*?[")


class PathMasks(msgspec.Struct, frozen=True, kw_only=True):
    """Absolute paths that may not be read, and that may not be written."""

    hidden: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()


def path_masks(root: Path, denied: DeniedPaths, halt: CancelFlag) -> PathMasks:
    """Return what of a folder, and of the machine, is denied. A link is not: what it leads to is looked at itself."""
    if denied == DeniedPaths():
        return PathMasks()
    hidden: list[Path] = list(_hidden_outside(root, denied))
    kept: list[Path] = []
    for path, name in _denied_entries(root, denied, halt):
        (hidden if denied.is_hidden(name) else kept).append(path)
        if len(hidden) + len(kept) > MAX_MASKED_PATHS:
            raise Invalid(
                f"the rules deny more than {MAX_MASKED_PATHS} files, too many to hide from a command: deny folders"
            )
    return PathMasks(hidden=tuple(hidden), read_only=tuple(kept))


def _denied_entries(root: Path, denied: DeniedPaths, halt: CancelFlag) -> Iterator[tuple[Path, str]]:
    """Yield what is denied, from the top; beneath what is hidden there is nothing to look for."""
    if denied.is_hidden(".") or denied.is_read_only("."):
        yield root, "."
    seen = 0
    waiting = [] if denied.is_hidden(".") else [(root, "", denied.is_read_only("."))]
    while waiting and not halt.is_set():
        folder, prefix, is_kept = waiting.pop()
        for entry in _scan(folder):
            seen += 1
            if seen > MAX_SCANNED_ENTRIES:
                raise Invalid(
                    f"the working folder has more than {MAX_SCANNED_ENTRIES} entries, too many to look for what "
                    "the rules deny: work in a smaller one"
                )
            name = f"{prefix}{entry.name}"
            if entry.is_symlink():
                continue
            hides, keeps = denied.is_hidden(name), not is_kept and denied.is_read_only(name)
            if hides or keeps:
                yield Path(entry.path), name
            if not hides and entry.is_dir(follow_symlinks=False):
                waiting.append((Path(entry.path), f"{name}/", is_kept or keeps))


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):  # it is gone by now
        return []


def _hidden_outside(root: Path, denied: DeniedPaths) -> Iterator[Path]:
    """Yield what is hidden of the machine. The working folder itself is named by relative paths only."""
    for pattern in denied.hidden:
        plain = pattern.rstrip("/").removesuffix("/**")
        if not plain.startswith("/"):
            continue
        found = iglob(plain, recursive=True, include_hidden=True) if _GLOB_CHARS & {*plain} else [plain]
        yield from (path for path in map(Path, found) if path.exists() and not root.is_relative_to(path))


class ReservedPaths:
    """The paths that commands of this process reserve; what several reserve is there until the last one has ended."""

    def __init__(self, folders: WorkingFolders) -> None:
        self._folders = folders
        self._held: Counter[tuple[str, WorkingPath]] = Counter()
        self._lock = Lock()

    def hold(self, name: str, paths: Sequence[WorkingPath], held: list[WorkingPath]) -> None:
        """Reserve paths of a working folder, and note in `held` which are to be released."""
        with self._lock:
            for path in paths:
                try:
                    self._reserve(name, path, held)
                except (Invalid, NotFound):
                    continue  # what a link or a file is in the way of is nothing that the rule is about

    def release(self, name: str, held: Sequence[WorkingPath]) -> None:
        """Let go of paths, the deepest first."""
        with self._lock:
            for path in reversed(held):
                self._held[name, path] -= 1
                if self._held[name, path] == 0:
                    del self._held[name, path]
                    self._folders.release(name, path)

    def _reserve(self, name: str, path: WorkingPath, held: list[WorkingPath]) -> None:
        parts = path.split("/")
        for length in range(1, len(parts) + 1):
            part = WorkingPath("/".join(parts[:length]))
            if self._held[name, part] or self._folders.reserve(name, part):
                self._held[name, part] += 1
                held.append(part)


def paths_to_reserve(denied: DeniedPaths) -> list[WorkingPath]:
    """Return the paths of a working folder that rules name in full and deny to be written."""
    plain = [pattern.rstrip("/").removesuffix("/**") for pattern in denied.read_only if _is_anchored(pattern)]
    return [parse_working_path(path) for path in dict.fromkeys(plain) if _GLOB_CHARS.isdisjoint(path)]


def _is_anchored(pattern: str) -> bool:
    """Say whether it begins at the working folder: one without a slash fits at any depth."""
    return "/" in pattern.rstrip("/") and not pattern.startswith("/")
