"""Working folders of a workspace: access to the files beneath a folder, and to nothing outside it, by open handles.

Symbolic links are never followed. Errors of the system are turned into errors that name the path and the remedy.
"""

import errno
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Final

from holdfast.domain.errors import Conflict, HoldfastError, Invalid, NotFound, TooLarge, Unavailable
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath, is_outside_workspace, parse_working_path, split_path
from holdfast.ports.folders import ScannedEntry
from holdfast.ports.tools import EntryKind, FileSnapshot, FolderEntry, FolderListing
from holdfast.sandbox.safe_open import FOLDER_FLAGS, Opener, default_opener, ensure_folder, open_beneath

TEMPORARY_PREFIX: Final = ".holdfast-write-"
"""Prefix of the names of files that are still being written."""

DISCARDED_PREFIX: Final = ".discarded-"
"""Prefix of the names of folders that are being deleted."""

ASIDE_PREFIX: Final = ".aside-"
"""Prefix of the names of folders that were put aside."""

_log: Final = logging.getLogger("holdfast.workspace")

_READ_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_BYTES: Final = 1024 * 1024

_replace_lock = Lock()
"""Held between the last check of a file and its replacement, so that two threads never replace the same one."""


class OpenFolder:
    """`WorkingFolder` over an open handle."""

    def __init__(self, root: int, *, opener: Opener) -> None:
        self._root = root
        self._opener = opener

    def read(self, path: WorkingPath, *, max_bytes: int) -> FileSnapshot:
        """Return a file."""
        with wrap_os_errors(self._root, path), open_beneath(self._opener, self._root, path, _READ_FLAGS) as handle:
            status = os.fstat(handle)
            check_file(status, path)
            pieces: list[bytes] = []
            remaining = 0 if status.st_size > max_bytes else max_bytes + 1
            while remaining and (piece := os.read(handle, min(remaining, _READ_BYTES))):
                pieces.append(piece)
                remaining -= len(piece)
            content = b"".join(pieces)
            size = max(status.st_size, len(content))
            if size > max_bytes:
                raise TooLarge(f"`{path}` has {size} bytes, and {max_bytes} can be read", path=path)
            return FileSnapshot(content=content, stamp=_stamp(status))

    def list(self, path: WorkingPath, *, max_entries: int) -> FolderListing:
        """Return the entries of a folder."""
        with wrap_os_errors(self._root, path), open_beneath(self._opener, self._root, path, FOLDER_FLAGS) as handle:
            with os.scandir(handle) as scan:
                visible = (entry for entry in scan if not entry.name.startswith(TEMPORARY_PREFIX))
                scanned = [_entry(entry) for entry in islice(visible, max_entries + 1)]
            entries = sorted((entry for entry in scanned if entry is not None), key=lambda entry: entry.name)
            return FolderListing(entries=entries[:max_entries], complete=len(scanned) <= max_entries)

    def write(
        self,
        path: WorkingPath,
        content: bytes,
        *,
        replacing: FileSnapshot | None,
        mark: str,
        before_rename: Callable[[], None],
    ) -> None:
        """Create a file, or replace one."""
        if path == WORKING_ROOT:
            raise Invalid("the working folder is not a file: pass the path of a file in it", path=path)
        folder, name = split_path(path)
        with wrap_os_errors(self._root, path), ensure_folder(self._opener, self._root, folder) as parent:
            # If the earlier attempt is still running somewhere, its rename fails.
            with os.scandir(parent) as scan:
                leftovers = [entry.name for entry in scan if entry.name.startswith(f"{TEMPORARY_PREFIX}{mark}-")]
            for leftover in leftovers:
                with suppress(FileNotFoundError):
                    os.unlink(leftover, dir_fd=parent)
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

    def delete(self, path: WorkingPath, *, expected: FileSnapshot) -> None:
        """Delete a file that is still as it was read."""
        folder, name = split_path(path)
        with wrap_os_errors(self._root, path), open_beneath(self._opener, self._root, folder, FOLDER_FLAGS) as parent:
            with _replace_lock:
                _check_replaceable(_stat(parent, name), path, expected)
                os.unlink(name, dir_fd=parent)
            os.fsync(parent)

    def scan(self, path: WorkingPath) -> Iterator[ScannedEntry]:
        """Yield the entries of a folder."""
        with wrap_os_errors(self._root, path), open_beneath(self._opener, self._root, path, FOLDER_FLAGS) as handle:
            with os.scandir(handle) as scan:
                names = [entry.name for entry in scan if not entry.name.startswith(TEMPORARY_PREFIX)]
            for name in names:
                status = _stat(handle, name)
                if status is None:
                    continue
                kind = _ENTRY_KINDS.get(stat.S_IFMT(status.st_mode), EntryKind.OTHER)
                target = os.readlink(name, dir_fd=handle) if kind is EntryKind.LINK else ""
                executable = kind is EntryKind.FILE and bool(status.st_mode & stat.S_IXUSR)
                yield ScannedEntry(name, kind, status.st_size, executable, _stamp(status), target)

    def content(self, path: WorkingPath, *, max_bytes: int) -> bytes:
        """Return the content of a file."""
        return self.read(path, max_bytes=max_bytes).content

    def put_file(self, path: WorkingPath, content: bytes, *, executable: bool) -> None:
        """Create or replace a file."""
        with self._place(path) as (parent, name):
            temporary = f"{TEMPORARY_PREFIX}restore-{token_hex(8)}"
            with _temporary_file(parent, temporary, content, like=None) as new:
                os.chmod(new, 0o755 if executable else 0o644, dir_fd=parent)
                os.rename(new, name, src_dir_fd=parent, dst_dir_fd=parent)

    def put_link(self, path: WorkingPath, target: str) -> None:
        """Create or replace a link."""
        with self._place(path) as (parent, name):
            os.symlink(target, name, dir_fd=parent)

    def put_folder(self, path: WorkingPath) -> None:
        """Create a folder."""
        with wrap_os_errors(self._root, path), ensure_folder(self._opener, self._root, path):
            pass

    def remove(self, path: WorkingPath) -> None:
        """Remove a path, and the parent folders that are empty then."""
        folder, name = split_path(path)
        with suppress(NotFound, Invalid), wrap_os_errors(self._root, path):
            with open_beneath(self._opener, self._root, folder, FOLDER_FLAGS) as parent:
                _remove(parent, name)
            while folder != WORKING_ROOT:
                folder, name = split_path(folder)
                with open_beneath(self._opener, self._root, folder, FOLDER_FLAGS) as parent:
                    try:
                        os.rmdir(name, dir_fd=parent)
                    except OSError:
                        return

    @contextmanager
    def _place(self, path: WorkingPath) -> Iterator[tuple[int, str]]:
        """Open the folder of a path, whatever had the path before is removed; yield the handle and the name."""
        folder, name = split_path(path)
        with wrap_os_errors(self._root, path), ensure_folder(self._opener, self._root, folder) as parent:
            _remove(parent, name)
            yield parent, name


