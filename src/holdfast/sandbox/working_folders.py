"""Working folders of a workspace: files beneath a folder and nothing outside it, through open handles.

A link is never followed. An error of the system becomes one that names the path and the remedy.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Final

from holdfast.domain.errors import Conflict, HoldfastError, Invalid, NotFound, TooLarge, Unavailable
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath, child_path, parse_working_path, split_path
from holdfast.ports.tools import EntryKind, FileSnapshot, FolderEntry, FolderListing
from holdfast.sandbox.safe_open import FOLDER_FLAGS, Opener, default_opener, ensure_folder, open_beneath

TEMPORARY_PREFIX: Final = ".holdfast-write-"
"""What the name of a file begins with that is not finished."""

_READ_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_BYTES: Final = 1024 * 1024

_replace_lock = Lock()
"""Held between the last look at a file and its replacement, so that no two of us replace the same one."""


class OpenFolder:
    """`WorkingFolder` over a handle."""

    def __init__(self, root: int, *, opener: Opener) -> None:
        self._root = root
        self._opener = opener

    def read(self, path: WorkingPath, *, max_bytes: int) -> FileSnapshot:
        """Return a file."""
        with wrap_os_errors(self._root, path), open_beneath(self._opener, self._root, path, _READ_FLAGS) as handle:
            found = os.fstat(handle)
            check_file(found, path)
            content = b"" if found.st_size > max_bytes else _content(handle, most=max_bytes + 1)
            if max(found.st_size, len(content)) > max_bytes:
                size = max(found.st_size, len(content))
                raise TooLarge(f"`{path}` has {size} bytes, and {max_bytes} can be read", path=path)
            return FileSnapshot(content=content, stamp=_stamp(found))

    def list(self, path: WorkingPath, *, max_entries: int) -> FolderListing:
        """Return what is in a folder."""
        with wrap_os_errors(self._root, path), open_beneath(self._opener, self._root, path, FOLDER_FLAGS) as handle:
            with os.scandir(handle) as scan:
                visible = (entry for entry in scan if not entry.name.startswith(TEMPORARY_PREFIX))
                found = [_entry(entry) for entry in islice(visible, max_entries + 1)]
            entries = sorted((entry for entry in found if entry is not None), key=lambda entry: entry.name)
            return FolderListing(entries=entries[:max_entries], complete=len(found) <= max_entries)

    def write(
        self,
        path: WorkingPath,
        content: bytes,
        *,
        replacing: FileSnapshot | None,
        mark: str,
        before_rename: Callable[[], None],
    ) -> None:
        """Make a file, or replace one."""
        if path == WORKING_ROOT:
            raise Invalid("the working folder is no file: name a file in it", path=path)
        folder, name = split_path(path)
        with wrap_os_errors(self._root, path), ensure_folder(self._opener, self._root, folder) as parent:
            _remove_leftovers(parent, f"{TEMPORARY_PREFIX}{mark}-")
            old = _stat(parent, name)
            _check_replaceable(old, path, replacing)
            with (
                _temporary_file(parent, f"{TEMPORARY_PREFIX}{mark}-{token_hex(8)}", content, like=old) as new,
                _replace_lock,
            ):
                _check_replaceable(_stat(parent, name), path, replacing)
                before_rename()
                os.rename(new, name, src_dir_fd=parent, dst_dir_fd=parent)
            os.fsync(parent)


def _content(handle: int, *, most: int) -> bytes:
    pieces: list[bytes] = []
    left = most
    while left and (piece := os.read(handle, min(left, _READ_BYTES))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _remove_leftovers(parent: int, prefix: str) -> None:
    """Take away what an earlier try left behind; if it is still at work somewhere, it comes to nothing."""
    with os.scandir(parent) as scan:
        left = [entry.name for entry in scan if entry.name.startswith(prefix)]
    for name in left:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)


@contextmanager
def _temporary_file(parent: int, name: str, content: bytes, *, like: os.stat_result | None) -> Iterator[str]:
    """Yield the name of a file that is on disk, and take it away unless it was moved."""
    handle = os.open(name, _CREATE_FLAGS, 0o666, dir_fd=parent)
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


def _check_replaceable(old: os.stat_result | None, path: WorkingPath, expected: FileSnapshot | None) -> None:
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


def _stat(parent: int, name: str) -> os.stat_result | None:
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


class WorkspaceFolders:
    """`WorkingFolders` beneath the folder of a workspace. A working folder that is a link is refused like any other."""

    def __init__(self, workspace: Path, *, opener: Opener | None = None) -> None:
        self._workspace = workspace
        self._opener = opener or default_opener()

    @contextmanager
    def open(self, name: str) -> Iterator[OpenFolder]:
        """Open a folder for a while."""
        path = parse_working_path(name)
        with ExitStack() as held:
            top = held.enter_context(self._top())
            with wrap_os_errors(top, path):
                root = held.enter_context(ensure_folder(self._opener, top, path))
            yield OpenFolder(root, opener=self._opener)

    def reserve(self, name: str, path: WorkingPath) -> bool:
        """Take a path by an empty folder."""
        place, last = split_path(child_path(parse_working_path(name), path))
        with (
            self._top() as top,
            wrap_os_errors(top, path),
            open_beneath(self._opener, top, place, FOLDER_FLAGS) as parent,
        ):
            try:
                os.mkdir(last, dir_fd=parent)
            except FileExistsError:
                return False
        return True

    def release(self, name: str, path: WorkingPath) -> None:
        """Take it away again."""
        place, last = split_path(child_path(parse_working_path(name), path))
        # It is in use, or gone: either way it is not ours any more.
        with self._top() as top, suppress(OSError), open_beneath(self._opener, top, place, FOLDER_FLAGS) as parent:
            os.rmdir(last, dir_fd=parent)

    @contextmanager
    def _top(self) -> Iterator[int]:
        try:
            top = os.open(self._workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as exc:
            raise Unavailable(f"the workspace cannot be opened: {exc.strerror or exc}") from exc
        try:
            yield top
        finally:
            os.close(top)


_ERRNO_MESSAGES: Final = {
    errno.EISDIR: "is a folder, not a file: look into it with `list_dir`",
    errno.EACCES: "may not be used: the system denies it",
    errno.EPERM: "may not be used: the system denies it",
    errno.ENAMETOOLONG: "has a name that is too long here: choose a shorter one",
    errno.ENXIO: "is neither a file nor a folder",
    errno.EXDEV: "leads out of the working folder",
}
_KINDS: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def wrap_os_errors(root: int, path: WorkingPath) -> Iterator[None]:
    """Turn what the system refuses into an error that says so."""
    try:
        yield
    except OSError as exc:
        raise _to_error(exc, root, path) from exc


def check_file(found: os.stat_result, path: WorkingPath) -> None:
    """Raise unless that is a file."""
    if stat.S_ISDIR(found.st_mode):
        raise Invalid(f"`{path}` {_ERRNO_MESSAGES[errno.EISDIR]}", path=path)
    if stat.S_ISLNK(found.st_mode):
        raise Invalid(f"`{path}` is a symbolic link, and those are not followed: name another file", path=path)
    if not stat.S_ISREG(found.st_mode):
        raise Invalid(f"`{path}` is {_KINDS.get(stat.S_IFMT(found.st_mode), 'something else')}, not a file", path=path)


def _to_error(error: OSError, root: int, path: WorkingPath) -> HoldfastError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return Invalid(_describe_obstacle(root, path), path=path)
    if error.errno == errno.ENOENT:
        return NotFound(f"there is no `{path}`", path=path)
    if error.errno in _ERRNO_MESSAGES:
        return Invalid(f"`{path}` {_ERRNO_MESSAGES[error.errno]}", path=path)
    return Unavailable(f"`{path}` cannot be used now: {error.strerror or error}", path=path)


def _describe_obstacle(root: int, path: WorkingPath) -> str:
    """Return what on the way to `path` is no folder; it is only told, so it does not matter what changes meanwhile."""
    parts = path.split("/")
    with ExitStack() as held:
        at = root
        for index, name in enumerate(parts):
            here = "/".join(parts[: index + 1])
            try:
                found = os.stat(name, dir_fd=at, follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    return _link_message(here, os.readlink(name, dir_fd=at))
                at = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            except OSError:
                return f"`{here}` is not a folder"
            held.callback(os.close, at)
    return f"`{path}` is not what it was a moment ago: try again"


def _link_message(path: str, target: str) -> str:
    shown = target.encode(errors="backslashreplace").decode()
    return (
        f"`{path}` is a symbolic link to `{shown}`, and links are not followed: "
        "if that is in your working folder, name it by its own path"
    )
