"""The memory tools: `remember`, `recall`, and the searches over what was said, kept, connected and dated.

The space and the run come from the lease, never from arguments. A run that has read untrusted text can only propose a
memory, and a run that reads the words of a tainted one becomes tainted.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from holdfast.domain.content import Json
from holdfast.domain.errors import NotFound
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import MemoryId, MessageId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.memory import (
    DEFAULT_IMPORTANCE,
    MAX_MEMORY_CHARS,
    MAX_MEMORY_SOURCES,
    MAX_MEMORY_TAGS,
    MAX_TAG_CHARS,
    Memory,
    MemoryOrigin,
    MemorySource,
    MemoryType,
    MessageNode,
    NewMemory,
    TimelineQuery,
    check_new_memory,
    check_supersedable,
    initial_status,
    memory_digest,
)
from holdfast.domain.recall import MAX_HITS, MAX_QUERY_CHARS, RecallHit, RecallKind, RecallQuery
from holdfast.domain.tool import ToolClass
from holdfast.domain.untrusted import read_taint
from holdfast.memory.dates import find_occurrence
from holdfast.memory.rules import find_entities
from holdfast.ports.runtime import MemoryLibrary
from holdfast.tools.tool import Tool, ToolContext, ToolResult
from holdfast.tools.typed_tool import ToolArguments, TypedTool, tool_spec

MAX_SEARCH_HITS: Final = 32
MAX_RECALLED: Final = 50
MAX_GRAPH_DEPTH: Final = 4
MAX_GRAPH_NODES: Final = 200
MAX_TIMELINE: Final = 100

_Query: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=MAX_QUERY_CHARS, description="What to search for, in plain words.")
]
_MemoryId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
_Time: TypeAlias = Annotated[str, Meta(min_length=4, max_length=40)]
_ThreadId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]


def taint_of(memories: Iterable[Memory], messages: Iterable[MessageNode] = ()) -> list[str]:
    """Return the untrusted sources that a reader of these takes on; a tainted memory is one itself."""
    names: dict[str, None] = {}
    for memory in memories:
        if memory.taint:
            names |= dict.fromkeys([*memory.taint, f"memory:{memory.id}"])
    for message in messages:
        names |= dict.fromkeys(message.taint)
    return list(names)


class RememberArguments(ToolArguments, frozen=True, kw_only=True):
    """Keep something for later conversations: one fact, event or way of doing things, in a sentence of its own.

    Keep what a person would want you to know next time, and nothing that is already known. What you learnt from web
    pages, files and tools is only proposed until a person accepts it.
    """

    text: Annotated[str, Meta(min_length=1, max_length=MAX_MEMORY_CHARS, description="The statement, with its names.")]
    type: Annotated[
        MemoryType, Meta(description="`episode`: what happened; `semantic`: a fact; `procedural`: how to do something.")
    ]
    importance: Annotated[float, Meta(ge=0, le=1, description="From 0 to 1.")] = DEFAULT_IMPORTANCE
    tags: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=MAX_TAG_CHARS)]],
        Meta(max_length=MAX_MEMORY_TAGS, description="Words to find it by."),
    ] = []
    occurred_at: Annotated[_Time | None, Meta(description="When it happened, such as `2026-01-31T12:00:00Z`.")] = None
    supersedes: Annotated[
        list[_MemoryId],
        Meta(max_length=MAX_MEMORY_SOURCES, description="Ids of memories that are no longer true because of this one."),
    ] = []
    standing: Annotated[bool, Meta(description="Whether it should be in every later prompt.")] = False


REMEMBER_SPEC: Final = tool_spec(RememberArguments, name="remember", kind=ToolClass.TRANSACTIONAL)


class RecallArguments(ToolArguments, frozen=True, kw_only=True):
    """Search the memories that were kept: facts, events and ways of doing things. Best first."""

    query: _Query
    type: Annotated[MemoryType | None, Meta(description="Only memories of this type.")] = None
    limit: Annotated[int, Meta(ge=1, le=MAX_RECALLED, description="How many at most.")] = 10


RECALL_SPEC: Final = tool_spec(RecallArguments, name="recall", kind=ToolClass.IDEMPOTENT, read_only=True)


class SemanticSearchArguments(ToolArguments, frozen=True, kw_only=True):
    """Search everything that was said in earlier conversations (`raw`), and what was kept of it (`abstract`)."""

    query: _Query
    target: Annotated[Literal["raw", "abstract", "both"], Meta(description="What to search.")] = "both"
    top_k: Annotated[int, Meta(ge=1, le=MAX_SEARCH_HITS, description="How many hits of each kind at most.")] = 8
    threshold: Annotated[
        Annotated[float, Meta(ge=0)] | None, Meta(description="Leave out hits with a lower score.")
    ] = None
    type: Annotated[MemoryType | None, Meta(description="Only memories of this type.")] = None
    thread_id: Annotated[_ThreadId | None, Meta(description="Only this conversation.")] = None
    since: Annotated[_Time | None, Meta(description="Only what was said or kept from then on.")] = None
    until: Annotated[_Time | None, Meta(description="Only what was said or kept up to then.")] = None
    include_superseded: Annotated[bool, Meta(description="Whether memories that no longer hold are found too.")] = False


SEMANTIC_SEARCH_SPEC: Final = tool_spec(
    SemanticSearchArguments, name="semantic_search_memory", kind=ToolClass.IDEMPOTENT, read_only=True
)


class GraphSearchArguments(ToolArguments, frozen=True, kw_only=True):
    """Find what is connected with a memory, a message or a name: who and what it is about, and what replaced it."""

    start_node_id: Annotated[
        str, Meta(min_length=1, max_length=256, description="An id (`mem_…`, `msg_…`, `ent_…`) or a name.")
    ]
    max_depth: Annotated[int, Meta(ge=0, le=MAX_GRAPH_DEPTH, description="How many connections away at most.")] = 2
    relation_types: Annotated[
        Annotated[list[str], Meta(max_length=20)] | None, Meta(description="Only connections of these kinds.")
    ] = None
    limit: Annotated[int, Meta(ge=1, le=MAX_GRAPH_NODES, description="How many nodes at most.")] = 50


GRAPH_SEARCH_SPEC: Final = tool_spec(
    GraphSearchArguments, name="graph_search_memory", kind=ToolClass.IDEMPOTENT, read_only=True
)


class ProvenanceArguments(ToolArguments, frozen=True, kw_only=True):
    """Find out why a memory holds: the messages it came from, what it replaced and what replaced it."""

    abstract_node_id: Annotated[_MemoryId, Meta(description="The id of the memory, `mem_…`.")]


PROVENANCE_SPEC: Final = tool_spec(
    ProvenanceArguments, name="provenance_lookup", kind=ToolClass.IDEMPOTENT, read_only=True
)


class TimelineArguments(ToolArguments, frozen=True, kw_only=True):
    """Read what was said and what happened in a span of time, in order."""

    from_: Annotated[_Time | None, Meta(description="The first moment, such as `2026-01-31T00:00:00Z`.")] = (
        msgspec.field(name="from", default=None)
    )
    to: Annotated[_Time | None, Meta(description="The last moment.")] = None
    session_id: Annotated[_ThreadId | None, Meta(description="Only this conversation, by its thread id.")] = None
    entity: Annotated[
        Annotated[str, Meta(min_length=1, max_length=256)] | None, Meta(description="Only what is about this name.")
    ] = None
    limit: Annotated[int, Meta(ge=1, le=MAX_TIMELINE, description="How many of each kind at most.")] = 10
    order: Annotated[Literal["asc", "desc"], Meta(description="Oldest or newest first.")] = "asc"


TIMELINE_SPEC: Final = tool_spec(TimelineArguments, name="timeline_search", kind=ToolClass.IDEMPOTENT, read_only=True)

MEMORY_SPECS: Final = (
    GRAPH_SEARCH_SPEC,
    PROVENANCE_SPEC,
    RECALL_SPEC,
    REMEMBER_SPEC,
    SEMANTIC_SEARCH_SPEC,
    TIMELINE_SPEC,
)


def memory_tools(memory: MemoryLibrary) -> list[Tool]:
    """Return the tools over the memory of the run's space."""
    tools = _MemoryTools(memory)
    return [
        TypedTool(REMEMBER_SPEC, RememberArguments, run=tools.remember),
        TypedTool(RECALL_SPEC, RecallArguments, run=tools.recall),
        TypedTool(SEMANTIC_SEARCH_SPEC, SemanticSearchArguments, run=tools.semantic_search),
        TypedTool(GRAPH_SEARCH_SPEC, GraphSearchArguments, run=tools.graph_search),
        TypedTool(PROVENANCE_SPEC, ProvenanceArguments, run=tools.provenance),
        TypedTool(TIMELINE_SPEC, TimelineArguments, run=tools.timeline),
    ]


