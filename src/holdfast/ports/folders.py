"""Ports of working folders that move between workers: their snapshots, and a folder that can be restored."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from holdfast.domain.commit import Lease
from holdfast.domain.folder_snapshot import FolderChanges, FolderState, SavedFolder
from holdfast.domain.working_path import WorkingPath
from holdfast.ports.tools import EntryKind, WorkingFolder, WorkingFolders


class FolderSnapshots(Protocol):
    """Snapshots of the working folders of a space, under the lease of a run that uses the folder.

    A lost lease raises `LeaseLost`; a folder that is not the run's raises `Conflict`. `place` names the disk of a
    worker, and stays the same when its process is replaced.
    """

    async def open(self, lease: Lease, folder: str, *, place: str, version: int) -> FolderState:
        """Note that `place`, which has `version`, uses the folder now, and return its state.

        For the next seconds, queued runs of the thread are left to the worker that holds this lease.
        """

    async def stage(self, lease: Lease, digests: Sequence[str]) -> list[str]:
        """Hold contents of the space for the next `save` of this run, and return the digests of those it lacks."""

    async def upload(self, lease: Lease, contents: Sequence[bytes]) -> None:
        """Store contents for the next `save` of this run, each once in the space."""

    async def save(
        self, lease: Lease, folder: str, changes: FolderChanges, *, place: str, in_use: bool = False
    ) -> SavedFolder:
        """Apply changes in one transaction; contents must be staged or uploaded (`Conflict`).

        `in_use` says that more changes may follow, so that the folder counts as not saved.

        What others saved since the base stays: a file that they changed too is kept in both versions, and one that they
        changed is not removed. Raises `Invalid` or `TooLarge`, and changes nothing, if the result is no folder within
        the limits.
        """

    async def download(self, lease: Lease, folder: str, digests: Sequence[str]) -> list[bytes]:
        """Return contents of the folder's files, in that order, or raise `NotFound`."""


class ScannedEntry(NamedTuple):
    """An entry of a folder on disk. `stamp` differs after each change, `target` is that of a link."""

    name: str
    kind: EntryKind
    size: int
    executable: bool
    stamp: tuple[int, ...]
    target: str = ""


class RestorableFolder(WorkingFolder, Protocol):
    """An open folder that is scanned and restored. No path leads outside, and no link is followed."""

    def scan(self, path: WorkingPath) -> Iterator[ScannedEntry]:
        """Yield the entries of a folder."""

    def content(self, path: WorkingPath, *, max_bytes: int) -> bytes:
        """Return the content of a file, or raise `TooLarge`."""

    def put_file(self, path: WorkingPath, content: bytes, *, executable: bool) -> None:
        """Create or replace a file, with its parent folders; whatever else has its path is removed."""

    def put_link(self, path: WorkingPath, target: str) -> None:
        """Create or replace a link, with its parent folders."""

    def put_folder(self, path: WorkingPath) -> None:
        """Create a folder, with its parent folders."""

    def remove(self, path: WorkingPath) -> None:
        """Remove a path with everything in it, if it exists, and the parent folders that are empty then."""


class RestorableFolders(WorkingFolders, Protocol):
    """The working folders of a worker."""

    def restorable(self, name: str) -> AbstractContextManager[RestorableFolder]:
        """Open a folder of the workspace, and create it if needed."""
