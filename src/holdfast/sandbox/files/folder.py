"""A working folder that is open: all that is done in it is done by handles of what was opened beneath it."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from secrets import token_hex
from threading import Lock
from typing import Final

from holdfast.domain.errors import Conflict, Invalid, TooLarge
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath, split_path
from holdfast.ports.tools import EntryKind, FileSnapshot, FolderEntry, FolderListing
from holdfast.sandbox.files.opening import FOLDER, Opener, made, opened
from holdfast.sandbox.files.refusals import check_file, told

HIDDEN: Final = ".holdfast-write-"
"""What the name of a file begins with that is not finished."""

_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE: Final = 1024 * 1024

_moving = Lock()
"""Held between the last look at a file and its replacement, so that no two of us replace the same one."""


class OpenFolder:
    """`WorkingFolder` over a handle."""

    def __init__(self, root: int, *, opener: Opener) -> None:
        self._root = root
        self._opener = opener

    def read(self, path: WorkingPath, *, most: int) -> FileSnapshot:
        """Return a file."""
        with told(self._root, path), opened(self._opener, self._root, path, _FILE) as handle:
            found = os.fstat(handle)
            check_file(found, path)
            content = b"" if found.st_size > most else _content(handle, most=most + 1)
            if max(found.st_size, len(content)) > most:
                size = max(found.st_size, len(content))
                raise TooLarge(f"`{path}` has {size} bytes, and {most} can be read", path=path)
            return FileSnapshot(content=content, stamp=_stamp(found))

    def list(self, path: WorkingPath, *, most: int) -> FolderListing:
        """Return what is in a folder."""
        with told(self._root, path), opened(self._opener, self._root, path, FOLDER) as handle:
            with os.scandir(handle) as scan:
                visible = (entry for entry in scan if not entry.name.startswith(HIDDEN))
                found = [_entry(entry) for entry in islice(visible, most + 1)]
            entries = sorted((entry for entry in found if entry is not None), key=lambda entry: entry.name)
            return FolderListing(entries=entries[:most], complete=len(found) <= most)

    def write(
        self,
        path: WorkingPath,
        content: bytes,
        *,
        instead_of: FileSnapshot | None,
        mark: str,
        before: Callable[[], None],
    ) -> None:
        """Make a file, or replace one."""
        if path == WORKING_ROOT:
            raise Invalid("the working folder is no file: name a file in it", path=path)
        folder, name = split_path(path)
        with told(self._root, path), made(self._opener, self._root, folder) as parent:
            _sweep(parent, f"{HIDDEN}{mark}-")
            old = _look(parent, name)
            _check_old(old, path, instead_of)
            with _filled(parent, f"{HIDDEN}{mark}-{token_hex(8)}", content, like=old) as new, _moving:
                _check_old(_look(parent, name), path, instead_of)
                before()
                os.rename(new, name, src_dir_fd=parent, dst_dir_fd=parent)
            os.fsync(parent)


def _content(handle: int, *, most: int) -> bytes:
    pieces: list[bytes] = []
    left = most
    while left and (piece := os.read(handle, min(left, _PIECE))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _sweep(parent: int, prefix: str) -> None:
    """Take away what an earlier try left behind; if it is still at work somewhere, it comes to nothing."""
    with os.scandir(parent) as scan:
        left = [entry.name for entry in scan if entry.name.startswith(prefix)]
    for name in left:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)


@contextmanager
def _filled(parent: int, name: str, content: bytes, *, like: os.stat_result | None) -> Iterator[str]:
    """Yield the name of a file that is on disk, and take it away unless it was moved."""
    handle = os.open(name, _NEW, 0o666, dir_fd=parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            if like is not None:
                with suppress(PermissionError):  # only root may give a file to somebody else
                    os.fchown(handle, like.st_uid, like.st_gid)
                os.fchmod(handle, stat.S_IMODE(like.st_mode) & 0o777)
            os.fsync(handle)
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)


def _check_old(old: os.stat_result | None, path: WorkingPath, expected: FileSnapshot | None) -> None:
    """Raise unless what is there now may be replaced."""
    if old is None:
        if expected is not None:
            raise Conflict(f"`{path}` is gone since it was looked at: look again", path=path)
        return
    check_file(old, path)
    if expected is None or _stamp(old) != expected.stamp:
        raise Conflict(f"`{path}` has changed since it was looked at: read it again", path=path)
    if not old.st_mode & 0o222:
        raise Conflict(f"`{path}` is read-only: leave it as it is, or ask for it to be made writable", path=path)


def _look(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _entry(entry: os.DirEntry[str]) -> FolderEntry | None:
    """Return what there is to know, or nothing if it is gone."""
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return FolderEntry(name=entry.name, kind=_kind(found.st_mode), size=found.st_size)


def _kind(mode: int) -> EntryKind:
    kinds = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.FOLDER, stat.S_IFLNK: EntryKind.LINK}
    return kinds.get(stat.S_IFMT(mode), EntryKind.OTHER)
