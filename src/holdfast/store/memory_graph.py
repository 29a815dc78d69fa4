"""The connections of memories in SQL: provenance, graph and timeline. It only reads."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.domain.content import plain_text
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.forgetting import is_forgotten
from holdfast.domain.ids import MemoryId, MessageId, SpaceId, ThreadId
from holdfast.domain.instant import Instant, instant, millis
from holdfast.domain.memory import (
    GraphHit,
    GraphNode,
    Memory,
    MemoryStatus,
    MessageNode,
    NodeKind,
    Provenance,
    Timeline,
    TimelineQuery,
    fold_label,
)
from holdfast.domain.message import Role
from holdfast.domain.untrusted import SOURCE_METADATA_KEY, TAINT_VALUE, read_taint
from holdfast.domain.validation import check_text
from holdfast.store.encoding import load_content, load_json
from holdfast.store.memories import memory_row, to_memory
from holdfast.store.messages import AFTER_LAST_SEQUENCE
from holdfast.store.spaces import space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, quick_reads, reads

MAX_GRAPH_DEPTH: Final = 4
MAX_GRAPH_HITS: Final = 200
MAX_TIMELINE_ITEMS: Final = 100
MAX_EDGES_PER_NODE: Final = 500
MAX_NODE_NAME_CHARS: Final = 256


class SqlMemoryGraph(SqlPort):
    """Implements `MemoryGraph`."""

    @reads
    async def provenance(self, tx: Transaction, space: SpaceId, memory: MemoryId) -> Provenance:
        """Return a memory with its sources, what it replaced, and what replaced it."""
        row = await memory_row(tx, space, memory)
        found = to_memory(row)
        names = [(source.thread_id, source.message_id) for source in found.sources]
        nodes = {(node.thread_id, node.id): node for node in await _named_nodes(tx, row["space_key"], names)}
        messages = [
            replace(nodes[name], kind=source.kind, start=source.start, end=source.end)
            for source, name in zip(found.sources, names, strict=True)
            if name in nodes
        ]
        return Provenance(
            memory=found,
            messages=messages,
            superseded_by=await _find_memory(tx, space, found.superseded_by),
            supersedes=[each for old in found.supersedes if (each := await _find_memory(tx, space, old)) is not None],
        )

    @reads
    async def walk(
        self,
        tx: Transaction,
        space: SpaceId,
        start: str,
        *,
        max_depth: int = 2,
        relation_types: Sequence[str] | None = None,
        limit: int = 50,
    ) -> list[GraphHit]:
        """Return the nodes around a start, nearest first."""
        check_text(start, field="start_node_id", max_chars=MAX_NODE_NAME_CHARS)
        if not 0 <= max_depth <= MAX_GRAPH_DEPTH:
            raise Invalid(f"`max_depth` must be between 0 and {MAX_GRAPH_DEPTH}", field="max_depth")
        if not 1 <= limit <= MAX_GRAPH_HITS:
            raise Invalid(f"`limit` must be between 1 and {MAX_GRAPH_HITS}", field="limit")
        key = await space_key(tx, space)
        first = await _start_node(tx, key, space, start)
        hits = [GraphHit(node=first, depth=0, via_predicate=None)]
        seen, frontier = {str(first.id)}, [str(first.id)]
        for depth in range(1, max_depth + 1):
            reached = await _neighbours(tx, key, frontier, relation_types)
            frontier = []
            for predicate, node in reached:
                if node in seen or len(hits) >= limit:
                    continue
                seen.add(node)
                found = await _graph_node(tx, key, space, node)
                if found is not None:
                    hits.append(GraphHit(node=found, depth=depth, via_predicate=predicate))
                    frontier.append(node)
        return hits

    @reads
    async def timeline(self, tx: Transaction, space: SpaceId, query: TimelineQuery) -> Timeline:
        """Return messages and memories in a span of time."""
        if not 1 <= query.limit <= MAX_TIMELINE_ITEMS:
            raise Invalid(f"`limit` must be between 1 and {MAX_TIMELINE_ITEMS}", field="limit")
        since, until = _bound(query.since, default=0), _bound(query.until, default=2**53)
        if until < since:
            raise Invalid("the time span ends before it begins", field="to")
        key = await space_key(tx, space)
        entity = None
        if query.entity is not None:
            check_text(query.entity, field="entity", max_chars=MAX_NODE_NAME_CHARS)
            row = await tx.one("entity_by_label", space_key=key, folded=fold_label(query.entity))
            row = row or await tx.one("entity_by_id", space_key=key, id=query.entity)
            if row is None:
                return Timeline(messages=[], memories=[])
            entity = row["id"]
        span = {
            "space_key": key,
            "since": since,
            "until": until,
            "thread_id": query.thread_id,
            "entity": entity,
            "descending": int(query.descending),
            "limit": query.limit,
        }
        messages = await _to_message_nodes(tx, await tx.all("messages_between", **span))
        memories = await tx.all("memories_between", now=tx.now, **span)
        return Timeline(messages=messages, memories=[to_memory(row) for row in memories])

    @quick_reads
    async def messages(
        self, tx: Transaction, space: SpaceId, names: Sequence[tuple[ThreadId, MessageId]]
    ) -> list[MessageNode]:
        """Return the named messages that exist."""
        key = await space_key(tx, space)
        nodes = await _named_nodes(tx, key, names)
        replaced = await superseding_memories(tx, key, names)
        return [replace(node, superseded_by=replaced.get((node.thread_id, node.id), [])) for node in nodes]

    @quick_reads
    async def neighbours(
        self, tx: Transaction, space: SpaceId, names: Sequence[tuple[ThreadId, int]]
    ) -> list[MessageNode]:
        """Return what was said just before and after some messages."""
        key = await space_key(tx, space)
        rows = await tx.many("messages_said_around", [(key, *name) for name in dict.fromkeys(names)])
        found = {row["message_key"]: row for row in rows if not is_forgotten(load_json(row["metadata"]))}
        return await _to_message_nodes(tx, list(found.values()))


async def _named_nodes(tx: Transaction, key: int, names: Sequence[tuple[ThreadId, MessageId]]) -> list[MessageNode]:
    """Return the named messages that exist, in the order of their names; of one id on a thread the newest."""
    order = {name: number for number, name in enumerate(dict.fromkeys(names))}
    rows = await tx.many("messages_in_threads", [(key, *name) for name in order])
    newest = {(row["thread_id"], row["id"]): row for row in rows}
    return await _to_message_nodes(tx, sorted(newest.values(), key=lambda row: order[row["thread_id"], row["id"]]))


async def superseding_memories(
    tx: Transaction, key: int, names: Sequence[tuple[ThreadId, MessageId]]
) -> dict[tuple[ThreadId, MessageId], list[MemoryId]]:
    """Return, for messages whose statements were all superseded, the memories that replaced them."""
    kept: dict[tuple[ThreadId, MessageId], list[Row]] = {}
    for row in await tx.many("memories_of_messages", [(key, *name) for name in dict.fromkeys(names)]):
        kept.setdefault((row["thread_id"], row["message_id"]), []).append(row)
    return {
        name: list(dict.fromkeys(row["superseded_by"] for row in rows))
        for name, rows in kept.items()
        if all(row["status"] == MemoryStatus.SUPERSEDED for row in rows)
    }


async def _to_message_nodes(tx: Transaction, rows: Sequence[Row]) -> list[MessageNode]:
    """Return messages with the untrusted sources that their authors had read."""
    taints = await message_taints(tx, rows)
    return [
        MessageNode(
            id=row["id"],
            thread_id=row["thread_id"],
            run_id=row["run_id"],
            sequence=row["sequence"],
            role=Role(row["role"]),
            speaker=row["created_by"],
            text=plain_text(load_content(row["content"])),
            at=instant(row["created_at"]),
            taint=taints[row["message_key"]],
        )
        for row in rows
    ]


async def message_taints(tx: Transaction, rows: Sequence[Row]) -> dict[int, list[str]]:
    """Return the untrusted sources behind messages: none for the words of a person.

    A run that was created with taint was asked by a tainted run, or by whoever called a webhook.
    """
    found: dict[int, list[str]] = {}
    cuts: dict[int, tuple[int, int]] = {}
    asked: dict[int, int] = {}
    for row in rows:
        if row["role"] in (Role.USER, Role.SYSTEM):
            source = load_json(row["metadata"]).get(SOURCE_METADATA_KEY)
            found[row["message_key"]] = [source] if isinstance(source, str) and source else []
            asked[row["message_key"]] = row["run_key"]
        else:
            cut = AFTER_LAST_SEQUENCE if row["sequence"] is None else row["sequence"]
            cuts[row["message_key"]] = (row["run_key"], cut)
    wanted = [(run, TAINT_VALUE, cut) for run, cut in dict.fromkeys(cuts.values())]
    values = {(row["run_key"], row["cut"]): row["value"] for row in await tx.many("values_as_of", wanted)}
    for message, name in cuts.items():
        found[message] = _taint_names(values[name])
    given_wanted = [(run, TAINT_VALUE) for run in dict.fromkeys(asked.values())]
    given = {row["run_key"]: row["value"] for row in await tx.many("given_values", given_wanted)}
    for message, run in asked.items():
        found[message] = list(dict.fromkeys([*found[message], *_taint_names(given.get(run))]))
    return found


def _taint_names(value: str | None) -> list[str]:
    return [] if value is None else read_taint({TAINT_VALUE: load_json(value)}).names()


async def _find_memory(tx: Transaction, space: SpaceId, memory: MemoryId | None) -> Memory | None:
    row = None if memory is None else await tx.one("memory", space=space, id=memory)
    return None if row is None else to_memory(row)


async def _graph_node(tx: Transaction, key: int, space: SpaceId, node: str) -> GraphNode | None:
    row = await tx.one("memory", space=space, id=node)
    if row is not None:
        return _to_memory_node(to_memory(row))
    row = await tx.one("entity_by_id", space_key=key, id=node)
    if row is not None:
        return _to_entity(row)
    row = await tx.one("messages_by_id", space_key=key, message_id=node)
    if row is None:
        return None
    (message,) = await _to_message_nodes(tx, [row])
    return _to_graph_message(message)


async def _start_node(tx: Transaction, key: int, space: SpaceId, start: str) -> GraphNode:
    found = await _graph_node(tx, key, space, start)
    if found is not None:
        return found
    entity = await tx.one("entity_by_label", space_key=key, folded=fold_label(start))
    if entity is None:
        raise NotFound(f"there is no memory, message or entity `{start}`", id=start)
    return _to_entity(entity)


async def _neighbours(
    tx: Transaction, key: int, nodes: Sequence[str], relation_types: Sequence[str] | None
) -> list[tuple[str, str]]:
    """Return the predicate and id of every node next to one of `nodes`, in order."""
    reached: set[tuple[str, str]] = set()
    for node in nodes:
        for edge in await tx.all("edges_of_node", space_key=key, node=node, limit=MAX_EDGES_PER_NODE):
            if relation_types is None or edge["predicate"] in relation_types:
                reached.add((edge["predicate"], edge["node"]))
    return sorted(reached)


def _to_entity(row: Row) -> GraphNode:
    return GraphNode(id=row["id"], kind=NodeKind.ENTITY, text=row["label"])


def _to_memory_node(memory: Memory) -> GraphNode:
    return GraphNode(
        id=memory.id,
        kind=NodeKind.MEMORY,
        text=memory.text,
        at=memory.occurred_from or memory.created_at,
        thread_id=memory.thread_id,
        status=memory.status,
        taint=memory.taint,
    )


def _to_graph_message(message: MessageNode) -> GraphNode:
    return GraphNode(
        id=message.id,
        kind=NodeKind.MESSAGE,
        text=message.text,
        at=message.at,
        thread_id=message.thread_id,
        taint=message.taint,
    )


def _bound(at: Instant | None, *, default: int) -> int:
    return default if at is None else millis(at)
