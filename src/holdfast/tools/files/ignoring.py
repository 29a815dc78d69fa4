"""What the `.gitignore` files of a folder leave out, as git understands them."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import re2  # type: ignore[import-untyped]  # it ships no types

from holdfast.domain.errors import HoldfastError
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath, child_path
from holdfast.ports.tools import WorkingFolder

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE: Final = ".gitignore"
ALWAYS: Final = frozenset({".git"})
"""Never looked into: it is for git alone."""
MAX_IGNORE: Final = 256 * 1024
"""Bytes."""

_AT_ONCE: Final = 200
"""Patterns that are matched together: RE2 refuses sets that are too large."""


class Ignored(NamedTuple):
    """What some lines of a file leave out, beneath its folder."""

    folder: WorkingPath
    spec: "GitIgnoreSpec"


def ignored_in(folder: WorkingFolder, path: WorkingPath) -> list[Ignored]:
    """Return what the file of a folder leaves out; one that cannot be read leaves out nothing."""
    try:
        lines = folder.read(child_path(path, IGNORE), most=MAX_IGNORE).content.decode(errors="replace").splitlines()
    except HoldfastError:
        return []
    parts = (lines[first : first + _AT_ONCE] for first in range(0, len(lines), _AT_ONCE))
    return [Ignored(path, spec) for part in parts for spec in _specs(part)]


def is_ignored(path: WorkingPath, rules: Sequence[Ignored], *, folder: bool) -> bool:
    """Say whether something is left out: the file that is nearest to it and says something about it decides."""
    for rule in reversed(rules):
        name = path if rule.folder == WORKING_ROOT else path.removeprefix(f"{rule.folder}/")
        said = rule.spec.check_file(f"{name}/" if folder else name).include
        if said is not None:
            return said
    return False


def _specs(lines: Sequence[str]) -> list["GitIgnoreSpec"]:
    """Return what the lines say, in order, without those that nobody can understand."""
    from pathspec import GitIgnoreSpec  # it takes a while to import, and few need it

    try:
        # RE2, because a pattern of somebody else must not be able to hang us.
        return [GitIgnoreSpec.from_lines(lines, backend="re2")]
    except (ValueError, re.error, re2.error):
        middle = len(lines) // 2
        return [*_specs(lines[:middle]), *_specs(lines[middle:])] if middle else []
