"""Opening beneath a folder by `openat2`: the kernel itself sees to it that nothing outside is reached."""

import ctypes
import errno
import os
import sys
from functools import cache
from typing import Final

_OPENAT2: Final = 437
"""The number of the call, the same wherever Linux runs but on Alpha."""
_NO_SYMLINKS: Final = 0x04  # also none of the magic ones in /proc
_BENEATH: Final = 0x08


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def open_by_openat2(root: int, path: str, flags: int) -> int:
    """Open `path` beneath `root` without following a link."""
    how = _How(flags=flags | os.O_CLOEXEC, mode=0, resolve=_BENEATH | _NO_SYMLINKS)
    while True:
        opened: int = _syscall()(_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if opened >= 0:
            return opened
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), path)


@cache
def has_openat2() -> bool:
    """Say whether there is such a call: older kernels have none, and some containers forbid it."""
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
