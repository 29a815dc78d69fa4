"""Files by a glob for their paths."""

from collections.abc import Iterator
from typing import Final

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath, child_path, parse_working_path
from holdfast.ports.tools import WorkingFolder
from holdfast.tools.files.patterns import glob
from holdfast.tools.files.walking import Walk

_SPECIAL: Final = frozenset("*?[]{}\\")


def found_files(folder: WorkingFolder, walk: Walk, pattern: str, *, start: WorkingPath) -> Iterator[WorkingPath]:
    """Yield the files whose paths, relative to `start`, fit a pattern, in the order of their names."""
    fits = glob(_relative(pattern))
    cut = 0 if start == WORKING_ROOT else len(start) + 1
    nearest = _nearest(pattern, start)
    try:
        for path in walk.files(nearest):
            if fits.fullmatch(path[cut:]) is not None:
                yield path
    except NotFound:
        if nearest == start:
            raise
        folder.list(start, most=1)  # it may be what is missing; otherwise nothing fits


def _relative(pattern: str) -> str:
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise Invalid(f"`{pattern}` must be relative to `path`, and may not have `..` in it", field="pattern")
    return "/".join(part for part in pattern.split("/") if part != ".")


def _nearest(pattern: str, start: WorkingPath) -> WorkingPath:
    """Return the innermost folder that has all that fits: the parts without anything special name it."""
    *folders, _ = _relative(pattern).split("/")
    at = start
    for name in folders:
        if not name or _SPECIAL.intersection(name):
            break
        at = child_path(at, name)
    return parse_working_path(at)