def _remove(parent: int, name: str) -> None:
    """Remove an entry with everything in it, if it exists. Links are not followed."""
    status = _stat(parent, name)
    if status is None:
        return
    if stat.S_ISDIR(status.st_mode):
        shutil.rmtree(name, dir_fd=parent)
    else:
        os.unlink(name, dir_fd=parent)


@contextmanager
def _temporary_file(parent: int, name: str, content: bytes, *, like: os.stat_result | None) -> Iterator[str]:
    """Yield the name of a file that is synced to disk, and delete it unless it was renamed."""
    handle = os.open(name, _CREATE_FLAGS, 0o666, dir_fd=parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            if like is not None:
                with suppress(PermissionError):  # only root may change the owner of a file
                    os.fchown(handle, like.st_uid, like.st_gid)
                os.fchmod(handle, stat.S_IMODE(like.st_mode) & 0o777)
            os.fsync(handle)
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)


def _check_replaceable(old: os.stat_result | None, path: WorkingPath, expected: FileSnapshot | None) -> None:
    """Raise unless the current file is the expected one and writable."""
    if old is None:
        if expected is not None:
            raise Conflict(f"`{path}` was deleted since it was read: list its folder again", path=path)
        return
    check_file(old, path)
    if expected is None or _stamp(old) != expected.stamp:
        raise Conflict(f"`{path}` has changed since it was read: read it again", path=path)
    if not old.st_mode & 0o222:
        raise Conflict(f"`{path}` is read-only: leave it unchanged, or ask for it to be made writable", path=path)


