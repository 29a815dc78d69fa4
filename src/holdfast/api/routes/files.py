"""Files of a space."""

from typing import Annotated, Any
from urllib.parse import quote

from litestar import Request, Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from holdfast.api.errors import UnsupportedMediaType
from holdfast.api.parameters import Cursor, Limit, anywhere
from holdfast.control.artifacts import FileControl
from holdfast.domain.artifact import MAX_FILE_BYTES, File, NewFile
from holdfast.domain.ids import FileId, SpaceId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import DEFAULT_SPACE

_TAGS = ["files"]
_ONE = anywhere("/files/{file_id:str}")
_ANY = "application/octet-stream"

FileName = Annotated[str, QueryParameter(min_length=1, max_length=500, description="What the file is called.")]


@post(
    anywhere("/files"),
    summary="Upload a file",
    tags=_TAGS,
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
    kind = request.headers.get("content-type") or _ANY
    if kind.startswith("multipart/"):
        raise UnsupportedMediaType("send the bytes of the file as the body, not a form", content_type=kind)
    return await files.create(space_id, NewFile(name=name, content=await request.body(), media_type=kind))


@get(anywhere("/files"), summary="List files", tags=_TAGS)
async def list_files(
    files: NamedDependency[FileControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[File]:
    """Return the files of a space, the newest first."""
    return await files.page(space_id, limit=limit, cursor=cursor)


@get(_ONE, summary="Read what is known of a file", tags=_TAGS)
async def read_file(
    files: NamedDependency[FileControl], file_id: FromPath[FileId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> File:
    """Return the name, the size, the type and the digest of a file."""
    return await files.get(space_id, file_id)


@get(anywhere("/files/{file_id:str}/content"), summary="Download a file", tags=_TAGS, opt={"content": {"*/*": bytes}})
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


@delete(_ONE, summary="Delete a file", tags=_TAGS)
async def delete_file(
    files: NamedDependency[FileControl], file_id: FromPath[FileId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> None:
    """Remove a file. One that an artifact is made of is refused."""
    await files.delete(space_id, file_id)


def _header_value(media_type: str) -> str:
    return media_type if media_type.isascii() and media_type.isprintable() else _ANY


ROUTES = [upload_file, list_files, read_file, read_file_content, delete_file]
