"""Routes for artifacts and uploaded files."""

import codecs
from hashlib import sha256
from typing import Annotated, Any, Final
from urllib.parse import quote

from litestar import Request, Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, QueryParameter

from holdfast.api.bodies import ArtifactBody
from holdfast.api.errors import UnsupportedMediaType
from holdfast.api.idempotency import REPLAYED_HEADER, IdempotencyKey, keyed_request, keyed_response
from holdfast.api.parameters import Cursor, Limit, PortDependency, space_paths
from holdfast.control.artifacts import ArtifactControl, ArtifactDetail
from holdfast.domain.artifact import MAX_ARTIFACT_CHARS, MAX_FILE_BYTES, MAX_TITLE_CHARS, Artifact, File, NewFile
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import ArtifactId, FileId, RunId, SpaceId, ThreadId
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.validation import check_search_text
from holdfast.ports.artifacts import Artifacts, Files

_TAGS = ["artifacts"]

_PREVIEWED: Final = ("text/html", "image/svg+xml")
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_PREVIEW_HEADERS: Final = {
    # The sandbox gives the page an origin of its own and no scripts, also where it is opened without the console.
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "Referrer-Policy": "no-referrer",
    "X-DNS-Prefetch-Control": "off",
}

VersionNumber = Annotated[
    int | None, QueryParameter(ge=1, le=MAX_SAFE_INTEGER, description="The version to read; by default the newest.")
]


@get(space_paths("/artifacts"), summary="List the artifacts of a space", tags=_TAGS)
async def list_artifacts(
    artifact_store: PortDependency[Artifacts],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    title: Annotated[
        str | None, QueryParameter(description="A part of the title; the case of `a` to `z` does not matter.")
    ] = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Artifact]:
    """Return all versions of all artifacts, without content, newest first."""
    if title is not None:
        check_search_text(title, field="title", max_chars=MAX_TITLE_CHARS)
    return await artifact_store.page(space_id, title=title, limit=limit, cursor=cursor)


