"""Memories in SQL: kept once by key, changed by adding versions, replaced only by an explicit edge."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.domain.condition import ConditionEvent, Occurrence
from holdfast.domain.content import plain_text
from holdfast.domain.errors import Conflict, IdTaken, Invalid, NotFound
from holdfast.domain.ids import MemoryId, SpaceId
from holdfast.domain.instant import Instant, Millis, instant, maybe_instant, millis
from holdfast.domain.memory import (
    SUPERSEDES_PREDICATE,
    Memory,
    MemoryEntity,
    MemoryFilter,
    MemoryOrigin,
    MemoryPatch,
    MemoryRelation,
    MemorySource,
    MemoryStatus,
    MemoryType,
    MemoryVersion,
    NewMemory,
    check_memory_patch,
    check_memory_times,
    check_new_memory,
    check_supersedable,
    deduplicates,
    fold_label,
    initial_status,
    memory_digest,
)
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.ports.memory import KeptMemory
from holdfast.store.conditions import note_occurrences
from holdfast.store.encoding import dump_json, load_content, load_json, parse_cursor, to_page
from holdfast.store.spaces import lock_space_shared, space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, find_row, quick_reads, reads, writes

MAX_SUPERSESSION_CHAIN: Final = 10_000
_sources_decoder = msgspec.json.Decoder(list[MemorySource])
_entities_decoder = msgspec.json.Decoder(list[MemoryEntity])
_relations_decoder = msgspec.json.Decoder(list[MemoryRelation])
_memory_decoder = msgspec.json.Decoder(Memory)


class SqlMemories(SqlPort):
    """Implements `Memories`."""

    async def put(self, space: SpaceId, new: NewMemory) -> KeptMemory:
        """Keep a memory."""
        check_new_memory(new)

        async def put(tx: Transaction) -> KeptMemory:
            key = await lock_space_shared(tx, space)
            kept = await put_memory(tx, key, space, new)
            if kept.created:
                event = ConditionEvent.MEMORY_CREATED
                stated = Occurrence(event=event, thread_id=new.thread_id or "", type=new.type.value)
                await note_occurrences(tx, [(key, stated)])
            return kept

        return await self._database.write(put)

    @reads
    async def get(self, tx: Transaction, space: SpaceId, memory: MemoryId) -> Memory:
        """Return a memory in its current version."""
        return to_memory(await memory_row(tx, space, memory))

    @quick_reads
    async def equal(self, tx: Transaction, space: SpaceId, text: str) -> list[Memory]:
        """Return the memories that state the same."""
        key = await space_key(tx, space)
        return [to_memory(row) for row in await tx.all("equal_memories", space_key=key, digest=memory_digest(text))]

    @quick_reads
    async def get_many(self, tx: Transaction, space: SpaceId, memories: Sequence[MemoryId]) -> list[Memory]:
        """Return the named memories that exist."""
        await space_key(tx, space)
        rows = [await tx.one("memory", space=space, id=each) for each in dict.fromkeys(memories)]
        return [to_memory(row) for row in rows if row is not None]

    @reads
    async def page(
        self,
        tx: Transaction,
        space: SpaceId,
        *,
        where: MemoryFilter | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Memory]:
        """Return memories, newest first."""
        check_page_size(limit)
        (before,) = parse_cursor(cursor, first_page=[2**62])
        where = where or MemoryFilter()
        rows = await tx.all(
            "list_memories",
            space_key=await space_key(tx, space),
            before=before,
            type=where.type and where.type.value,
            category=where.category,
            tag=None if where.tag is None else _tag_pattern(where.tag),
            status=where.status and where.status.value,
            thread_id=where.thread_id,
            standing=None if where.standing is None else int(where.standing),
            limit=limit + 1,
        )
        return to_page(rows, limit, value=to_memory, cursor=lambda row: str(row["memory_key"]))

    @quick_reads
    async def standing(
        self,
        tx: Transaction,
        space: SpaceId,
        *,
        proposed_by: str | None | UnsetType = UNSET,
        limit: int = DEFAULT_PAGE_SIZE,
    ) -> list[Memory]:
        """Return the standing memories in force, and those that rules found in an author's words, newest first."""
        names = {"space_key": await space_key(tx, space), "now": tx.now, "limit": limit}
        rows = list(await tx.all("standing_memories", **names))
        if proposed_by is not UNSET:
            rows += await tx.all("proposed_standing_memories", author=proposed_by or "", **names)
            rows = sorted(rows, key=lambda row: int(row["memory_key"]), reverse=True)[:limit]
        return [to_memory(row) for row in rows]

    @writes
    async def update(
        self,
        tx: Transaction,
        space: SpaceId,
        memory: MemoryId,
        patch: MemoryPatch,
        *,
        by: str | None = None,
        version: int | None = None,
    ) -> Memory:
        """Add a version with the changes of `patch`."""
        changes = check_memory_patch(patch)
        row = await _lock_memory(tx, space, memory)
        old = to_memory(row)
        if version is not None and version != old.version:
            raise Conflict(f"memory `{memory}` has version {old.version} by now: read it again", version=old.version)
        changed = replace(old, **changes)
        check_memory_times(changed)
        return await change_memory(tx, row, changed, by=by)

    @writes
    async def supersede(
        self, tx: Transaction, space: SpaceId, memory: MemoryId, *, new: MemoryId | NewMemory, by: str | None = None
    ) -> Memory:
        """Replace a memory by another one, which may be new."""
        row = await _lock_memory(tx, space, memory)
        if isinstance(new, NewMemory):
            made = replace(new, supersedes=list(dict.fromkeys([*new.supersedes, memory])))
            check_new_memory(made)
            return (await put_memory(tx, row["space_key"], space, made)).memory
        if new == memory:
            raise Invalid("a memory cannot supersede itself", field="by")
        other = await memory_row(tx, space, new)
        replacement = to_memory(other)
        if replacement.status not in (MemoryStatus.ACTIVE, MemoryStatus.PROPOSED):
            raise Conflict(f"memory `{new}` is {replacement.status}: name an active one", id=new)
        await _supersede(tx, row, replacement, by=by)
        added = list(dict.fromkeys([*replacement.supersedes, memory]))
        await _add_edge(tx, other, replacement.id, SUPERSEDES_PREDICATE, memory)
        status = MemoryStatus.ACTIVE  # a person who names it as the replacement accepts it
        return await change_memory(tx, other, replace(replacement, supersedes=added, status=status), by=by)

    @writes
    async def accept(self, tx: Transaction, space: SpaceId, memory: MemoryId, *, by: str | None = None) -> Memory:
        """Make a proposed memory active, and supersede what it would replace."""
        row = await _lock_memory(tx, space, memory)
        proposed = to_memory(row)
        if proposed.status is MemoryStatus.ACTIVE:
            return proposed
        if proposed.status is not MemoryStatus.PROPOSED:
            raise Conflict(f"memory `{memory}` is {proposed.status}: only a proposed one can be accepted", id=memory)
        for old in proposed.supersedes:
            found = await tx.one("memory", space=space, id=old)
            if found is not None and found["status"] in (MemoryStatus.ACTIVE, MemoryStatus.PROPOSED):
                await _supersede(tx, found, proposed, by=by)
        return await change_memory(tx, row, replace(proposed, status=MemoryStatus.ACTIVE), by=by)

    @writes
    async def retract(self, tx: Transaction, space: SpaceId, memory: MemoryId, *, by: str | None = None) -> Memory:
        """Mark a memory as wrong or unwanted; it stays readable by id."""
        row = await _lock_memory(tx, space, memory)
        old = to_memory(row)
        if old.status is MemoryStatus.RETRACTED:
            return old
        return await change_memory(tx, row, replace(old, status=MemoryStatus.RETRACTED), by=by)

    @reads
    async def history(self, tx: Transaction, space: SpaceId, memory: MemoryId) -> list[MemoryVersion]:
        """Return all versions, oldest first."""
        row = await memory_row(tx, space, memory)
        earlier = await memory_versions(tx, row)
        current = to_memory(row)
        last = MemoryVersion(
            version=current.version, memory=current, changed_by=row["changed_by"], changed_at=current.updated_at
        )
        return [*earlier, last]


