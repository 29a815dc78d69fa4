"""Routes for memories: keep, read, correct, trace, export, import and forget."""

from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from litestar.response import Stream
from msgspec import Meta

from holdfast.api.bodies import Id
from holdfast.api.idempotency import REPLAYED_HEADER, IdempotencyKey, keyed_request, keyed_response
from holdfast.api.parameters import Cursor, IdQuery, Limit, PortDependency, space_paths
from holdfast.control.memories import MemoryControl
from holdfast.domain.errors import Invalid
from holdfast.domain.forgetting import ForgetReceipt, ForgetRequest
from holdfast.domain.ids import MemoryId, SpaceId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.memory import (
    DEFAULT_IMPORTANCE,
    GraphHit,
    Memory,
    MemoryEntity,
    MemoryFilter,
    MemoryPatch,
    MemoryRelation,
    MemorySource,
    MemoryStatus,
    MemoryType,
    MemoryVersion,
    NewMemory,
    Provenance,
    Timeline,
    TimelineQuery,
)
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.recall import RecallStatus
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.ports.memory import Memories, RestoredMemories

_TAGS = ["memories"]
_ONE = space_paths("/memories/{memory_id:str}")
_NDJSON = "application/x-ndjson"
_MAX_IMPORT_BYTES = 64 * 1024 * 1024

_Ratio = Annotated[float, Meta(ge=0, le=1)]


class MemoryBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new memory of a person."""

    text: str
    type: MemoryType = MemoryType.SEMANTIC
    id: Annotated[MemoryId, Id] | None = None
    title: str | None = None
    category: str | None = None
    importance: _Ratio = DEFAULT_IMPORTANCE
    tags: list[str] = []
    supersedes: list[Annotated[MemoryId, Id]] = []
    standing: bool = False
    occurred_from: Instant | None = None
    occurred_until: Instant | None = None
    valid_from: Instant | None = None
    valid_until: Instant | None = None
    expires_at: Instant | None = None
    thread_id: Annotated[ThreadId, Id] | None = None
    sources: list[MemorySource] = []
    entities: list[MemoryEntity] = []
    relations: list[MemoryRelation] = []

    def new_memory(self) -> NewMemory:
        """Convert to the domain type."""
        return NewMemory(**msgspec.structs.asdict(self))


class SupersedeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The replacement of a memory: an existing one by its id, or a new one."""

    by: Annotated[MemoryId, Id] | None = None
    memory: MemoryBody | None = None


class MemoryHistory(msgspec.Struct, frozen=True, kw_only=True):
    """All versions of a memory, oldest first."""

    items: list[MemoryVersion]


