"""What the system refuses to do with a path, in words for whoever named it."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from holdfast.domain.errors import HoldfastError, Invalid, NotFound, Unavailable
from holdfast.domain.working_path import WorkingPath

_FIXED: Final = {
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
def told(root: int, path: WorkingPath) -> Iterator[None]:
    """Turn what the system refuses into an error that says so."""
    try:
        yield
    except OSError as exc:
        raise _refusal(exc, root, path) from exc


def check_file(found: os.stat_result, path: WorkingPath) -> None:
    """Raise unless that is a file."""
    if stat.S_ISDIR(found.st_mode):
        raise Invalid(f"`{path}` {_FIXED[errno.EISDIR]}", path=path)
    if stat.S_ISLNK(found.st_mode):
        raise Invalid(f"`{path}` is a symbolic link, and those are not followed: name another file", path=path)
    if not stat.S_ISREG(found.st_mode):
        raise Invalid(f"`{path}` is {_KINDS.get(stat.S_IFMT(found.st_mode), 'something else')}, not a file", path=path)


def _refusal(error: OSError, root: int, path: WorkingPath) -> HoldfastError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return Invalid(_blame(root, path), path=path)
    if error.errno == errno.ENOENT:
        return NotFound(f"there is no `{path}`", path=path)
    if error.errno in _FIXED:
        return Invalid(f"`{path}` {_FIXED[error.errno]}", path=path)
    return Unavailable(f"`{path}` cannot be used now: {error.strerror or error}", path=path)


def _blame(root: int, path: WorkingPath) -> str:
    """Return what on the way to `path` is no folder; it is only told, so it does not matter what changes meanwhile."""
    parts = path.split("/")
    with ExitStack() as held:
        at = root
        for index, name in enumerate(parts):
            here = "/".join(parts[: index + 1])
            try:
                found = os.stat(name, dir_fd=at, follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    return _about_link(here, os.readlink(name, dir_fd=at))
                at = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            except OSError:
                return f"`{here}` is not a folder"
            held.callback(os.close, at)
    return f"`{path}` is not what it was a moment ago: try again"


def _about_link(path: str, target: str) -> str:
    shown = target.encode(errors="backslashreplace").decode()
    return (
        f"`{path}` is a symbolic link to `{shown}`, and links are not followed: "
        "if that is in your working folder, name it by its own path"
    )