async def put_memory(tx: Transaction, key: int, space: SpaceId, new: NewMemory) -> KeptMemory:
    """Keep a valid memory in a locked space; an earlier one with its key, or an equal one, is returned instead."""
    await tx.run("lock_memories", space_key=key)
    if new.key is not None:
        kept = await tx.one("memory_by_key", space_key=key, key=new.key)
        if kept is not None:
            return KeptMemory(memory=to_memory(kept), created=False)
    digest = memory_digest(new.text)
    if deduplicates(new):
        equal = await tx.one("equal_memories", space_key=key, digest=digest)
        if equal is not None:
            return KeptMemory(memory=to_memory(equal), created=False, duplicates=[equal["id"]])
    superseded = [await find_row(tx, "memory", "memory", space=space, id=each) for each in new.supersedes]
    for row in superseded:
        check_supersedable(to_memory(row))
    sources = [await _resolve_source(tx, key, source) for source in new.sources]
    status = initial_status(new, [to_memory(row) for row in superseded])
    memory = _new_memory(tx, space, replace(new, sources=sources), status)
    added = await tx.one(
        "add_memory",
        space_key=key,
        key=new.key,
        changed_by=new.author,
        now=tx.now,
        **memory_columns(memory, digest=digest),
    )
    if added is None:
        raise IdTaken(f"there is a memory `{memory.id}` already", id=memory.id)
    await add_memory_edges(tx, key, added["memory_key"], memory)
    if status is MemoryStatus.ACTIVE:
        for old in superseded:
            await _supersede(tx, old, memory, by=new.author)
    return KeptMemory(memory=memory, created=True)