@get(space_paths("/artifacts/{artifact_id:str}"), summary="Read an artifact", tags=_TAGS)
async def read_artifact(
    artifacts: NamedDependency[ArtifactControl],
    artifact_id: FromPath[ArtifactId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    version: VersionNumber = None,
) -> ArtifactDetail:
    """Return one version with its content, and all versions without content."""
    return await artifacts.get(space_id, artifact_id, version=version)


@get(
    space_paths("/artifacts/{artifact_id:str}/preview"),
    summary="Preview an artifact",
    tags=_TAGS,
    opt={"content": dict.fromkeys(_PREVIEWED, str)},
)
async def preview_artifact(
    artifact_store: PortDependency[Artifacts],
    file_store: PortDependency[Files],
    artifact_id: FromPath[ArtifactId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    version: VersionNumber = None,
) -> Response[bytes]:
    """Return an HTML page or an SVG picture as a browser shows it: without scripts, forms, links and other servers."""
    artifact = await artifact_store.get(space_id, artifact_id, version=version)
    media_type = artifact.media_type.partition(";")[0].strip().lower()
    if media_type not in _PREVIEWED:
        raise Invalid(f"`{artifact.media_type}` has no preview: read the artifact, or the content of its file")
    if artifact.file_id is None:
        text = artifact.content or ""
    else:
        content = await file_store.content(space_id, artifact.file_id)
        text = content.decode("utf-16" if content.startswith(_UTF_16) else "utf-8", errors="replace")
    headers = {"Content-Type": f"{media_type}; charset=utf-8", **_PREVIEW_HEADERS}
    return Response(_without_links(text).encode(), headers=headers)


def _without_links(page: str) -> str:
    """Rename the link elements of a page: they load nothing here, but `preconnect` passes every policy."""
    head, *tags = page.split("<")
    return "<".join([head, *(f"x-{tag}" if tag[:4].lower() == "link" else tag for tag in tags)])


@get(space_paths("/runs/{run_id:str}/artifacts"), summary="List the artifacts of a run", tags=_TAGS)
async def list_run_artifacts(
    artifact_store: PortDependency[Artifacts],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Artifact]:
    """Return the artifacts of a run, without content, newest first."""
    return await artifact_store.page(space_id, run=run_id, limit=limit, cursor=cursor)


@post(
    space_paths("/runs/{run_id:str}/artifacts"),
    summary="Create an artifact of a run",
    tags=_TAGS,
    request_max_body_size=2 * MAX_ARTIFACT_CHARS,
    opt={"headers": {"201": REPLAYED_HEADER}},
)
async def create_artifact(
    artifacts: NamedDependency[ArtifactControl],
    run_id: FromPath[RunId],
    data: JSONBody[ArtifactBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[Artifact]:
    """Create an artifact of a run; with the `id` of an existing artifact it becomes the next version."""
    request = keyed_request("create_artifact", key, [run_id, data])
    return keyed_response(await artifacts.create(space_id, run_id, data.new_artifact(), request=request))


@get(space_paths("/threads/{thread_id:str}/artifacts"), summary="List the artifacts of a thread", tags=_TAGS)
async def list_thread_artifacts(
    artifacts: NamedDependency[ArtifactControl],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Artifact]:
    """Return the artifacts of a thread, without content, by run, newest run first.

    A page may have fewer items than `limit` even if another page follows.
    """
    return await artifacts.of_thread(space_id, thread_id, limit=limit, cursor=cursor)


ROUTES = [list_artifacts, read_artifact, preview_artifact, list_run_artifacts, create_artifact, list_thread_artifacts]

_FILE_TAGS = ["files"]
_ONE_FILE = space_paths("/files/{file_id:str}")
_OCTET_STREAM = "application/octet-stream"

FileName = Annotated[str, QueryParameter(min_length=1, max_length=500, description="The name of the file.")]


@post(
    space_paths("/files"),
    summary="Upload a file",
    tags=_FILE_TAGS,
    request_max_body_size=MAX_FILE_BYTES,
    opt={"body": {_OCTET_STREAM: bytes}, "headers": {"201": REPLAYED_HEADER}},
)
async def upload_file(
    artifacts: NamedDependency[ArtifactControl],
    request: Request[Any, Any, Any],
    name: FileName,
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[File]:
    """Store the body as a file with the `Content-Type` of the request, which may be any. Forms are refused."""
    media_type = request.headers.get("content-type") or _OCTET_STREAM
    if media_type.startswith("multipart/"):
        raise UnsupportedMediaType("send the bytes of the file as the body, not a form", content_type=media_type)
    new = NewFile(name=name, content=await request.body(), media_type=media_type)
    keyed = keyed_request("upload_file", key, [name, media_type, sha256(new.content).hexdigest()])
    return keyed_response(await artifacts.create_file(space_id, new, request=keyed))


@get(space_paths("/files"), summary="List files", tags=_FILE_TAGS)
async def list_files(
    file_store: PortDependency[Files],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[File]:
    """Return the files of a space, newest first."""
    return await file_store.page(space_id, limit=limit, cursor=cursor)


@get(_ONE_FILE, summary="Read the metadata of a file", tags=_FILE_TAGS)
async def read_file(
    file_store: PortDependency[Files], file_id: FromPath[FileId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> File:
    """Return the name, size, media type and digest of a file."""
    return await file_store.get(space_id, file_id)


@get(
    space_paths("/files/{file_id:str}/content"),
    summary="Download a file",
    tags=_FILE_TAGS,
    opt={"content": {_OCTET_STREAM: bytes, "*/*": bytes}},
)
async def read_file_content(
    file_store: PortDependency[Files], file_id: FromPath[FileId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Response[bytes]:
    """Return the bytes of a file as an attachment, which a browser does not render as a page of this server."""
    file = await file_store.get(space_id, file_id)
    content = await file_store.content(space_id, file_id)
    printable = file.media_type.isascii() and file.media_type.isprintable()
    headers = {
        "Content-Type": file.media_type if printable else _OCTET_STREAM,
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "ETag": f'"{file.digest}"',
    }
    return Response(content, headers=headers)


@delete(_ONE_FILE, summary="Delete a file", tags=_FILE_TAGS)
async def delete_file(
    file_store: PortDependency[Files], file_id: FromPath[FileId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> None:
    """Delete a file. A file that an artifact uses is refused."""
    await file_store.delete(space_id, file_id)


FILE_ROUTES = [upload_file, list_files, read_file, read_file_content, delete_file]
