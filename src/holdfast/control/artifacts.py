"""Artifacts of runs and files of a space: create them, and read artifacts across versions and runs."""

from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.artifact import Artifact, File, NewArtifact, NewFile
from holdfast.domain.ids import ArtifactId, RunId, SpaceId, ThreadId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.ports.artifacts import Artifacts, Files
from holdfast.ports.runs import RunFilter, Runs, Threads

MAX_RUNS_PER_PAGE: Final = 50


class ArtifactDetail(Artifact, frozen=True, kw_only=True):
    """One version of an artifact with its content, and all its versions without content, oldest first."""

    versions: list[Artifact]


class ArtifactControl:
    """Commands and queries for artifacts and files."""

    def __init__(
        self, *, artifacts: Artifacts, files: Files, threads: Threads, runs: Runs, principal: str | None = None
    ) -> None:
        """Record `principal` as the author of new artifacts and files."""
        self._artifacts = artifacts
        self._files = files
        self._threads = threads
        self._runs = runs
        self._principal = principal

    async def create(self, space: SpaceId, run: RunId, new: NewArtifact) -> Artifact:
        """Create an artifact of a run, or the next version of an existing one."""
        return await self._artifacts.create(space, run, replace(new, created_by=self._principal))

    async def create_file(self, space: SpaceId, new: NewFile) -> File:
        """Store a file."""
        return await self._files.create(space, replace(new, created_by=self._principal))

    async def get(self, space: SpaceId, artifact: ArtifactId, *, version: int | None = None) -> ArtifactDetail:
        """Return one version of an artifact, by default the newest."""
        found = await self._artifacts.get(space, artifact, version=version)
        versions = await self._artifacts.versions(space, artifact)
        return ArtifactDetail(**msgspec.structs.asdict(found), versions=versions)

    async def of_thread(
        self, space: SpaceId, thread: ThreadId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[Artifact]:
        """Return the artifacts of a thread by run, newest run first; one page reads at most `MAX_RUNS_PER_PAGE` runs.

        The cursor is the last run that was read completely, and the position within the run after it.
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
