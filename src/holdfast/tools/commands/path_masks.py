"""Path masks: the denied paths of a working folder as a list of paths, because a sandbox does not take patterns.

A denied path that does not exist is reserved: while a command runs, an empty folder is there that the command cannot
change. Reserved folders and their parents are removed afterwards if they are still empty.
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
"""Files and folders of a working folder that are scanned for denied paths."""
MAX_MASKED_PATHS: Final = 1_000

_GLOB_CHARS: Final = frozenset("*?[")


class PathMasks(msgspec.Struct, frozen=True, kw_only=True):
    """Absolute paths that may not be read, and that may not be written."""

    hidden: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()


def path_masks(root: Path, denied: DeniedPaths, cancelled: CancelFlag) -> PathMasks:
    """Return the denied paths of a folder and of the machine. Links are skipped: their targets are scanned instead."""
    if denied == DeniedPaths():
        return PathMasks()
    hidden: list[Path] = list(_hidden_outside(root, denied))
    read_only: list[Path] = []
    for path, name in _denied_entries(root, denied, cancelled):
        (hidden if denied.is_hidden(name) else read_only).append(path)
        if len(hidden) + len(read_only) > MAX_MASKED_PATHS:
            raise Invalid(f"the rules deny more than {MAX_MASKED_PATHS} files, too many to mask: deny folders instead")
    return PathMasks(hidden=tuple(hidden), read_only=tuple(read_only))


def _denied_entries(root: Path, denied: DeniedPaths, cancelled: CancelFlag) -> Iterator[tuple[Path, str]]:
    """Yield denied paths from the top down; nothing beneath a hidden folder, or twice for a read-only one."""
    if denied.is_hidden(".") or denied.is_read_only("."):
        yield root, "."
    scanned = 0
    pending = [] if denied.is_hidden(".") else [(root, "", denied.is_read_only("."))]
    while pending and not cancelled.is_set():
        folder, prefix, in_read_only = pending.pop()
        for entry in _scan(folder):
            scanned += 1
            if scanned > MAX_SCANNED_ENTRIES:
                raise Invalid(
                    f"the working folder has more than {MAX_SCANNED_ENTRIES} entries, too many to scan for denied "
                    "paths: work in a smaller one"
                )
            name = f"{prefix}{entry.name}"
            if entry.is_symlink():
                continue
            hidden, read_only = denied.is_hidden(name), not in_read_only and denied.is_read_only(name)
            if hidden or read_only:
                yield Path(entry.path), name
            if not hidden and entry.is_dir(follow_symlinks=False):
                pending.append((Path(entry.path), f"{name}/", in_read_only or read_only))


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):  # removed since its parent was scanned
        return []


def _hidden_outside(root: Path, denied: DeniedPaths) -> Iterator[Path]:
    """Yield the existing paths that absolute patterns hide, except the working folder and its ancestors."""
    for pattern in denied.hidden:
        path = pattern.rstrip("/").removesuffix("/**")
        if not path.startswith("/"):
            continue
        paths = iglob(path, recursive=True, include_hidden=True) if _GLOB_CHARS & {*path} else [path]
        yield from (each for each in map(Path, paths) if each.exists() and not root.is_relative_to(each))


class ReservedPaths:
    """The paths that commands of this process reserve; a shared one stays until the last command has ended."""

    def __init__(self, folders: WorkingFolders) -> None:
        self._folders = folders
        self._counts: Counter[tuple[str, WorkingPath]] = Counter()
        self._lock = Lock()

    def reserve(self, name: str, paths: Sequence[WorkingPath], reserved: list[WorkingPath]) -> None:
        """Reserve paths of a working folder, and append those to be released to `reserved`."""
        with self._lock:
            for path in paths:
                parts = path.split("/")
                try:
                    for length in range(1, len(parts) + 1):
                        part = WorkingPath("/".join(parts[:length]))
                        if self._counts[name, part] or self._folders.reserve(name, part):
                            self._counts[name, part] += 1
                            reserved.append(part)
                except (Invalid, NotFound):
                    continue  # a link or a file is in the way, so the rule cannot match anything here

    def release(self, name: str, reserved: Sequence[WorkingPath]) -> None:
        """Release paths, the deepest first."""
        with self._lock:
            for path in reversed(reserved):
                self._counts[name, path] -= 1
                if self._counts[name, path] == 0:
                    del self._counts[name, path]
                    self._folders.release(name, path)


def paths_to_reserve(denied: DeniedPaths) -> list[WorkingPath]:
    """Return the read-only paths of a working folder that a rule names in full."""
    # A pattern without a slash matches at any depth, and one that begins with a slash is outside of the folder.
    anchored = [pattern.rstrip("/") for pattern in denied.read_only if not pattern.startswith("/")]
    paths = dict.fromkeys(pattern.removesuffix("/**") for pattern in anchored if "/" in pattern)
    return [parse_working_path(path) for path in paths if _GLOB_CHARS.isdisjoint(path)]
