"""Routes for artifacts and uploaded files."""

from typing import Annotated, Any
from urllib.parse import quote

from litestar import Request, Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, QueryParameter

from holdfast.api.bodies import ArtifactBody
from holdfast.api.errors import UnsupportedMediaType
from holdfast.api.parameters import Cursor, Limit, space_paths
from holdfast.control.artifacts import ArtifactControl, ArtifactDetail, FileControl
from holdfast.domain.artifact import MAX_ARTIFACT_CHARS, MAX_FILE_BYTES, Artifact, File, NewFile
from holdfast.domain.ids import ArtifactId, FileId, RunId, SpaceId, ThreadId
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import DEFAULT_SPACE

_TAGS = ["artifacts"]

VersionNumber = Annotated[
    int | None, QueryParameter(ge=1, le=MAX_SAFE_INTEGER, description="Which version; the newest, unless given.")
]


@get(space_paths("/artifacts"), summary="List the artifacts of a space", tags=_TAGS)
async def list_artifacts(
    artifacts: NamedDependency[ArtifactControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Artifact]:
    """Return artifacts in all their versions, without content, the newest first."""
    return await artifacts.page(space_id, limit=limit, cursor=cursor)


@get(space_paths("/artifacts/{artifact_id:str}"), summary="Read an artifact", tags=_TAGS)
async def read_artifact(
    artifacts: NamedDependency[ArtifactControl],
    artifact_id: FromPath[ArtifactId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    version: VersionNumber = None,
) -> ArtifactDetail:
    """Return one version with its content, and all versions without theirs."""
    return await artifacts.get(space_id, artifact_id, version=version)


@get(space_paths("/runs/{run_id:str}/artifacts"), summary="List the artifacts of a run", tags=_TAGS)
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
    space_paths("/runs/{run_id:str}/artifacts"),
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


@get(space_paths("/threads/{thread_id:str}/artifacts"), summary="List the artifacts of a thread", tags=_TAGS)
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

_FILE_TAGS = ["files"]
_ONE_FILE = space_paths("/files/{file_id:str}")
_OCTET_STREAM = "application/octet-stream"

FileName = Annotated[str, QueryParameter(min_length=1, max_length=500, description="What the file is called.")]


@post(
    space_paths("/files"),
    summary="Upload a file",
    tags=_FILE_TAGS,
    request_max_body_size=MAX_FILE_BYTES,
    opt={"body": {"*/*": bytes}},
)
async def upload_file(
    files: NamedDependency[FileControl],
    request: Request[Any, Any, Any],
    name: FileName,
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> File:
    """Keep the body as a file; its `Content-Type` is the file's. A form is refused: send the bytes themselves."""
    kind = request.headers.get("content-type") or _OCTET_STREAM
    if kind.startswith("multipart/"):
        raise UnsupportedMediaType("send the bytes of the file as the body, not a form", content_type=kind)
    return await files.create(space_id, NewFile(name=name, content=await request.body(), media_type=kind))


@get(space_paths("/files"), summary="List files", tags=_FILE_TAGS)
async def list_files(
    files: NamedDependency[FileControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[File]:
    """Return the files of a space, the newest first."""
    return await files.page(space_id, limit=limit, cursor=cursor)


@get(_ONE_FILE, summary="Read what is known of a file", tags=_FILE_TAGS)
async def read_file(
    files: NamedDependency[FileControl], file_id: FromPath[FileId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> File:
    """Return the name, the size, the type and the digest of a file."""
    return await files.get(space_id, file_id)


@get(
    space_paths("/files/{file_id:str}/content"),
    summary="Download a file",
    tags=_FILE_TAGS,
    opt={"content": {"*/*": bytes}},
)
async def read_file_content(
    files: NamedDependency[FileControl], file_id: FromPath[FileId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Response[bytes]:
    """Return the bytes of a file, to be saved: a browser shows none of them as a page of this server."""
    file, content = await files.content(space_id, file_id)
    headers = {
        "Content-Type": _header_value(file.media_type),
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "ETag": f'"{file.digest}"',
    }
    return Response(content, headers=headers)


@delete(_ONE_FILE, summary="Delete a file", tags=_FILE_TAGS)
async def delete_file(
    files: NamedDependency[FileControl], file_id: FromPath[FileId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> None:
    """Remove a file. One that an artifact is made of is refused."""
    await files.delete(space_id, file_id)


def _header_value(media_type: str) -> str:
    return media_type if media_type.isascii() and media_type.isprintable() else _OCTET_STREAM


FILE_ROUTES = [upload_file, list_files, read_file, read_file_content, delete_file]