def _stat(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


_ENTRY_KINDS: Final = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.FOLDER, stat.S_IFLNK: EntryKind.LINK}


def _entry(entry: os.DirEntry[str]) -> FolderEntry | None:
    """Return the entry, or none if it was deleted meanwhile."""
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    kind = _ENTRY_KINDS.get(stat.S_IFMT(status.st_mode), EntryKind.OTHER)
    return FolderEntry(name=entry.name, kind=kind, size=status.st_size)


class WorkspaceFolders:
    """`WorkingFolders` beneath the folder of a workspace, and of others by absolute path.

    A working folder that is a symbolic link, or is behind one, is refused.
    """

    def __init__(self, workspace: Path, *, opener: Opener | None = None) -> None:
        self._workspace = workspace
        self._opener = opener or default_opener()

    @contextmanager
    def open(self, name: str, *, create: bool = True) -> Iterator[OpenFolder]:
        """Open a working folder for the duration of the block; one of the workspace is created if needed."""
        with ExitStack() as handles:
            if not create:
                root = handles.enter_context(self._root(name))
            elif is_outside_workspace(name):
                root = handles.enter_context(self._outside(name))
            else:
                path, top = parse_working_path(name), handles.enter_context(self._top())
                with wrap_os_errors(top, path):
                    root = handles.enter_context(ensure_folder(self._opener, top, path))
            yield OpenFolder(root, opener=self._opener)

    @contextmanager
    def restorable(self, name: str) -> Iterator[OpenFolder]:
        """Open a folder of the workspace to scan and restore it."""
        with self.open(name) as folder:
            yield folder

    def stamp(self, name: str, path: WorkingPath) -> tuple[int, ...] | None:
        """Return the stamp of a file."""
        try:
            return _stamp(os.stat(os.path.join(self._workspace, name, path), follow_symlinks=False))
        except OSError:
            return None

    def reserve(self, name: str, path: WorkingPath) -> bool:
        """Reserve a path by creating an empty folder there; return false if the path exists."""
        folder, last = split_path(path)
        with (
            self._root(name) as root,
            wrap_os_errors(root, path),
            open_beneath(self._opener, root, folder, FOLDER_FLAGS) as parent,
        ):
            try:
                os.mkdir(last, dir_fd=parent)
            except FileExistsError:
                return False
        return True

    def release(self, name: str, path: WorkingPath) -> None:
        """Remove a reserved folder that is still empty."""
        folder, last = split_path(path)
        # An error means that it is in use, or was deleted: either way the reservation is over.
        with (
            suppress(OSError, HoldfastError),
            self._root(name) as root,
            open_beneath(self._opener, root, folder, FOLDER_FLAGS) as parent,
        ):
            os.rmdir(last, dir_fd=parent)

    @contextmanager
    def _root(self, name: str) -> Iterator[int]:
        """Open an existing working folder."""
        if is_outside_workspace(name):
            with self._outside(name) as root:
                yield root
        else:
            path = parse_working_path(name)
            with self._top() as top, wrap_os_errors(top, path):
                handle = self._opener(top, path, FOLDER_FLAGS)
            try:
                yield handle
            finally:
                os.close(handle)

    @contextmanager
    def _outside(self, name: str) -> Iterator[int]:
        """Open a folder by its absolute path, which must be there."""
        top = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            handle = self._opener(top, name.lstrip("/"), FOLDER_FLAGS)
        except FileNotFoundError as exc:
            raise Conflict(f"the working folder `{name}` does not exist: create it") from exc
        except OSError as exc:
            real, reason = os.path.realpath(name), exc.strerror or exc
            if real != name:
                reason = f"it is behind a symbolic link: list and name its real path `{real}`"
            raise Conflict(f"the working folder `{name}` cannot be opened: {reason}") from exc
        finally:
            os.close(top)
        try:
            yield handle
        finally:
            os.close(handle)

    def discard(self, name: str) -> None:
        """Delete a folder with everything in it."""
        self._move_away(
            name,
            DISCARDED_PREFIX,
            lambda parent, moved: shutil.rmtree(moved, dir_fd=parent, onerror=_log_undeleted),
        )

    def put_aside(self, name: str, *, content: str) -> None:
        """Move a folder out of the way, and log where it is."""
        place = split_path(parse_working_path(name))[0]
        message = "`%s` had %s, which are now in `%s`: delete them if nobody needs them"
        self._move_away(name, ASIDE_PREFIX, lambda _, moved: _log.warning(message, name, content, f"{place}/{moved}"))

    def _move_away(self, name: str, prefix: str, then: Callable[[int, str], None]) -> None:
        folder, last = split_path(parse_working_path(name))
        moved = f"{prefix}{token_hex(8)}"
        with (
            self._top() as top,
            suppress(NotFound),
            wrap_os_errors(top, folder),
            open_beneath(self._opener, top, folder, FOLDER_FLAGS) as parent,
        ):
            os.rename(last, moved, src_dir_fd=parent, dst_dir_fd=parent)
            then(parent, moved)

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


