"""Artifacts of runs and files of a space: create them, and read artifacts across versions and runs."""

from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.artifact import Artifact, File, NewArtifact, NewFile
from holdfast.domain.idempotency import KeyedRequest, KeyedResult
from holdfast.domain.ids import ArtifactId, RunId, SpaceId, ThreadId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.ports.artifacts import Artifacts
from holdfast.ports.requests import KeyedRequests, RequestPorts
from holdfast.ports.runs import RunFilter, Runs, Threads

MAX_RUNS_PER_PAGE: Final = 50


class ArtifactDetail(Artifact, frozen=True, kw_only=True):
    """One version of an artifact with its content, and all its versions without content, oldest first."""

    versions: list[Artifact]


class _ArtifactVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a request for an artifact; its content stays in one place, and is deleted with its run."""

    id: ArtifactId
    version: int


class ArtifactControl:
    """Commands and queries for artifacts and files."""

    def __init__(
        self,
        *,
        artifacts: Artifacts,
        threads: Threads,
        runs: Runs,
        requests: KeyedRequests,
        principal: str | None = None,
    ) -> None:
        """Record `principal` as the author of new artifacts and files."""
        self._artifacts = artifacts
        self._requests = requests
        self._threads = threads
        self._runs = runs
        self._principal = principal

    async def create(
        self, space: SpaceId, run: RunId, new: NewArtifact, *, request: KeyedRequest | None = None
    ) -> KeyedResult[Artifact]:
        """Create an artifact of a run, or the next version of an existing one."""

        async def create(ports: RequestPorts) -> _ArtifactVersion:
            made = await ports.artifacts.create(space, run, replace(new, created_by=self._principal))
            return _ArtifactVersion(id=made.id, version=made.version)

        made = await self._requests.once(space, request, kind=_ArtifactVersion, create=create)
        artifact = await self._artifacts.get(space, made.value.id, version=made.value.version)
        return KeyedResult(value=artifact, replayed=made.replayed)

    async def create_file(
        self, space: SpaceId, new: NewFile, *, request: KeyedRequest | None = None
    ) -> KeyedResult[File]:
        """Store a file."""
        file = replace(new, created_by=self._principal)
        return await self._requests.once(
            space, request, kind=File, create=lambda ports: ports.files.create(space, file)
        )

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