async def put_run_memory(tx: Transaction, key: int, space: SpaceId, new: NewMemory) -> KeptMemory:
    """Keep a memory that a run commits. What has changed since the run checked it must not end the run.

    A source that was forgotten meanwhile is left out. A memory that can no longer be superseded is left out too, and
    the new one is only proposed.
    """
    sources = [
        source
        for source in new.sources
        if await tx.one("message_in_thread", space_key=key, thread_id=source.thread_id, message_id=source.message_id)
    ]
    supersedes = []
    for each in new.supersedes:
        row = await tx.one("memory", space=space, id=each)
        if row is not None and row["status"] in (MemoryStatus.ACTIVE, MemoryStatus.PROPOSED):
            supersedes.append(each)
    proposed = new.proposed or len(supersedes) < len(new.supersedes)
    return await put_memory(tx, key, space, replace(new, sources=sources, supersedes=supersedes, proposed=proposed))


async def change_memory(tx: Transaction, row: Row, changed: Memory, *, by: str | None) -> Memory:
    """Store the next version of a memory, given its current row."""
    old = to_memory(row)
    if replace(changed, version=old.version, updated_at=old.updated_at) == old:
        return old
    await tx.run(
        "add_memory_version",
        memory_key=row["memory_key"],
        version=old.version,
        memory=dump_json(old),
        changed_by=row["changed_by"],
        changed_at=row["updated_at"],
    )
    made = replace(changed, version=old.version + 1, updated_at=instant(tx.now))
    columns = memory_columns(made, digest=memory_digest(made.text))
    await tx.run(
        "change_memory",
        memory_key=row["memory_key"],
        superseded_by=made.superseded_by,
        version=made.version,
        changed_by=by,
        now=tx.now,
        **columns,
    )
    return made


