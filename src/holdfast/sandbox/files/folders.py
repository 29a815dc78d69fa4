"""The working folders of a workspace."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from holdfast.domain.errors import Unavailable
from holdfast.domain.working_path import working_path
from holdfast.sandbox.files.folder import OpenFolder
from holdfast.sandbox.files.opening import Opener, best_opener, made
from holdfast.sandbox.files.refusals import told


class WorkspaceFolders:
    """`WorkingFolders` beneath the folder of a workspace. A working folder that is a link is refused like any other."""

    def __init__(self, workspace: Path, *, opener: Opener | None = None) -> None:
        self._workspace = workspace
        self._opener = opener or best_opener()

    @contextmanager
    def open(self, name: str) -> Iterator[OpenFolder]:
        """Open a folder for a while."""
        path = working_path(name)
        top = self._top()
        with ExitStack() as held:
            held.callback(os.close, top)
            with told(top, path):
                root = held.enter_context(made(self._opener, top, path))
            yield OpenFolder(root, opener=self._opener)

    def _top(self) -> int:
        try:
            return os.open(self._workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as exc:
            raise Unavailable(f"the workspace cannot be opened: {exc.strerror or exc}") from exc
