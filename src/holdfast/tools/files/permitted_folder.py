"""The working folder of an agent without the paths that its rules deny, so that no search gets around them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.domain.errors import Invalid
from holdfast.domain.working_path import WorkingPath, child_path
from holdfast.ports.tools import FileSnapshot, FolderListing, WorkingFolder, WorkingFolders
from holdfast.tools.permissions.policy import DeniedPaths, denied_paths
from holdfast.tools.tool import ToolContext


@contextmanager
def permitted_folder(folders: WorkingFolders, call: ToolContext) -> Iterator[WorkingFolder]:
    """Yield the working folder of the agent that calls, as far as it may use it."""
    denied = denied_paths(call.agent, call.values)
    with folders.open(call.agent.working_folder) as folder:
        yield folder if denied == DeniedPaths() else PermittedFolder(folder, denied)


class PermittedFolder:
    """`WorkingFolder` in which denied files are not shown, and refused to whoever names them."""

    def __init__(self, folder: WorkingFolder, denied: DeniedPaths) -> None:
        self._folder = folder
        self._denied = denied

    def read(self, path: WorkingPath, *, max_bytes: int) -> FileSnapshot:
        """Return a file that may be read."""
        if self._denied.is_hidden(path):
            raise Invalid(f"the rules deny `{path}` to be read: go on without it", path=path)
        return self._folder.read(path, max_bytes=max_bytes)

    def list(self, path: WorkingPath, *, max_entries: int) -> FolderListing:
        """Return what is in a folder and may be read."""
        found = self._folder.list(path, max_entries=max_entries)
        shown = [entry for entry in found.entries if not self._denied.is_hidden(child_path(path, entry.name))]
        return FolderListing(entries=shown, complete=found.complete)

    def write(
        self,
        path: WorkingPath,
        content: bytes,
        *,
        replacing: FileSnapshot | None,
        mark: str,
        before_rename: Callable[[], None],
    ) -> None:
        """Write a file that may be written."""
        if self._denied.is_read_only(path):
            raise Invalid(f"the rules deny `{path}` to be written: go on without it", path=path)
        self._folder.write(path, content, replacing=replacing, mark=mark, before_rename=before_rename)