class _MemoryTools:
    def __init__(self, memory: MemoryLibrary) -> None:
        self._memory = memory

    async def remember(self, call: ToolContext, arguments: RememberArguments) -> ToolResult:
        new = _new_memory(call, arguments)
        check_new_memory(new)
        superseded = await self._memory.memories(call.lease, new.supersedes)
        missing = set(new.supersedes) - {memory.id for memory in superseded}
        if missing:
            raise NotFound(f"there is no memory `{min(missing)}`: name one that a search has found", id=min(missing))
        for each in superseded:
            check_supersedable(each)
        if not new.supersedes:
            equal = await self._memory.equal(call.lease, new.text)
            if equal:
                ids = [memory.id for memory in equal]
                return ToolResult(content={"memory_id": ids[0], "status": str(equal[0].status), "duplicates": ids})
            digest = memory_digest(new.text)
            for pending in call.pending_memories:
                if memory_digest(pending.text) == digest and pending.id is not None:
                    status = str(initial_status(pending, []))
                    return ToolResult(content={"memory_id": pending.id, "status": status, "duplicates": [pending.id]})
        content: Json = {"memory_id": new.id, "status": str(initial_status(new, superseded)), "duplicates": []}
        return ToolResult(content=content, memories=[new])

    async def recall(self, call: ToolContext, arguments: RecallArguments) -> ToolResult:
        hits = await self._hits(
            call, arguments.query, RecallKind.MEMORY, limit=MAX_HITS if arguments.type else arguments.limit
        )
        found = await self._memories(call, hits, type=arguments.type)
        chosen = found[: arguments.limit]
        memories: list[Json] = [
            {
                "id": memory.id,
                "text": memory.text,
                "type": memory.type.value,
                "at": memory.occurred_from or memory.created_at,
                "score": round(hit.score, 4),
            }
            for hit, memory in chosen
        ]
        return ToolResult(content={"memories": memories}, taint=taint_of(memory for _, memory in chosen))

    async def semantic_search(self, call: ToolContext, arguments: SemanticSearchArguments) -> ToolResult:
        raw: list[tuple[RecallHit, MessageNode]] = []
        abstract: list[tuple[RecallHit, Memory]] = []
        filters = {
            "thread": None if arguments.thread_id is None else ThreadId(arguments.thread_id),
            "since": None if arguments.since is None else Instant(arguments.since),
            "until": None if arguments.until is None else Instant(arguments.until),
        }
        if arguments.target != "abstract":
            hits = await self._hits(call, arguments.query, RecallKind.MESSAGE, limit=arguments.top_k, **filters)
            names = [(hit.thread_id, MessageId(hit.id)) for hit in hits if hit.thread_id is not None]
            nodes = {(node.thread_id, node.id): node for node in await self._memory.messages(call.lease, names)}
            raw = [(hit, node) for hit in hits if (node := nodes.get((hit.thread_id, MessageId(hit.id)))) is not None]  # type: ignore[arg-type]
        if arguments.target != "raw":
            limit = MAX_HITS if arguments.type else arguments.top_k
            hits = await self._hits(
                call, arguments.query, RecallKind.MEMORY, limit=limit, inactive=arguments.include_superseded, **filters
            )
            abstract = (await self._memories(call, hits, type=arguments.type))[: arguments.top_k]
        floor = arguments.threshold or 0.0
        raw = [each for each in raw if each[0].score >= floor]
        abstract = [each for each in abstract if each[0].score >= floor]
        content: Json = {
            "raw_hits": [{"node": _message_node(node, text=hit.text), **_score(hit)} for hit, node in raw],
            "abstract_hits": [{"node": _memory_node(memory), **_score(hit)} for hit, memory in abstract],
        }
        taint = taint_of([memory for _, memory in abstract], [node for _, node in raw])
        return ToolResult(content=content, taint=taint)

    async def graph_search(self, call: ToolContext, arguments: GraphSearchArguments) -> ToolResult:
        hits = await self._memory.walk(
            call.lease,
            arguments.start_node_id,
            max_depth=arguments.max_depth,
            relation_types=arguments.relation_types,
            limit=arguments.limit,
        )
        names: dict[str, None] = {}
        for hit in hits:
            if hit.node.taint:
                own = [f"memory:{hit.node.id}"] if hit.node.kind == "memory" else []
                names |= dict.fromkeys([*hit.node.taint, *own])
        return ToolResult(content={"hits": msgspec.to_builtins(hits)}, taint=list(names))

    async def provenance(self, call: ToolContext, arguments: ProvenanceArguments) -> ToolResult:
        found = await self._memory.provenance(call.lease, MemoryId(arguments.abstract_node_id))
        content: dict[str, Json] = {
            "abstract_node": _memory_node(found.memory),
            "raw_nodes": [_message_node(node) for node in found.messages],
            "supersedes": [_memory_node(each) for each in found.supersedes],
        }
        others = list(found.supersedes)
        if found.superseded_by is not None:
            content["superseded_by"] = _memory_node(found.superseded_by)
            others.append(found.superseded_by)
        return ToolResult(content=content, taint=taint_of([found.memory, *others], found.messages))

    async def timeline(self, call: ToolContext, arguments: TimelineArguments) -> ToolResult:
        found = await self._memory.timeline(
            call.lease,
            TimelineQuery(
                since=None if arguments.from_ is None else Instant(arguments.from_),
                until=None if arguments.to is None else Instant(arguments.to),
                thread_id=None if arguments.session_id is None else ThreadId(arguments.session_id),
                entity=arguments.entity,
                limit=arguments.limit,
                descending=arguments.order == "desc",
            ),
        )
        content: Json = {
            "raw_nodes": [_message_node(node) for node in found.messages],
            "memories": [_memory_node(each) for each in found.memories],
        }
        return ToolResult(content=content, taint=taint_of(found.memories, found.messages))

    async def _hits(self, call: ToolContext, query: str, kind: RecallKind, **filters: object) -> Sequence[RecallHit]:
        asked = RecallQuery(text=query, kinds=frozenset({kind}), author=call.run.created_by, **filters)  # type: ignore[arg-type]
        return (await self._memory.recall(call.lease, asked)).hits

    async def _memories(
        self, call: ToolContext, hits: Sequence[RecallHit], *, type: MemoryType | None
    ) -> list[tuple[RecallHit, Memory]]:
        found = await self._memory.memories(call.lease, [MemoryId(hit.id) for hit in hits])
        by_id = {memory.id: memory for memory in found if type is None or memory.type is type}
        return [(hit, by_id[MemoryId(hit.id)]) for hit in hits if hit.id in by_id]


