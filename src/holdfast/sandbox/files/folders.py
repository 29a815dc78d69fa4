"""The working folders of a workspace."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from holdfast.domain.errors import Unavailable
from holdfast.domain.working_path import WorkingPath, child_path, parse_working_path, split_path
from holdfast.sandbox.files.folder import OpenFolder
from holdfast.sandbox.files.opening import FOLDER, Opener, best_opener, made, opened
from holdfast.sandbox.files.refusals import told


class WorkspaceFolders:
    """`WorkingFolders` beneath the folder of a workspace. A working folder that is a link is refused like any other."""

    def __init__(self, workspace: Path, *, opener: Opener | None = None) -> None:
        self._workspace = workspace
        self._opener = opener or best_opener()

    @contextmanager
    def open(self, name: str) -> Iterator[OpenFolder]:
        """Open a folder for a while."""
        path = parse_working_path(name)
        with ExitStack() as held:
            top = held.enter_context(self._top())
            with told(top, path):
                root = held.enter_context(made(self._opener, top, path))
            yield OpenFolder(root, opener=self._opener)

    def reserve(self, name: str, path: WorkingPath) -> bool:
        """Take a path by an empty folder."""
        place, last = split_path(child_path(parse_working_path(name), path))
        with self._top() as top, told(top, path), opened(self._opener, top, place, FOLDER) as parent:
            try:
                os.mkdir(last, dir_fd=parent)
            except FileExistsError:
                return False
        return True

    def release(self, name: str, path: WorkingPath) -> None:
        """Take it away again."""
        place, last = split_path(child_path(parse_working_path(name), path))
        # It is in use, or gone: either way it is not ours any more.
        with self._top() as top, suppress(OSError), opened(self._opener, top, place, FOLDER) as parent:
            os.rmdir(last, dir_fd=parent)

    @contextmanager
    def _top(self) -> Iterator[int]:
        try:
            top = os.open(self._workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as exc:
            raise Unavailable(f"the workspace cannot be opened: {exc.strerror or exc}") from exc
        try:
            yield top
        finally:
            os.close(top)