async def memory_versions(tx: Transaction, row: Row) -> list[MemoryVersion]:
    """Return the earlier versions of a memory, oldest first."""
    return [
        MemoryVersion(
            version=each["version"],
            memory=_memory_decoder.decode(each["memory"]),
            changed_by=each["changed_by"],
            changed_at=instant(each["changed_at"]),
        )
        for each in await tx.all("memory_versions", memory_key=row["memory_key"])
    ]


async def memory_row(tx: Transaction, space: SpaceId, memory: MemoryId) -> Row:
    """Return the row of a memory."""
    return await find_row(tx, "memory", "memory", space=space, id=memory)


async def _lock_memory(tx: Transaction, space: SpaceId, memory: MemoryId) -> Row:
    """Return the row of a memory whose space admits no other change until the transaction ends."""
    await tx.run("lock_memories", space_key=await lock_space_shared(tx, space))
    return await memory_row(tx, space, memory)


async def _supersede(tx: Transaction, old_row: Row, new: Memory, *, by: str | None) -> None:
    """Mark a memory as replaced by `new`, unless `new` was itself replaced by it, directly or not."""
    old = to_memory(old_row)
    check_supersedable(old)
    follower: MemoryId | None = new.id
    for _ in range(MAX_SUPERSESSION_CHAIN):
        if follower == old.id:
            raise Conflict(f"memory `{old.id}` supersedes `{new.id}` already: this would be a cycle", id=old.id)
        row = None if follower is None else await tx.one("memory", space=old.space_id, id=follower)
        if row is None:
            break
        follower = row["superseded_by"]
    await change_memory(tx, old_row, replace(old, status=MemoryStatus.SUPERSEDED, superseded_by=new.id), by=by)


async def _resolve_source(tx: Transaction, key: int, source: MemorySource) -> MemorySource:
    """Return a source with its sequence; a message of another space does not exist."""
    row = await tx.one("message_in_thread", space_key=key, thread_id=source.thread_id, message_id=source.message_id)
    if row is None:
        raise NotFound(
            f"there is no message `{source.message_id}` on thread `{source.thread_id}`", id=source.message_id
        )
    if source.end is not None and source.end > len(plain_text(load_content(row["content"]))):
        raise Invalid(f"the quote ends after the text of message `{source.message_id}`", field="sources")
    return replace(source, sequence=row["sequence"])


async def add_memory_edges(tx: Transaction, key: int, memory_key: int, memory: Memory) -> None:
    """Store the sources of a memory, and its edges to messages, entities and other memories."""
    names = {"space_key": key, "memory_key": memory_key}
    for position, source in enumerate(memory.sources):
        await tx.run(
            "add_memory_source",
            position=position,
            thread_id=source.thread_id,
            message_id=source.message_id,
            **names,
        )
    edges: list[tuple[str, str, str, float]] = [
        (memory.id, source.kind.value, source.message_id, 1.0) for source in memory.sources
    ]
    edges += [(memory.id, SUPERSEDES_PREDICATE, old, 1.0) for old in memory.supersedes]
    for entity in memory.entities:
        edges.append((memory.id, entity.role, await _entity_id(tx, key, entity.label, entity.kind), 1.0))
    for relation in memory.relations:
        subject = await _entity_id(tx, key, relation.subject, "thing")
        edges.append(
            (subject, relation.predicate, await _entity_id(tx, key, relation.object, "thing"), relation.weight)
        )
        edges.append((memory.id, relation.predicate, subject, relation.weight))
    for start, predicate, target, weight in dict.fromkeys(edges):
        await tx.run("add_memory_edge", source=start, predicate=predicate, target=target, weight=weight, **names)


async def _add_edge(tx: Transaction, row: Row, source: str, predicate: str, target: str) -> None:
    await tx.run(
        "add_memory_edge",
        space_key=row["space_key"],
        memory_key=row["memory_key"],
        source=source,
        predicate=predicate,
        target=target,
        weight=1.0,
    )


