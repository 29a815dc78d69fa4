"""Private mounts: the folders of a command, mounted by handle before bubblewrap starts.

Other processes may rename files of a working folder at any time, so a path that was checked may lead elsewhere when it
is mounted. Therefore no such path is given to bubblewrap, neither as a source nor as a destination:

    1  the process gets a mount namespace of its own, and an empty stage there that no other process sees
    2  each folder is opened without following links, and a copy of its mount is attached to the stage
    3  each masked path is opened beneath the copy, and its mask is attached to that handle
    4  bubblewrap binds the finished trees of the stage, with all masks, by names that nobody can rename

A mount stays on the file that it was attached to, whatever is renamed later. A path that is gone, has become a link or
is another file than the one that was found fails the start.

The supervisor imports this module, so it needs only the standard library.
"""

import errno
import os
import stat
from collections.abc import Sequence
from typing import Final, NamedTuple

from holdfast.sandbox.system_calls import (
    CLONE_NEWNS,
    CLONE_NEWUSER,
    MOUNT_NO_DEVICES,
    MOUNT_NO_SETUID,
    MOUNT_READ_ONLY,
    RESOLVE_BENEATH,
    RESOLVE_NO_SYMLINKS,
    attach_mount,
    clone_mount,
    mount,
    openat2,
    unshare,
)

STAGE: Final = "/sys"
"""Where the stage is mounted: a folder that every Linux has and that bubblewrap does not need."""
STAGE_OPTIONS: Final = b"mode=0755,size=1m"

WRITABLE: Final = "writable"
READABLE: Final = "readable"
"""Read-only, and left out if it does not exist or a link leads to it."""
LINKED: Final = "linked"
"""Like `readable`, but links are followed: only for a path that no agent can write."""
READ_ONLY: Final = "read_only"
HIDDEN: Final = "hidden"
PINNED: Final = "pinned"
"""Unchanged, but it can be neither moved nor removed from inside."""

_FOLDERS: Final = (WRITABLE, READABLE, LINKED)
_OPTIONAL: Final = (READABLE, LINKED)
_ATTRIBUTES: Final = MOUNT_NO_SETUID | MOUNT_NO_DEVICES
_NO_LINKS: Final = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS
_EMPTY_FOLDER: Final = f"{STAGE}/folder"
_EMPTY_FILE: Final = f"{STAGE}/file"
_MS_SLAVE: Final = 1 << 19
_MS_REC: Final = 1 << 14
_MS_NOSUID_NODEV: Final = 2 | 4


class PrivateMount(NamedTuple):
    """A path to mount for a command: a tree of its own, or a part of an earlier tree that contains it."""

    kind: str
    path: str
    inode: tuple[int, int] = (0, 0)
    """Device and number of the file that must be there; zeros: any."""

    def encode(self) -> str:
        """Return the text for a start request."""
        return f"{self.kind} {self.inode[0]} {self.inode[1]} {self.path}"

    @classmethod
    def decode(cls, text: bytes) -> "PrivateMount":
        """Read a text of `encode`."""
        kind, device, number, path = text.split(b" ", 3)
        return cls(kind.decode(), os.fsdecode(path), (int(device), int(number)))


def trees(mounts: Sequence[PrivateMount]) -> dict[int, str]:
    """Return the paths of the mounts that begin a tree, by their indexes: no earlier one contains them."""
    found: dict[int, str] = {}
    for index, each in enumerate(mounts):
        if not any(is_beneath(each.path, path) for path in found.values()):
            found[index] = each.path
    return found


