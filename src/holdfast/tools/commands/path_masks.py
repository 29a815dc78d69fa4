"""Path masks: the denied paths of a working folder as a list of paths, because a sandbox does not take patterns.

A denied path that does not exist is reserved: while a command runs, an empty folder is there that the command cannot
change. Reserved folders and their parents are removed afterwards if they are still empty.
"""

import errno
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from glob import iglob
from pathlib import Path
from threading import Lock
from typing import Final, TypeAlias

import msgspec

from holdfast.domain.errors import FolderChanged, Invalid, NotFound
from holdfast.domain.working_path import WorkingPath, parse_working_path
from holdfast.ports.tools import WorkingFolders
from holdfast.tools.permissions.policy import DeniedPaths
from holdfast.tools.thread_pool import CancelFlag

MAX_SCANNED_ENTRIES: Final = 100_000
"""Files and folders of a working folder that are scanned for denied paths."""
MAX_SCANNED_DEPTH: Final = 200
MAX_MASKED_PATHS: Final = 1_000

MAX_PROGRAM_NAMES: Final = 8
"""Names of one program; a file with more holds many programs."""

_GLOB_CHARS: Final = frozenset("*?[")
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


Inode: TypeAlias = tuple[int, int]
"""Device and number of a file, which stay the same when it is moved."""


class PathMasks(msgspec.Struct, frozen=True, kw_only=True):
    """Absolute paths that may not be read, and that may not be written."""

    hidden: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    inodes: Mapping[Path, Inode] = {}
    """The files that were found at these paths, and the folder that was searched."""


def path_masks(root: Path, denied: DeniedPaths, cancelled: CancelFlag) -> PathMasks:
    """Return the denied paths of a folder and of the machine. Links are skipped: their targets are scanned instead."""
    if denied == DeniedPaths():
        return PathMasks()
    scan = FolderScan(root, denied, cancelled)
    hidden: list[Path] = list(_hidden_outside(root, denied))
    read_only: list[Path] = []
    for path, name in scan.denied_entries():
        (hidden if denied.is_hidden(name) else read_only).append(path)
        if len(hidden) + len(read_only) > MAX_MASKED_PATHS:
            raise Invalid(f"the rules deny more than {MAX_MASKED_PATHS} files, too many to mask: deny folders instead")
    return PathMasks(hidden=tuple(hidden), read_only=tuple(read_only), inodes=scan.inodes)


class FolderScan:
    """A search for denied paths, by handles: a folder that is swapped for a link meanwhile is never left."""

    def __init__(self, root: Path, denied: DeniedPaths, cancelled: CancelFlag) -> None:
        self.inodes: dict[Path, Inode] = {}
        self._root = root
        self._denied = denied
        self._cancelled = cancelled
        self._scanned = 0
        self._folders: set[Inode] = set()

    def denied_entries(self) -> Iterator[tuple[Path, str]]:
        """Yield denied paths from the top down; nothing beneath a hidden folder, or twice for a read-only one.

        Raises:
            FolderChanged: a folder was moved meanwhile, so that a path may have been missed.

        """
        hidden, read_only = self._denied.is_hidden("."), self._denied.is_read_only(".")
        handle = _open_folder(self._root)
        try:
            self.inodes[self._root] = _inode(os.fstat(handle))
            if hidden or read_only:
                yield self._root, "."
            if not hidden:
                yield from self._entries(handle, "", in_read_only=read_only, depth=1)
        finally:
            os.close(handle)

    def _entries(self, folder: int, prefix: str, *, in_read_only: bool, depth: int) -> Iterator[tuple[Path, str]]:
        if depth > MAX_SCANNED_DEPTH:
            raise Invalid(f"`{prefix}` is nested more than {MAX_SCANNED_DEPTH} folders deep: move it up")
        with os.scandir(folder) as scan:
            entries = list(scan)
        self._scanned += len(entries)
        if self._scanned > MAX_SCANNED_ENTRIES:
            raise Invalid(
                f"the working folder has more than {MAX_SCANNED_ENTRIES} entries, too many to scan for denied "
                "paths: work in a smaller one"
            )
        for entry in entries:
            if self._cancelled.is_set():
                return
            name = f"{prefix}{entry.name}"
            if entry.is_symlink():
                continue
            hidden, read_only = self._denied.is_hidden(name), not in_read_only and self._denied.is_read_only(name)
            is_folder = entry.is_dir(follow_symlinks=False)
            if not hidden and not read_only and not is_folder:
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # removed since its folder was listed
                continue
            if hidden or read_only:
                self.inodes[self._root / name] = _inode(status)
                yield self._root / name, name
            if is_folder and not hidden:
                yield from self._subfolder(
                    folder, entry.name, name, status, in_read_only=in_read_only or read_only, depth=depth
                )

    def _subfolder(
        self, parent: int, last: str, name: str, found: os.stat_result, *, in_read_only: bool, depth: int
    ) -> Iterator[tuple[Path, str]]:
        try:
            handle = _open_folder(last, parent=parent)
        except FileNotFoundError:
            return
        try:
            inode = _inode(os.fstat(handle))
            if inode != _inode(found) or inode in self._folders:  # a folder has one name, unless it was moved
                raise _changed(name)
            self._folders.add(inode)
            yield from self._entries(handle, f"{name}/", in_read_only=in_read_only, depth=depth + 1)
        finally:
            os.close(handle)


