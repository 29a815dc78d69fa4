"""Routes for memory files: Markdown notes of a space and its agents, as agents write them and people edit them."""

from pathlib import Path
from typing import Annotated, Final

import msgspec
from litestar import Response, delete, get, put
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, PathParameter, QueryParameter

from holdfast.api.errors import ErrorEnvelope
from holdfast.api.parameters import IfMatch, parse_etags
from holdfast.control.memory_files import MemoryFileControl
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import SpaceId
from holdfast.domain.memory_file import (
    MAX_FILE_HITS,
    MemoryFile,
    MemoryFileHit,
    MemoryFileInfo,
    MemoryPath,
    memory_path,
)
from holdfast.domain.recall import MAX_QUERY_CHARS
from holdfast.domain.space import DEFAULT_SPACE

_TAGS: Final = ["memory files"]
_CHANGED: Final = {"also": {"412": {"application/json": ErrorEnvelope}}}


def _paths(path: str) -> list[str]:
    return [f"/memory{path}", f"/api/spaces/{{space_id:str}}/memory{path}"]


_ONE: Final = [*_paths("/{path:path}"), *_paths("/agents/{agent:str}/{path:path}")]

FilePath = Annotated[Path, PathParameter(description="The path of the file, such as `MEMORY.md`.")]
AgentParameter = Annotated[str | None, PathParameter(description="The agent whose file it is.")]


class MemoryFileBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole text of a memory file."""

    text: str


class MemoryFileList(msgspec.Struct, frozen=True, kw_only=True):
    """The memory files of a space, by path."""

    items: list[MemoryFileInfo]


class MemoryFileHits(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of memory files, best first."""

    hits: list[MemoryFileHit]


@get(_paths(""), summary="List memory files", tags=_TAGS)
async def list_memory_files(
    memory_files: NamedDependency[MemoryFileControl], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> MemoryFileList:
    """Return the memory files of a space and of its agents, without their text."""
    return MemoryFileList(items=await memory_files.all(space_id))


@get(_paths("/search"), summary="Search memory files", tags=_TAGS)
async def search_memory_files(
    memory_files: NamedDependency[MemoryFileControl],
    q: Annotated[str, QueryParameter(min_length=1, max_length=MAX_QUERY_CHARS, description="What to search for.")],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Annotated[int, QueryParameter(ge=1, le=MAX_FILE_HITS)] = 10,
) -> MemoryFileHits:
    """Return the lines of all memory files that match best."""
    return MemoryFileHits(hits=await memory_files.search(space_id, q, limit=limit))


@get(_ONE, summary="Read a memory file", tags=_TAGS)
async def read_memory_file(
    memory_files: NamedDependency[MemoryFileControl],
    path: FilePath,
    agent: AgentParameter = None,
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Response[MemoryFile]:
    """Return a memory file; its `ETag` is needed to change it safely."""
    return _file_response(await memory_files.get(space_id, _parse_path(path, agent)))


@put(
    _ONE,
    summary="Write a memory file",
    tags=_TAGS,
    opt=_CHANGED,
)
async def write_memory_file(
    memory_files: NamedDependency[MemoryFileControl],
    path: FilePath,
    data: JSONBody[MemoryFileBody],
    agent: AgentParameter = None,
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    if_match: IfMatch = None,
) -> Response[MemoryFile]:
    """Create a memory file, or replace its whole text."""
    tags = parse_etags(if_match)
    return _file_response(await memory_files.replace(space_id, _parse_path(path, agent), data.text, tags=tags))


@delete(_ONE, summary="Delete a memory file", tags=_TAGS, opt=_CHANGED)
async def delete_memory_file(
    memory_files: NamedDependency[MemoryFileControl],
    path: FilePath,
    agent: AgentParameter = None,
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    if_match: IfMatch = None,
) -> None:
    """Delete a memory file."""
    await memory_files.delete(space_id, _parse_path(path, agent), tags=parse_etags(if_match))


def _parse_path(path: Path, agent: str | None) -> MemoryPath:
    """Return the path of a memory file; one that no file can have names a file that does not exist."""
    try:
        return memory_path(str(path).lstrip("/"), agent=agent)
    except Invalid as exc:
        raise NotFound(exc.message, **exc.details) from exc


def _file_response(file: MemoryFile) -> Response[MemoryFile]:
    return Response(file, headers={"ETag": f'"{file.etag}"', "Cache-Control": "no-store"})


ROUTES: Final = [list_memory_files, search_memory_files, read_memory_file, write_memory_file, delete_memory_file]
