"""How what is denied in a working folder is mounted: something empty over what is hidden, read-only what is kept.

What is mounted on cannot be moved or removed from inside. The folders on the way to it are mounted on themselves for
that reason: renamed, they would lead to it by a path that no rule is about.
"""

from collections.abc import Iterator
from pathlib import Path

from holdfast.ports.sandbox import SandboxCommand


def masks(command: SandboxCommand) -> Iterator[str]:
    """Yield the arguments of bubblewrap that mount the root of a command, without what it may not reach."""
    hidden, kept = set(command.hidden), set(command.kept)
    inside = {path for path in hidden | kept if path.is_relative_to(command.root)}
    pinned = {folder for path in inside for folder in path.parents if folder.is_relative_to(command.root)}
    # From the top down: what is mounted later covers what was mounted below it before.
    for path in sorted({command.root, *pinned, *hidden, *kept}, key=lambda path: (len(path.parts), path)):
        if not _beneath(path, hidden):
            yield from _mount(path, hidden=path in hidden, kept=path in kept or _beneath(path, kept))


def _beneath(path: Path, others: set[Path]) -> bool:
    return any(parent in others for parent in path.parents)


def _mount(path: Path, *, hidden: bool, kept: bool) -> Iterator[str]:
    if hidden and path.is_dir():
        yield from ("--tmpfs", str(path), "--remount-ro", str(path))
    elif hidden:
        yield from ("--ro-bind", "/dev/null", str(path))
    else:
        yield from ("--ro-bind" if kept else "--bind", str(path), str(path))
