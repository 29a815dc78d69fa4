"""Opening paths beneath a folder without following links.

With `openat2` the kernel itself guarantees that no path leads outside; without it, each folder is opened by its
name, relative to the handle of its parent.
"""

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import Final, TypeAlias

from holdfast.domain.working_path import WORKING_ROOT, WorkingPath
from holdfast.sandbox.system_calls import RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, openat2

Opener: TypeAlias = Callable[[int, str, int], int]
"""Opens a path beneath the folder of a handle, with flags; raises `OSError` for links and paths that lead outside."""

FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def default_opener() -> Opener:
    """Return the `openat2` opener where the kernel has that call, else the walking one."""
    return open_by_openat2 if has_openat2() else open_by_walk


@contextmanager
def open_beneath(opener: Opener, root: int, path: WorkingPath, flags: int) -> Iterator[int]:
    """Open a path for the duration of the block."""
    handle = opener(root, path, flags)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def ensure_folder(opener: Opener, root: int, path: WorkingPath) -> Iterator[int]:
    """Open a folder for the duration of the block; create it and its parents if needed."""
    with ExitStack() as handles:
        try:
            folder = handles.enter_context(open_beneath(opener, root, path, FOLDER_FLAGS))
        except FileNotFoundError:
            folder = root
            for name in path.split("/") if path != WORKING_ROOT else ():
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
                    os.fsync(folder)
                folder = os.open(name, FOLDER_FLAGS | os.O_CLOEXEC, dir_fd=folder)
                handles.callback(os.close, folder)
        yield folder


def open_by_openat2(root: int, path: str, flags: int) -> int:
    """Open `path` beneath `root` without following a link."""
    try:
        return openat2(root, path, flags, resolve=RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)
    except OSError as exc:
        exc.filename = path
        raise


@cache
def has_openat2() -> bool:
    """Return whether `openat2` works: older kernels lack it, and some containers forbid it."""
    if sys.platform != "linux" or os.uname().machine == "alpha":
        return False
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(open_by_openat2(root, ".", os.O_PATH | os.O_DIRECTORY))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


_WALK_FLAGS: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_by_walk(root: int, path: str, flags: int) -> int:
    """Open `path` beneath `root` without following a link."""
    *folders, last = path.split("/")
    if any(part in ("", "..") for part in (*folders, last)):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    with ExitStack() as handles:
        folder = root
        for name in folders:
            folder = os.open(name, _WALK_FLAGS, dir_fd=folder)
            handles.callback(os.close, folder)
        return os.open(last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
