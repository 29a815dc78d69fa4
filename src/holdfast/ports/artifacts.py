"""Ports of artifacts and files."""

from typing import Protocol

from holdfast.domain.artifact import Artifact, File, NewArtifact, NewFile
from holdfast.domain.ids import ArtifactId, FileId, RunId, SpaceId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page


class Artifacts(Protocol):
    """The results of runs."""

    async def create(self, space: SpaceId, run: RunId, new: NewArtifact) -> Artifact:
        """Store a result of `run`; under the id of an existing artifact it becomes that artifact's next version.

        A run of a deleted thread is refused (`ThreadClosed`).
        """

    async def get(self, space: SpaceId, artifact: ArtifactId, *, version: int | None = None) -> Artifact:
        """Return one version with its content, the latest by default, or raise `NotFound`."""

    async def versions(self, space: SpaceId, artifact: ArtifactId) -> list[Artifact]:
        """Return all versions without their content, oldest first."""

    async def page(
        self,
        space: SpaceId,
        *,
        run: RunId | None = None,
        title: str | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Artifact]:
        """Return every version of the artifacts, without content, newest first; `title` is a part of the title.

        Without a run, artifacts of deleted threads are left out.
        """


class Files(Protocol):
    """The files of a space."""

    async def create(self, space: SpaceId, new: NewFile) -> File:
        """Store bytes under a new id; content that the space holds already is not stored twice."""

    async def get(self, space: SpaceId, file: FileId) -> File:
        """Return the file's metadata, or raise `NotFound`."""

    async def content(self, space: SpaceId, file: FileId) -> bytes:
        """Return the bytes."""

    async def page(self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[File]:
        """Return files, newest first."""

    async def delete(self, space: SpaceId, file: FileId) -> None:
        """Delete the file, and its bytes if no other file shares them.

        A file that an artifact refers to is refused (`InUse`).
        """