class GraphHits(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes around a start, nearest first."""

    hits: list[GraphHit]


@get(space_paths("/memories"), summary="List memories", tags=_TAGS)
async def list_memories(
    memory_store: PortDependency[Memories],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    memory_type: Annotated[MemoryType | None, QueryParameter(name="type")] = None,
    category: FromQuery[str | None] = None,
    tag: FromQuery[str | None] = None,
    status: FromQuery[MemoryStatus | None] = None,
    thread_id: IdQuery = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Memory]:
    """Return memories of every status, newest first. Reading changes nothing."""
    thread = None if thread_id is None else ThreadId(thread_id)
    where = MemoryFilter(type=memory_type, category=category, tag=tag, status=status, thread_id=thread)
    return await memory_store.page(space_id, where=where, limit=limit, cursor=cursor)


@post(space_paths("/memories"), summary="Keep a memory", tags=_TAGS, opt={"headers": {"201": REPLAYED_HEADER}})
async def create_memory(
    memories: NamedDependency[MemoryControl],
    data: JSONBody[MemoryBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[Memory]:
    """Keep a statement. It is active at once, and supersedes the memories that it names."""
    request = keyed_request("create_memory", key, [data])
    return keyed_response(await memories.create(space_id, data.new_memory(), request=request))


@get(space_paths("/memories/timeline"), summary="Read what happened in a span of time", tags=_TAGS)
async def read_memory_timeline(
    memories: NamedDependency[MemoryControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    since: Annotated[str | None, QueryParameter(name="from", description="The first moment.")] = None,
    until: Annotated[str | None, QueryParameter(name="to", description="The last moment.")] = None,
    thread_id: IdQuery = None,
    entity: Annotated[str | None, QueryParameter(max_length=256, description="The name or id of an entity.")] = None,
    order: FromQuery[Literal["asc", "desc"]] = "asc",
    limit: Annotated[int, QueryParameter(ge=1, le=100)] = 10,
) -> Timeline:
    """Return messages by the time they were said, and active memories by the time of what they state."""
    return await memories.timeline(
        space_id,
        TimelineQuery(
            since=None if since is None else Instant(since),
            until=None if until is None else Instant(until),
            thread_id=None if thread_id is None else ThreadId(thread_id),
            entity=entity,
            limit=limit,
            descending=order == "desc",
        ),
    )


@get(space_paths("/memories/graph"), summary="Walk over the graph of memories", tags=_TAGS)
async def read_memory_graph(
    memories: NamedDependency[MemoryControl],
    start: Annotated[str, QueryParameter(min_length=1, max_length=256, description="An id, or the name of an entity.")],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    depth: Annotated[int, QueryParameter(ge=0, le=4)] = 2,
    relation: Annotated[str | None, QueryParameter(max_length=100, description="Only edges of this kind.")] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=200)] = 50,
) -> GraphHits:
    """Return the memories, messages and entities around a start, by depth, predicate and id."""
    types = None if relation is None else [relation]
    return GraphHits(hits=await memories.walk(space_id, start, max_depth=depth, relation_types=types, limit=limit))


@get(
    space_paths("/memories/export"),
    summary="Export memories",
    tags=_TAGS,
    opt={"content": {_NDJSON: str, "text/plain": str}},
)
async def export_memories(
    memories: NamedDependency[MemoryControl],
    space_store: PortDependency[Any],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Stream:
    """Return every memory with its sources and its history, one JSON object per line, oldest first."""
    await space_store.get(space_id)  # an error must come before the first byte
    return Stream(memories.export(space_id), media_type=_NDJSON)


@post(
    space_paths("/memories/import"),
    summary="Import memories",
    tags=_TAGS,
    request_max_body_size=_MAX_IMPORT_BYTES,
    opt={"body": {"application/octet-stream": bytes}, "headers": {"201": REPLAYED_HEADER}},
)
async def import_memories(
    memories: NamedDependency[MemoryControl],
    request: Request[Any, Any, Any],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    missing_sources: FromQuery[Literal["refuse", "drop"]] = "refuse",
    key: IdempotencyKey = None,
) -> Response[RestoredMemories]:
    """Keep exported memories as they were, all or none. A source that is not in this space is refused, or dropped."""
    lines = await request.body()
    keyed = keyed_request("import_memories", key, [missing_sources, lines.decode("utf-8", "replace")])
    return keyed_response(
        await memories.restore(space_id, lines, drop_missing_sources=missing_sources == "drop", request=keyed)
    )


@post(
    space_paths("/memories/forget"),
    summary="Forget memories and messages",
    tags=_TAGS,
    opt={"headers": {"201": REPLAYED_HEADER}},
)
async def forget_memories(
    memories: NamedDependency[MemoryControl],
    data: JSONBody[ForgetRequest],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[ForgetReceipt]:
    """Remove what is selected from every row, index and file, and return a receipt; a dry run only counts."""
    request = keyed_request("forget_memories", key, [data])
    return keyed_response(await memories.forget(space_id, data, request=request))


@get(space_paths("/memories/status"), summary="Read the state of the search index", tags=_TAGS)
async def read_memory_status(
    memories: NamedDependency[MemoryControl],
    space_store: PortDependency[Any],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> RecallStatus:
    """Return how much is in the index, what waits for it, and how far a rebuild is."""
    await space_store.get(space_id)
    return await memories.index_status(space_id)


@post(space_paths("/memories/reindex"), summary="Build the search index again", tags=_TAGS, status_code=200)
async def rebuild_memory_index(
    memories: NamedDependency[MemoryControl],
    space_store: PortDependency[Any],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> RecallStatus:
    """Build the index beside the old one, which answers until the new one is complete."""
    await space_store.get(space_id)
    return await memories.rebuild_index(space_id)


@get(_ONE, summary="Read a memory", tags=_TAGS)
async def read_memory(
    memory_store: PortDependency[Memories], memory_id: FromPath[MemoryId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Memory:
    """Return a memory in its current version."""
    return await memory_store.get(space_id, memory_id)


@patch(_ONE, summary="Change a memory", tags=_TAGS)
async def update_memory(
    memories: NamedDependency[MemoryControl],
    memory_id: FromPath[MemoryId],
    data: JSONBody[MemoryPatch],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    version: Annotated[
        int | None,
        QueryParameter(ge=1, le=MAX_SAFE_INTEGER, description="The version that was read; another one is refused."),
    ] = None,
) -> Memory:
    """Add a version with these changes; earlier versions stay readable."""
    return await memories.update(space_id, memory_id, data, version=version)


@delete(_ONE, summary="Forget one memory", tags=_TAGS, status_code=200)
async def forget_memory(
    memories: NamedDependency[MemoryControl],
    memory_id: FromPath[MemoryId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> ForgetReceipt:
    """Remove a memory with its versions and every copy of its text; the conversation that it came from stays."""
    return (await memories.forget(space_id, ForgetRequest(ids=[memory_id], sources=False))).value


@get(space_paths("/memories/{memory_id:str}/provenance"), summary="Read where a memory came from", tags=_TAGS)
async def read_memory_provenance(
    memories: NamedDependency[MemoryControl],
    memory_id: FromPath[MemoryId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Provenance:
    """Return the messages that a memory came from, what it replaced, and what replaced it."""
    return await memories.provenance(space_id, memory_id)


@get(space_paths("/memories/{memory_id:str}/history"), summary="Read the versions of a memory", tags=_TAGS)
async def read_memory_history(
    memories: NamedDependency[MemoryControl],
    memory_id: FromPath[MemoryId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> MemoryHistory:
    """Return all versions, oldest first; the last is the current one."""
    return MemoryHistory(items=await memories.history(space_id, memory_id))


@post(
    space_paths("/memories/{memory_id:str}/supersede"),
    summary="Replace a memory",
    tags=_TAGS,
    opt={"headers": {"201": REPLAYED_HEADER}},
)
async def supersede_memory(
    memories: NamedDependency[MemoryControl],
    memory_id: FromPath[MemoryId],
    data: JSONBody[SupersedeBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[Memory]:
    """Replace a memory by an existing or a new one, and return the replacement. A cycle is refused."""
    if (data.by is None) == (data.memory is None):
        raise Invalid("name the replacement: either `by` or `memory`", field="by")
    new = data.by if data.memory is None else data.memory.new_memory()
    assert new is not None
    request = keyed_request("supersede_memory", key, [memory_id, data])
    return keyed_response(await memories.supersede(space_id, memory_id, new, request=request))


@post(space_paths("/memories/{memory_id:str}/accept"), summary="Accept a proposed memory", tags=_TAGS, status_code=200)
async def accept_memory(
    memories: NamedDependency[MemoryControl],
    memory_id: FromPath[MemoryId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Memory:
    """Make a proposed memory active, and supersede what it would replace."""
    return await memories.accept(space_id, memory_id)


@post(space_paths("/memories/{memory_id:str}/retract"), summary="Retract a memory", tags=_TAGS, status_code=200)
async def retract_memory(
    memories: NamedDependency[MemoryControl],
    memory_id: FromPath[MemoryId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Memory:
    """Mark a memory as wrong or unwanted. It stays readable by id, and is recalled no more."""
    return await memories.retract(space_id, memory_id)


ROUTES = [
    list_memories,
    create_memory,
    read_memory_timeline,
    read_memory_graph,
    export_memories,
    import_memories,
    forget_memories,
    read_memory_status,
    rebuild_memory_index,
    read_memory,
    update_memory,
    forget_memory,
    read_memory_provenance,
    read_memory_history,
    supersede_memory,
    accept_memory,
    retract_memory,
]