def _new_memory(call: ToolContext, arguments: RememberArguments) -> NewMemory:
    occurred_from, occurred_until = find_occurrence(arguments.text, at=call.now)
    if arguments.occurred_at is not None:
        occurred_from, occurred_until = Instant(arguments.occurred_at), None
    source = MemorySource(message_id=call.user_message_id or call.message_id, thread_id=call.lease.thread_id)
    return NewMemory(
        id=MemoryId(derived_id("mem", key=call.key)),
        key=call.key,
        type=arguments.type,
        text=arguments.text.strip(),
        importance=arguments.importance,
        tags=list(dict.fromkeys(arguments.tags)),
        supersedes=[MemoryId(each) for each in dict.fromkeys(arguments.supersedes)],
        standing=arguments.standing,
        occurred_from=occurred_from,
        occurred_until=occurred_until,
        origin=MemoryOrigin.AGENT,
        taint=read_taint(call.values).names(before=call.at.message_sequence_num),
        author=call.agent.name,
        agent=call.agent.name,
        thread_id=call.lease.thread_id,
        run_id=call.lease.run_id,
        sources=[source],
        entities=find_entities(arguments.text),
    )


def _message_node(node: MessageNode, *, text: str | None = None) -> Json:
    shown: dict[str, Json] = msgspec.to_builtins(node)
    if text is not None:
        shown["text"] = text
    if not node.superseded_by:
        del shown["superseded_by"]
    return shown


def _memory_node(memory: Memory) -> Json:
    """Return a memory without what it does not have, since a model reads every word."""
    return {name: value for name, value in msgspec.to_builtins(memory).items() if value not in (None, [], False)}


def _score(hit: RecallHit) -> dict[str, Json]:
    return {"score": round(hit.score, 4), "parts": msgspec.to_builtins(hit.parts)}