def is_beneath(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or beneath it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def staged_path(index: int) -> str:
    """Return the path on the stage of the tree that the mount with this index begins."""
    return f"{STAGE}/{index}"


def enter_namespace() -> None:
    """Enter a mount namespace of its own, and for that a user namespace where it is needed."""
    user, group = os.geteuid(), os.getegid()
    try:
        unshare(CLONE_NEWNS)
    except PermissionError:
        unshare(CLONE_NEWUSER | CLONE_NEWNS)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            file = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
            os.write(file, text.encode())
            os.close(file)
    mount(None, b"/", None, _MS_REC | _MS_SLAVE)


def attach_mounts(mounts: Sequence[PrivateMount]) -> None:
    """Attach every mount, parents first; raise `OSError` if a path is not what it was, or a call is missing."""
    stage = _Stage(trees(mounts))
    sources = {
        index: stage.open_source(each)
        for index, each in enumerate(mounts)
        if index in stage.trees or each.kind in _FOLDERS
    }
    stage.mount()  # after that, the sources beneath its place cannot be opened
    for index, each in enumerate(mounts):
        if index in stage.trees:
            stage.add_tree(index, each, sources[index])
        else:
            stage.add_part(each, sources.get(index))


class _Stage:
    """The private folder with the trees of a command. Its handles are closed when bubblewrap is executed."""

    def __init__(self, trees: dict[int, str]) -> None:
        self.trees = trees
        self._roots: dict[str, int] = {}
        self._top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def open_source(self, mount: PrivateMount) -> int | None:
        """Open the path of a mount; none for an optional one that is not there."""
        try:
            if mount.kind == LINKED:
                return os.open(mount.path, os.O_PATH | os.O_CLOEXEC)
            return openat2(self._top, mount.path.lstrip("/") or ".", os.O_PATH, resolve=_NO_LINKS)
        except OSError as exc:
            if mount.kind in _OPTIONAL and exc.errno != errno.ENOSYS:
                return None
            raise

    def mount(self) -> None:
        """Mount the empty stage, with the masks of folders and files."""
        mount(b"tmpfs", STAGE.encode(), b"tmpfs", _MS_NOSUID_NODEV, STAGE_OPTIONS)
        os.mkdir(_EMPTY_FOLDER, 0o555)
        os.close(os.open(_EMPTY_FILE, os.O_CREAT | os.O_CLOEXEC, 0))
        self._masks = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in (_EMPTY_FOLDER, _EMPTY_FILE)}

    def add_tree(self, index: int, mount: PrivateMount, source: int | None) -> None:
        """Attach a folder or a file to a place of its own on the stage."""
        if source is None:
            return
        place = staged_path(index)
        if _is_folder(source):
            os.mkdir(place)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_CLOEXEC))
        _check_inode(source, mount.inode)
        target = os.open(place, os.O_PATH | os.O_CLOEXEC)
        self._attach(mount.kind, source, target)
        os.close(target)
        self._roots[mount.path] = os.open(place, os.O_PATH | os.O_CLOEXEC)  # the root of the mount by now

    def add_part(self, mount: PrivateMount, source: int | None) -> None:
        """Attach a mount to its path in the tree that contains it."""
        tree = next((path for path in self._roots if is_beneath(mount.path, path)), None)
        if tree is None:
            if mount.kind == WRITABLE:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            return  # the tree is optional and not there, so nothing of it is visible
        if source is None and mount.kind in _FOLDERS:
            return
        relative = mount.path[len(tree) :].lstrip("/") or "."
        target = openat2(self._roots[tree], relative, os.O_PATH, resolve=_NO_LINKS)
        _check_inode(target, mount.inode if source is None else _inode(source))
        self._attach(mount.kind, target if source is None else source, target)
        os.close(target)

    def _attach(self, kind: str, source: int, target: int) -> None:
        """Attach a copy of `source`, or the mask that hides it, to `target`."""
        read_only = 0 if kind in (WRITABLE, PINNED) else MOUNT_READ_ONLY
        if kind == HIDDEN:
            source = self._masks[_EMPTY_FOLDER if _is_folder(source) else _EMPTY_FILE]
        clone = clone_mount(source, attributes=_ATTRIBUTES | read_only)
        try:
            attach_mount(clone, target)
        finally:
            os.close(clone)


def _is_folder(handle: int) -> bool:
    return stat.S_ISDIR(os.fstat(handle).st_mode)


def _inode(handle: int) -> tuple[int, int]:
    status = os.fstat(handle)
    return status.st_dev, status.st_ino


def _check_inode(handle: int, expected: tuple[int, int]) -> None:
    if expected != (0, 0) and _inode(handle) != expected:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
