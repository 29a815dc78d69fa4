"""Artifacts."""

from typing import Annotated

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, QueryParameter

from holdfast.api.bodies import ArtifactBody
from holdfast.api.parameters import Cursor, Limit, anywhere
from holdfast.control.artifacts import ArtifactControl, ArtifactDetail
from holdfast.domain.artifact import MAX_ARTIFACT_CHARS, Artifact
from holdfast.domain.ids import ArtifactId, RunId, SpaceId, ThreadId
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import DEFAULT_SPACE

_TAGS = ["artifacts"]

VersionNumber = Annotated[
    int | None, QueryParameter(ge=1, le=MAX_SAFE_INTEGER, description="Which version; the newest, unless given.")
]


@get(anywhere("/artifacts"), summary="List the artifacts of a space", tags=_TAGS)
async def list_artifacts(
    artifacts: NamedDependency[ArtifactControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Artifact]:
    """Return artifacts in all their versions, without content, the newest first."""
    return await artifacts.page(space_id, limit=limit, cursor=cursor)


@get(anywhere("/artifacts/{artifact_id:str}"), summary="Read an artifact", tags=_TAGS)
async def read_artifact(
    artifacts: NamedDependency[ArtifactControl],
    artifact_id: FromPath[ArtifactId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    version: VersionNumber = None,
) -> ArtifactDetail:
    """Return one version with its content, and all versions without theirs."""
    return await artifacts.get(space_id, artifact_id, version=version)


@get(anywhere("/runs/{run_id:str}/artifacts"), summary="List the artifacts of a run", tags=_TAGS)
async def list_run_artifacts(
    artifacts: NamedDependency[ArtifactControl],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Artifact]:
    """Return what a run made, without content, the newest first."""
    return await artifacts.page(space_id, run=run_id, limit=limit, cursor=cursor)


@post(
    anywhere("/runs/{run_id:str}/artifacts"),
    summary="Keep an artifact of a run",
    tags=_TAGS,
    request_max_body_size=2 * MAX_ARTIFACT_CHARS,
)
async def create_artifact(
    artifacts: NamedDependency[ArtifactControl],
    run_id: FromPath[RunId],
    data: JSONBody[ArtifactBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Artifact:
    """Keep a result of a run; under the id of an earlier one it becomes its next version."""
    return await artifacts.create(space_id, run_id, data.new_artifact())


@get(anywhere("/threads/{thread_id:str}/artifacts"), summary="List the artifacts of a thread", tags=_TAGS)
async def list_thread_artifacts(
    artifacts: NamedDependency[ArtifactControl],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Artifact]:
    """Return what the runs of a thread made, without content, by run, the newest run first.

    A page may have fewer items than asked for and still be followed by another.
    """
    return await artifacts.of_thread(space_id, thread_id, limit=limit, cursor=cursor)


ROUTES = [list_artifacts, read_artifact, list_run_artifacts, create_artifact, list_thread_artifacts]
