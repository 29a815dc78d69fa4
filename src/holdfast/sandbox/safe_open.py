"""Opening paths beneath a folder without following links.

With `openat2` the kernel itself guarantees that no path leads outside; without it, each folder is opened by its
name, relative to the handle of its parent.
"""

import ctypes
import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import Final, TypeAlias

from holdfast.domain.working_path import WORKING_ROOT, WorkingPath

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


_OPENAT2_CALL: Final = 437
"""The system call number, the same on every architecture except Alpha."""
_RESOLVE_NO_SYMLINKS: Final = 0x04  # includes the magic links in /proc
_RESOLVE_BENEATH: Final = 0x08


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def open_by_openat2(root: int, path: str, flags: int) -> int:
    """Open `path` beneath `root` without following a link."""
    how = _OpenHow(flags=flags | os.O_CLOEXEC, mode=0, resolve=_RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS)
    while True:
        handle: int = _syscall()(_OPENAT2_CALL, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if handle >= 0:
            return handle
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), path)


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


@cache
def _syscall() -> "ctypes._NamedFuncPointer":
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    call.restype = ctypes.c_long
    return call


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
