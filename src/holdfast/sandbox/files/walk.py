"""Opening beneath a folder step by step, where there is no `openat2`: each folder is opened by its name in the last."""

import errno
import os
from contextlib import ExitStack
from typing import Final

_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_by_walk(root: int, path: str, flags: int) -> int:
    """Open `path` beneath `root` without following a link."""
    *folders, last = path.split("/")
    if any(part in ("", "..") for part in (*folders, last)):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    with ExitStack() as held:
        at = root
        for name in folders:
            at = os.open(name, _STEP, dir_fd=at)
            held.callback(os.close, at)
        return os.open(last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
