"""How a path beneath a folder is opened, or the folders on the way to it made, however it is done."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, TypeAlias

from holdfast.domain.working_path import WORKING_ROOT, WorkingPath
from holdfast.sandbox.files.openat2 import has_openat2, open_by_openat2
from holdfast.sandbox.files.walk import open_by_walk

Opener: TypeAlias = Callable[[int, str, int], int]
"""Opens a path beneath the folder of a handle, with flags; what would lead out, and any link, is an `OSError`."""

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def best_opener() -> Opener:
    """Return the one that the kernel answers for, if there is one."""
    return open_by_openat2 if has_openat2() else open_by_walk


@contextmanager
def opened(opener: Opener, root: int, path: WorkingPath, flags: int) -> Iterator[int]:
    """Yield a handle, which is closed afterwards."""
    handle = opener(root, path, flags)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def made(opener: Opener, root: int, path: WorkingPath) -> Iterator[int]:
    """Yield the handle of a folder, which is made if it is not there, with those on the way to it."""
    with ExitStack() as held:
        try:
            at = held.enter_context(opened(opener, root, path, FOLDER))
        except FileNotFoundError:
            at = root
            for name in path.split("/") if path != WORKING_ROOT else ():
                at = held.enter_context(_stepped(at, name))
        yield at


@contextmanager
def _stepped(parent: int, name: str) -> Iterator[int]:
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        pass
    else:
        os.fsync(parent)
    handle = os.open(name, FOLDER | os.O_CLOEXEC, dir_fd=parent)
    try:
        yield handle
    finally:
        os.close(handle)
