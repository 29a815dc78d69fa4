"""What the rules deny of a working folder, as the paths that are there now: a sandbox takes paths, not patterns."""

import os
from collections.abc import Iterator
from glob import iglob
from pathlib import Path
from typing import Final

import msgspec

from holdfast.domain.errors import Invalid
from holdfast.tools.files.threads import Halt
from holdfast.tools.permissions.denied import DeniedPaths

MAX_ENTRIES: Final = 100_000
MAX_MASKED: Final = 1_000

_PATTERN: Final = frozenset("*?[")


class Masked(msgspec.Struct, frozen=True, kw_only=True):
    """Absolute paths that may not be read, and that may not be written."""

    hidden: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()


def masked(root: Path, denied: DeniedPaths, halt: Halt) -> Masked:
    """Return what of a folder, and of the machine, is denied. A link is not: what it leads to is looked at itself."""
    if denied == DeniedPaths():
        return Masked()
    hidden: list[Path] = list(_outside(root, denied))
    kept: list[Path] = []
    for path, name in _entries(root, denied, halt):
        (hidden if denied.hides(name) else kept).append(path)
        if len(hidden) + len(kept) > MAX_MASKED:
            raise Invalid(f"the rules deny more than {MAX_MASKED} files, too many to hide from a command: deny folders")
    return Masked(hidden=tuple(hidden), kept=tuple(kept))


def _entries(root: Path, denied: DeniedPaths, halt: Halt) -> Iterator[tuple[Path, str]]:
    """Yield what is denied, from the top; beneath what is hidden there is nothing to look for."""
    if denied.hides(".") or denied.keeps("."):
        yield root, "."
    seen = 0
    waiting = [] if denied.hides(".") else [(root, "", denied.keeps("."))]
    while waiting and not halt.is_set():
        folder, prefix, is_kept = waiting.pop()
        for entry in _scan(folder):
            seen += 1
            if seen > MAX_ENTRIES:
                raise Invalid(
                    f"the working folder has more than {MAX_ENTRIES} entries, too many to look for what the rules "
                    "deny: work in a smaller one"
                )
            name = f"{prefix}{entry.name}"
            if entry.is_symlink():
                continue
            hides, keeps = denied.hides(name), not is_kept and denied.keeps(name)
            if hides or keeps:
                yield Path(entry.path), name
            if not hides and entry.is_dir(follow_symlinks=False):
                waiting.append((Path(entry.path), f"{name}/", is_kept or keeps))


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):  # it is gone by now
        return []


def _outside(root: Path, denied: DeniedPaths) -> Iterator[Path]:
    """Yield what is hidden of the machine. The working folder itself is named by relative paths only."""
    for pattern in denied.hidden:
        plain = pattern.rstrip("/").removesuffix("/**")
        if not plain.startswith("/"):
            continue
        found = iglob(plain, recursive=True, include_hidden=True) if _PATTERN & {*plain} else [plain]
        yield from (path for path in map(Path, found) if path.exists() and not root.is_relative_to(path))
