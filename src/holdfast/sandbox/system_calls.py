"""Linux system calls that Python has no function for: opening beneath a folder, and mounting by handle.

The supervisor imports this module, so it needs only the standard library. The numbers of the calls are the same on
every architecture except Alpha.
"""

import ctypes
import errno
import os
import sys
from typing import Final

RESOLVE_NO_SYMLINKS: Final = 0x04  # includes the magic links in /proc
RESOLVE_BENEATH: Final = 0x08

CLONE_NEWNS: Final = 0x20000
CLONE_NEWUSER: Final = 0x10000000

MOUNT_READ_ONLY: Final = 0x01
MOUNT_NO_SETUID: Final = 0x02
MOUNT_NO_DEVICES: Final = 0x04

_OPEN_TREE: Final = 428
_MOVE_MOUNT: Final = 429
_OPENAT2: Final = 437
_MOUNT_SETATTR: Final = 442

_AT_RECURSIVE: Final = 0x8000
_AT_EMPTY_PATH: Final = 0x1000
_OPEN_TREE_CLONE: Final = 0x1
_MOVE_MOUNT_BOTH_EMPTY_PATHS: Final = 0x4 | 0x40
_MS_PRIVATE: Final = 1 << 18


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


class _MountAttributes(ctypes.Structure):
    _fields_ = [
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    ]


def openat2(root: int, path: str | bytes, flags: int, *, resolve: int) -> int:
    """Open `path` relative to `root`; the kernel keeps to the rules of `resolve` on the whole way."""
    how = _OpenHow(flags=flags | os.O_CLOEXEC, mode=0, resolve=resolve)
    while True:
        try:
            return _call(_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        except InterruptedError:
            continue


def clone_mount(handle: int, *, attributes: int) -> int:
    """Return a private copy of the mounts at and beneath a handle, with added attributes. It is attached nowhere."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | _AT_RECURSIVE
    clone = _call(_OPEN_TREE, handle, b"", ctypes.c_uint(flags))
    how = _MountAttributes(set=attributes, clear=0, propagation=_MS_PRIVATE, user_namespace=0)
    try:
        _call(_MOUNT_SETATTR, clone, b"", ctypes.c_uint(_AT_EMPTY_PATH | _AT_RECURSIVE), ctypes.byref(how), 32)
    except OSError:
        os.close(clone)
        raise
    return clone


def attach_mount(clone: int, target: int) -> None:
    """Attach a copied mount to the file or folder of a handle, whatever its path is by now."""
    _call(_MOVE_MOUNT, clone, b"", target, b"", ctypes.c_uint(_MOVE_MOUNT_BOTH_EMPTY_PATHS))


def unshare(flags: int) -> None:
    """Give this process namespaces of its own."""
    if _libc.unshare(flags) != 0:
        raise _last_error()


def mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int, options: bytes | None = None) -> None:
    """Mount by path."""
    if _libc.mount(source, target, kind, ctypes.c_ulong(flags), options) != 0:
        raise _last_error()


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        raise _last_error()
    return result


def _last_error() -> OSError:
    number = ctypes.get_errno() or errno.EIO
    return OSError(number, os.strerror(number))


if sys.platform == "linux":
    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.syscall.restype = ctypes.c_long
