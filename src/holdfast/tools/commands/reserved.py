"""Paths that the rules deny to be written and where nothing is yet: a sandbox can only mount on what is there.

While a command runs, an empty folder stands at each that a rule names in full, and cannot be changed from inside. Those
on the way to it are made as well, and all of them are taken away again if nobody has put anything into them.
"""

from collections import Counter
from collections.abc import Sequence
from threading import Lock
from typing import Final

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.working_path import WorkingPath, parse_working_path
from holdfast.ports.tools import WorkingFolders
from holdfast.tools.permissions.denied import DeniedPaths

_PATTERN: Final = frozenset("*?[")


class Reserved:
    """The paths that commands of this process reserve; what several reserve is there until the last one has ended."""

    def __init__(self, folders: WorkingFolders) -> None:
        self._folders = folders
        self._held: Counter[tuple[str, WorkingPath]] = Counter()
        self._changing = Lock()

    def hold(self, name: str, paths: Sequence[WorkingPath], held: list[WorkingPath]) -> None:
        """Reserve paths of a working folder, and note in `held` which are to be released."""
        with self._changing:
            for path in paths:
                try:
                    self._take(name, path, held)
                except (Invalid, NotFound):
                    continue  # what a link or a file is in the way of is nothing that the rule is about

    def release(self, name: str, held: Sequence[WorkingPath]) -> None:
        """Let go of paths, the deepest first."""
        with self._changing:
            for path in reversed(held):
                self._held[name, path] -= 1
                if self._held[name, path] == 0:
                    del self._held[name, path]
                    self._folders.release(name, path)

    def _take(self, name: str, path: WorkingPath, held: list[WorkingPath]) -> None:
        parts = path.split("/")
        for length in range(1, len(parts) + 1):
            part = WorkingPath("/".join(parts[:length]))
            if self._held[name, part] or self._folders.reserve(name, part):
                self._held[name, part] += 1
                held.append(part)


def to_reserve(denied: DeniedPaths) -> list[WorkingPath]:
    """Return the paths of a working folder that rules name in full and deny to be written."""
    plain = [pattern.rstrip("/").removesuffix("/**") for pattern in denied.kept if _is_of_one_place(pattern)]
    return [parse_working_path(path) for path in dict.fromkeys(plain) if _PATTERN.isdisjoint(path)]


def _is_of_one_place(pattern: str) -> bool:
    """Say whether it begins at the working folder: one without a slash fits at any depth."""
    return "/" in pattern.rstrip("/") and not pattern.startswith("/")
