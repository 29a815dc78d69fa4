"""Artifacts of runs and files of a space: create, list and read them."""

from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.artifact import Artifact, File, NewArtifact, NewFile
from holdfast.domain.ids import ArtifactId, FileId, RunId, SpaceId, ThreadId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.ports.artifacts import Artifacts, Files
from holdfast.ports.runs import RunFilter, Runs, Threads

MAX_RUNS_PER_PAGE: Final = 50


class ArtifactDetail(Artifact, frozen=True, kw_only=True):
    """One version of an artifact with its content, and all its versions without theirs, the oldest first."""

    versions: list[Artifact]


class ArtifactControl:
    """What can be done with the results of runs."""

    def __init__(self, *, artifacts: Artifacts, threads: Threads, runs: Runs, by: str | None = None) -> None:
        self._by = by
        self._artifacts = artifacts
        self._threads = threads
        self._runs = runs

    async def create(self, space: SpaceId, run: RunId, new: NewArtifact) -> Artifact:
        """Keep a result of a run, or the next version of one."""
        return await self._artifacts.create(space, run, replace(new, created_by=self._by))

    async def get(self, space: SpaceId, artifact: ArtifactId, *, version: int | None = None) -> ArtifactDetail:
        """Return one version, the newest unless told."""
        found = await self._artifacts.get(space, artifact, version=version)
        versions = await self._artifacts.versions(space, artifact)
        return ArtifactDetail(**msgspec.structs.asdict(found), versions=versions)

    async def page(
        self, space: SpaceId, *, run: RunId | None = None, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[Artifact]:
        """Return artifacts without their content, the newest first."""
        return await self._artifacts.page(space, run=run, limit=limit, cursor=cursor)

    async def of_thread(
        self, space: SpaceId, thread: ThreadId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[Artifact]:
        """Return the artifacts of a thread by run, the newest run first; a page looks at so many runs and no more.

        The cursor is the last run that was looked at to its end, and how far the one after it is shown.
        """
        await self._threads.get(space, thread)
        after, _, within = (cursor or "").partition(".")
        runs = await self._runs.page(
            space, where=RunFilter(thread_id=thread), limit=MAX_RUNS_PER_PAGE, cursor=after or None
        )
        items: list[Artifact] = []
        for run in runs.items:
            page = await self._artifacts.page(space, run=run.id, limit=limit - len(items), cursor=within or None)
            items += page.items
            if page.next_cursor is not None:
                return Page(items=items, next_cursor=f"{after}.{page.next_cursor}")
            after, within = run.id, ""
            if len(items) == limit:
                break
        more = bool(runs.items) and (after != runs.items[-1].id or runs.next_cursor is not None)
        return Page(items=items, next_cursor=after if more else None)


class FileControl:
    """What can be done with the files of a space."""

    def __init__(self, files: Files, *, by: str | None = None) -> None:
        self._files = files
        self._by = by

    async def create(self, space: SpaceId, new: NewFile) -> File:
        """Keep bytes under a name."""
        return await self._files.create(space, replace(new, created_by=self._by))

    async def get(self, space: SpaceId, file: FileId) -> File:
        """Return what is known of a file."""
        return await self._files.get(space, file)

    async def content(self, space: SpaceId, file: FileId) -> tuple[File, bytes]:
        """Return a file with its bytes."""
        return await self._files.get(space, file), await self._files.content(space, file)

    async def page(self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[File]:
        """Return files, the newest first."""
        return await self._files.page(space, limit=limit, cursor=cursor)

    async def delete(self, space: SpaceId, file: FileId) -> None:
        """Remove a file."""
        await self._files.delete(space, file)