def _log_undeleted(function: Callable[..., object], path: str, error: tuple[type, BaseException, object]) -> None:
    _log.warning("`%s` of a discarded working folder cannot be deleted: %s", path, error[1])


_ERRNO_MESSAGES: Final = {
    errno.EISDIR: "is a folder, not a file: list it with `list_dir`",
    errno.EACCES: "is not accessible: permission denied",
    errno.EPERM: "is not accessible: permission denied",
    errno.ENAMETOOLONG: "has a name that is too long for this file system: choose a shorter one",
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
    """Turn an `OSError` into an error that names the path and the remedy."""
    try:
        yield
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Invalid(_describe_obstacle(root, path), path=path) from exc
        if exc.errno == errno.ENOENT:
            raise NotFound(f"there is no `{path}`", path=path) from exc
        if exc.errno in _ERRNO_MESSAGES:
            raise Invalid(f"`{path}` {_ERRNO_MESSAGES[exc.errno]}", path=path) from exc
        raise Unavailable(f"`{path}` cannot be used now: {exc.strerror or exc}", path=path) from exc


def check_file(status: os.stat_result, path: WorkingPath) -> None:
    """Raise unless `status` is of a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise Invalid(f"`{path}` {_ERRNO_MESSAGES[errno.EISDIR]}", path=path)
    if stat.S_ISLNK(status.st_mode):
        raise Invalid(f"`{path}` is a symbolic link, and those are not followed: name another file", path=path)
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise Invalid(f"`{path}` is {kind}, not a file", path=path)


def _describe_obstacle(root: int, path: WorkingPath) -> str:
    """Return which part of `path` is not a folder. Only for a message, so a race with a change does not matter."""
    parts = path.split("/")
    with ExitStack() as handles:
        folder = root
        for index, name in enumerate(parts):
            prefix = "/".join(parts[: index + 1])
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISLNK(status.st_mode):
                    target = os.readlink(name, dir_fd=folder).encode(errors="backslashreplace").decode()
                    return (
                        f"`{prefix}` is a symbolic link to `{target}`, and links are not followed: "
                        "if that is in your working folder, use its own path"
                    )
                folder = os.open(name, FOLDER_FLAGS | os.O_CLOEXEC, dir_fd=folder)
            except OSError:
                return f"`{prefix}` is not a folder"
            handles.callback(os.close, folder)
    return f"`{path}` changed a moment ago: try again"
