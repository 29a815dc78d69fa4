"""Artifacts and files."""

from typing import Protocol

from holdfast.domain.artifact import Artifact, File, NewArtifact, NewFile
from holdfast.domain.ids import ArtifactId, FileId, RunId, SpaceId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page


class Artifacts(Protocol):
    """The results of runs."""

    async def create(self, space: SpaceId, run: RunId, new: NewArtifact) -> Artifact:
        """Keep a result of `run`; under the id of an earlier one it becomes that one's next version.

        A run of a deleted thread is refused (`ThreadClosed`).
        """

    async def get(self, space: SpaceId, artifact: ArtifactId, *, version: int | None = None) -> Artifact:
        """Return one version with its content, the newest unless told, or raise `NotFound`."""

    async def versions(self, space: SpaceId, artifact: ArtifactId) -> list[Artifact]:
        """Return all versions without their content, the oldest first."""

    async def page(
        self,
        space: SpaceId,
        *,
        run: RunId | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Artifact]:
        """Return artifacts without their content, the newest first, each in every version.

        Without a run, those of deleted threads are left out.
        """


class Files(Protocol):
    """The storage of a space."""

    async def create(self, space: SpaceId, new: NewFile) -> File:
        """Keep bytes under a new id; bytes that the space has already take no more room."""

    async def get(self, space: SpaceId, file: FileId) -> File:
        """Return what is known of the file, or raise `NotFound`."""

    async def content(self, space: SpaceId, file: FileId) -> bytes:
        """Return the bytes."""

    async def page(self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[File]:
        """Return files, the newest first."""

    async def delete(self, space: SpaceId, file: FileId) -> None:
        """Remove the file, and its bytes if no other file has them.

        One that an artifact is made of is refused (`InUse`).
        """
