"""Ports that tools use: working folders, web search, and trust in third-party tools.

Working folders block, so call them in threads. No path, whatever it contains, opens, creates or changes anything
outside the folder.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol

import msgspec

from holdfast.domain.ids import SpaceId
from holdfast.domain.working_path import WorkingPath


class EntryKind(StrEnum):
    """The kind of a folder entry."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    """A symbolic link, which is never followed."""
    OTHER = "other"


class FolderEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a folder. A name that is not UTF-8 contains lone surrogates, and cannot be opened."""

    name: str
    kind: EntryKind
    size: int


class FolderListing(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of a folder, by name."""

    entries: Sequence[FolderEntry]
    complete: bool
    """Whether these are all entries."""


class FileSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was when it was read."""

    content: bytes
    stamp: tuple[int, ...]
    """Identity and version of the file: differs after each change."""


class WorkingFolder(Protocol):
    """An open working folder.

    A path that contains or ends at a symbolic link is `Invalid`; so is anything but a regular file where a file is
    expected, so that no call blocks on a pipe. A missing path raises `NotFound`; an operation that the system cannot
    perform now raises `Unavailable`.
    """

    def read(self, path: WorkingPath, *, max_bytes: int) -> FileSnapshot:
        """Return a file, or raise `TooLarge` if it has more than `max_bytes`."""

    def list(self, path: WorkingPath, *, max_entries: int) -> FolderListing:
        """Return the entries of a folder, at most `max_entries`."""

    def write(
        self,
        path: WorkingPath,
        content: bytes,
        *,
        replacing: FileSnapshot | None,
        mark: str,
        before_rename: Callable[[], None],
    ) -> None:
        """Create a file with its parent folders, or replace the file that was read as `replacing`.

        The write is atomic: others see the old file or the new one, and after a crash one of them is on disk. The new
        file keeps the read and execute permissions of the one it replaces. `before_rename` is called when only the
        final rename is left; if it raises, nothing has changed. Temporary files that a crash leaves behind are hidden,
        and the next write to that folder with the same `mark` removes them.

        Raises:
            Conflict: the file is not `replacing` any more, or exists although none was expected; or it is read-only.

        """

    def delete(self, path: WorkingPath, *, expected: FileSnapshot) -> None:
        """Delete the file that was read as `expected`.

        Raises:
            Conflict: the file is not `expected` any more, or it is read-only.

        """


class WorkingFolders(Protocol):
    """The working folders of a workspace, by name."""

    def open(self, name: str, *, create: bool = True) -> AbstractContextManager[WorkingFolder]:
        """Open a folder. A name is relative to the workspace, and created if needed, or an absolute path, and not.

        Raises:
            NotFound: a folder of the workspace does not exist, and `create` is false.
            Invalid: a folder of the workspace is a link.
            Conflict: a folder by absolute path does not exist, or is behind a link.

        """

    def stamp(self, name: str, path: WorkingPath) -> tuple[int, ...] | None:
        """Return the stamp that a snapshot of a file would have; null if it cannot be read. It opens nothing."""

    def reserve(self, name: str, path: WorkingPath) -> bool:
        """Reserve an unused path in a folder by creating an empty folder there; return whether it was created.

        Raises:
            Invalid: a parent of the path is a link, or not a folder.
            NotFound: a parent of the path does not exist.

        """

    def release(self, name: str, path: WorkingPath) -> None:
        """Remove a reserved folder, unless it is no longer empty."""

    def discard(self, name: str) -> None:
        """Delete a folder with everything in it, if it exists. What cannot be deleted is out of reach under that name.

        Raises:
            Unavailable: the folder cannot even be moved away.

        """

    def put_aside(self, name: str, *, content: str) -> None:
        """Move a folder with everything in it away, if it exists, out of reach; the log names its `content`.

        Raises:
            Unavailable: the folder cannot be moved.

        """


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """A search result. All of its text is untrusted."""

    title: str
    url: str
    snippet: str = ""


class WebSearch(Protocol):
    """Searches the web."""

    async def search(self, query: str, *, limit: int) -> list[SearchResult]:
        """Return up to `limit` results, best first; empty if nothing matches.

        An engine that cannot be reached, or returns an unexpected response, raises `Unavailable`.
        """


class ToolTrust(Protocol):
    """Trust on first use: a tool definition is trusted when first seen; a changed one needs an explicit `trust`."""

    async def trusted(self, space: SpaceId, source: str, digests: Mapping[str, str]) -> dict[str, str]:
        """Return the trusted digest of each tool of a source; a tool never seen before is trusted as it is now.

        `digests` are the tools' current digests, by name. Concurrent first calls for a tool agree on one digest.
        """

    async def trust(self, space: SpaceId, source: str, tool: str, digest: str) -> None:
        """Trust `digest` as the tool's definition, in place of the earlier one."""
