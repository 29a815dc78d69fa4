"""The working folder of an agent without the paths that its rules deny, so that a search cannot bypass them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.domain.errors import Invalid
from holdfast.domain.working_path import WorkingPath, child_path
from holdfast.ports.tools import FileSnapshot, FolderListing, WorkingFolder, WorkingFolders
from holdfast.tools.permissions.policy import DeniedPaths, denied_paths
from holdfast.tools.tool import ToolContext


@contextmanager
def permitted_folder(folders: WorkingFolders, call: ToolContext) -> Iterator[WorkingFolder]:
    """Yield the working folder of the calling agent, without denied paths."""
    name = call.working_folder
    denied = denied_paths(call.agent, call.values, folder=name)
    with folders.open(name) as folder:
        yield folder if denied == DeniedPaths() else PermittedFolder(folder, denied)


class PermittedFolder:
    """`WorkingFolder` that hides denied files and refuses to read or write them."""

    def __init__(self, folder: WorkingFolder, denied: DeniedPaths) -> None:
        self._folder = folder
        self._denied = denied

    def read(self, path: WorkingPath, *, max_bytes: int) -> FileSnapshot:
        """Return a file, or raise `Invalid` if it may not be read."""
        if self._denied.is_hidden(path):
            raise Invalid(f"the rules do not allow `{path}` to be read: go on without it", path=path)
        return self._folder.read(path, max_bytes=max_bytes)

    def list(self, path: WorkingPath, *, max_entries: int) -> FolderListing:
        """Return the entries of a folder that may be read."""
        listing = self._folder.list(path, max_entries=max_entries)
        shown = [entry for entry in listing.entries if not self._denied.is_hidden(child_path(path, entry.name))]
        return FolderListing(entries=shown, complete=listing.complete)

    def write(
        self,
        path: WorkingPath,
        content: bytes,
        *,
        replacing: FileSnapshot | None,
        mark: str,
        before_rename: Callable[[], None],
    ) -> None:
        """Write a file, or raise `Invalid` if it may not be written."""
        if self._denied.is_read_only(path):
            raise Invalid(f"the rules do not allow `{path}` to be written: go on without it", path=path)
        self._folder.write(path, content, replacing=replacing, mark=mark, before_rename=before_rename)

    def delete(self, path: WorkingPath, *, expected: FileSnapshot) -> None:
        """Delete a file, or raise `Invalid` if it may not be written."""
        if self._denied.is_read_only(path):
            raise Invalid(f"the rules do not allow `{path}` to be deleted: go on without it", path=path)
        self._folder.delete(path, expected=expected)