def _open_folder(path: str | Path, *, parent: int | None = None) -> int:
    try:
        return os.open(path, _FOLDER_FLAGS, dir_fd=parent)
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _changed(path) from exc
        raise


def _inode(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino


def _changed(name: str | Path) -> FolderChanged:
    return FolderChanged(f"`{name}` was moved or replaced while denied paths were searched: try again", started=False)


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _hidden_outside(root: Path, denied: DeniedPaths) -> Iterator[Path]:
    """Yield the existing paths that absolute patterns hide, except the working folder and its ancestors."""
    for pattern in denied.hidden:
        path = pattern.rstrip("/").removesuffix("/**")
        if not path.startswith("/"):
            continue
        paths = iglob(path, recursive=True, include_hidden=True) if _GLOB_CHARS & {*path} else [path]
        found = (Path(os.path.realpath(each)) for each in paths)
        yield from (each for each in found if each.exists() and not root.is_relative_to(each))


_PROGRAM_FOLDERS: Final = (
    *("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/games", "/usr/libexec"),
    "/usr/lib/git-core",
)
_NEEDED_PROGRAMS: Final = frozenset({"bash", "prlimit"})
"""Programs without which no command can be started; a rule denies them by their name only."""


def program_masks(names: frozenset[str]) -> tuple[Path, ...]:
    """Return the files of programs, with their other names, so that nothing in a sandbox can run them.

    A file that holds many programs, such as `busybox` where `rm` is a link to it, is masked only by its own name.
    """
    wanted = names - _NEEDED_PROGRAMS
    return _program_files(wanted, tuple(map(_modification_time, _PROGRAM_FOLDERS))) if wanted else ()


@lru_cache(maxsize=64)
def _program_files(wanted: frozenset[str], _changed: tuple[int, ...]) -> tuple[Path, ...]:
    """Return the files to mask; `_changed` makes the cache forget them when a program is installed."""
    files: dict[tuple[int, int], dict[Path, set[str]]] = {}
    for folder in map(Path, _PROGRAM_FOLDERS):
        for entry in _scan(folder):
            try:
                file = Path(entry.path).resolve(strict=True)
                status = file.stat()
            except (OSError, RuntimeError):  # a link that leads nowhere
                continue
            files.setdefault((status.st_dev, status.st_ino), {}).setdefault(file, set()).add(entry.name)
    masked: list[Path] = []
    for paths in files.values():
        own, all_names = {path.name for path in paths}, {name for names in paths.values() for name in names}
        if not wanted.isdisjoint(own) or (not wanted.isdisjoint(all_names) and len(all_names) <= MAX_PROGRAM_NAMES):
            masked += [path for path in paths if path.name not in _NEEDED_PROGRAMS]
    return tuple(masked)


def _modification_time(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


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
