"""Ports that tools use: working folders, web search, and trust in the tools of others.

Working folders block, so they are for threads. Whatever a path says, nothing outside the folder is opened, created or
changed.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol

import msgspec

from holdfast.domain.ids import SpaceId
from holdfast.domain.working_path import WorkingPath


class EntryKind(StrEnum):
    """What something in a folder is."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    """A symbolic link, which is never followed."""
    OTHER = "other"


class FolderEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a folder. A name that is not UTF-8 has half surrogates in it, and cannot be opened."""

    name: str
    kind: EntryKind
    size: int


class FolderListing(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a folder, by name."""

    entries: Sequence[FolderEntry]
    complete: bool
    """Whether that is all."""


class FileSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was when it was read."""

    content: bytes
    stamp: tuple[int, ...]
    """Which file, and in which state: another one after each change."""


class WorkingFolder(Protocol):
    """A working folder that is open.

    A path that goes through a symbolic link, or ends at one, is `Invalid`, and so is anything but a file where a file
    is wanted: nothing waits for a pipe. What does not exist raises `NotFound`, and what the system cannot do now
    `Unavailable`.
    """

    def read(self, path: WorkingPath, *, max_bytes: int) -> FileSnapshot:
        """Return a file, or raise `TooLarge` if it has more bytes than `most`."""

    def list(self, path: WorkingPath, *, max_entries: int) -> FolderListing:
        """Return what is in a folder, but no more than `most` entries."""

    def write(
        self,
        path: WorkingPath,
        content: bytes,
        *,
        replacing: FileSnapshot | None,
        mark: str,
        before_rename: Callable[[], None],
    ) -> None:
        """Make a file, with the folders on the way to it, or put it in the place of the one that was read.

        Others see the old file or the new one, and after a crash there is one or the other, on disk. A new file in the
        place of an old one may be read and run by the same people. `before` is called when nothing but the last move
        is left; if it raises, nothing was done. What a crash leaves behind is hidden, and the next write to that folder
        under the same `mark` takes it away.

        Raises:
            Conflict: there is another file now than `instead_of`, or one where there was none; or nobody may write it.

        """


class WorkingFolders(Protocol):
    """The working folders of a workspace, by name."""

    def open(self, name: str) -> AbstractContextManager[WorkingFolder]:
        """Open a folder for a while; whoever is first makes it. The name is relative to the workspace."""

    def reserve(self, name: str, path: WorkingPath) -> bool:
        """Take a path of a folder that nothing is at, by an empty folder; say whether there is one now that was not.

        Raises:
            Invalid: the way to it goes through a link, or through what is no folder.
            NotFound: the way to it is not there.

        """

    def release(self, name: str, path: WorkingPath) -> None:
        """Take such a folder away again, unless somebody has put something into it by now."""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """One result. All of it is the words of others."""

    title: str
    url: str
    snippet: str = ""


class WebSearch(Protocol):
    """Searches the web."""

    async def search(self, query: str, *, limit: int) -> list[SearchResult]:
        """Return up to `limit` results, the best first; none if nothing fits.

        An engine that cannot be reached, or answers with something else, raises `Unavailable`.
        """


class ToolTrust(Protocol):
    """Trust on first use: what a tool says of itself is trusted when it is first seen, and never again unasked."""

    async def trusted(self, space: SpaceId, source: str, digests: Mapping[str, str]) -> dict[str, str]:
        """Return the digest that is trusted of each tool of a source; one never seen before is trusted as it is now.

        `digests` are those of the tools as they are now, by name. Two who see a tool first at once agree on one.
        """

    async def trust(self, space: SpaceId, source: str, tool: str, digest: str) -> None:
        """Trust a tool as it is now, and no longer as it was."""