async def _entity_id(tx: Transaction, key: int, label: str, kind: str) -> str:
    folded = fold_label(label)
    await tx.run("add_entity", space_key=key, id=tx.new_id("ent"), label=label.strip(), folded=folded, kind=kind)
    row = await tx.one("entity_by_label", space_key=key, folded=folded)
    assert row is not None
    return str(row["id"])


def _tag_pattern(tag: str) -> str:
    """Return the pattern that finds a tag in the JSON of all tags."""
    escaped = dump_json(tag).replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return f"%{escaped}%"


def _new_memory(tx: Transaction, space: SpaceId, new: NewMemory, status: MemoryStatus) -> Memory:
    values = msgspec.structs.asdict(new)
    for name in ("key", "proposed"):
        del values[name]
    values["id"] = new.id or MemoryId(tx.new_id("mem"))
    now = instant(tx.now)
    memory = Memory(
        **values, space_id=space, status=status, superseded_by=None, version=1, created_at=now, updated_at=now
    )
    return replace(memory, **{name: _utc(getattr(memory, name)) for name in _TIMES})


_TIMES: Final = ("occurred_from", "occurred_until", "valid_from", "valid_until", "expires_at")


def _utc(at: Instant | None) -> Instant | None:
    """Return a time in the form in which times are compared."""
    return None if at is None else instant(millis(at))


def memory_columns(memory: Memory, *, digest: str) -> dict[str, Any]:
    """Return the columns of a memory that a version may change, and those that it keeps."""
    times = {name: _millis(getattr(memory, name)) for name in _TIMES}
    return {
        "id": memory.id,
        "type": memory.type.value,
        "text": memory.text,
        "digest": digest,
        "title": memory.title,
        "category": memory.category,
        "importance": float(memory.importance),
        "tags": dump_json(memory.tags),
        "status": memory.status.value,
        "supersedes": dump_json(memory.supersedes),
        "standing": int(memory.standing),
        **times,
        "happened_at": times["occurred_from"] or millis(memory.created_at),
        "origin": memory.origin.value,
        "taint": dump_json(memory.taint),
        "author": memory.author,
        "agent": memory.agent,
        "thread_id": memory.thread_id,
        "run_id": memory.run_id,
        "sources": dump_json(memory.sources),
        "entities": dump_json(memory.entities),
        "relations": dump_json(memory.relations),
    }


def _millis(at: Instant | None) -> Millis | None:
    return None if at is None else millis(at)


def to_memory(row: Row) -> Memory:
    """Convert a row to a memory."""
    return Memory(
        id=row["id"],
        space_id=row["space_id"],
        type=MemoryType(row["type"]),
        text=row["text"],
        title=row["title"],
        category=row["category"],
        importance=row["importance"],
        tags=load_json(row["tags"]),
        status=MemoryStatus(row["status"]),
        superseded_by=row["superseded_by"],
        supersedes=load_json(row["supersedes"]),
        standing=bool(row["standing"]),
        occurred_from=maybe_instant(row["occurred_from"]),
        occurred_until=maybe_instant(row["occurred_until"]),
        valid_from=maybe_instant(row["valid_from"]),
        valid_until=maybe_instant(row["valid_until"]),
        expires_at=maybe_instant(row["expires_at"]),
        origin=MemoryOrigin(row["origin"]),
        taint=load_json(row["taint"]),
        author=row["author"],
        agent=row["agent"],
        thread_id=row["thread_id"],
        run_id=row["run_id"],
        sources=_sources_decoder.decode(row["sources"]),
        entities=_entities_decoder.decode(row["entities"]),
        relations=_relations_decoder.decode(row["relations"]),
        version=row["version"],
        created_at=instant(row["created_at"]),
        updated_at=instant(row["updated_at"]),
    )
