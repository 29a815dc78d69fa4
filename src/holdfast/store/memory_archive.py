"""Export and import of memories in SQL: what was exported is kept as it was, all or none."""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.domain.errors import Conflict, NotFound
from holdfast.domain.ids import SpaceId
from holdfast.domain.instant import millis
from holdfast.domain.memory import (
    Memory,
    MemoryRecord,
    MemorySource,
    MemoryVersion,
    NewMemory,
    check_new_memory,
    memory_digest,
)
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.ports.memory import RestoredMemories
from holdfast.store.encoding import dump_json, parse_cursor, to_page
from holdfast.store.memories import add_memory_edges, memory_columns, memory_versions, to_memory
from holdfast.store.spaces import lock_space_shared, space_key
from holdfast.store.transaction import SqlPort, Transaction, reads, writes


class SqlMemoryArchive(SqlPort):
    """Implements `MemoryArchive`."""

    @reads
    async def export(
        self, tx: Transaction, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[MemoryRecord]:
        """Return all memories with their earlier versions, oldest first."""
        check_page_size(limit)
        (after,) = parse_cursor(cursor, first_page=[0])
        rows = await tx.all("export_memories", space_key=await space_key(tx, space), after=after, limit=limit + 1)
        page = to_page(rows, limit, value=lambda row: row, cursor=lambda row: str(row["memory_key"]))
        items = [MemoryRecord(memory=to_memory(row), history=await memory_versions(tx, row)) for row in page.items]
        return Page(items=items, next_cursor=page.next_cursor)

    @writes
    async def restore(
        self, tx: Transaction, space: SpaceId, records: Sequence[MemoryRecord], *, drop_missing_sources: bool = False
    ) -> RestoredMemories:
        """Keep exported memories as they are, all or none."""
        key = await lock_space_shared(tx, space)
        if not records:
            return RestoredMemories()
        await tx.run("lock_memories", space_key=key)
        known = {record.memory.id for record in records}
        added = unchanged = dropped = 0
        for number, record in enumerate(records, start=1):
            memory = replace(record.memory, space_id=space)
            check_new_memory(_as_new(memory))
            sources = [each for each in memory.sources if await _source_exists(tx, key, each)]
            if len(sources) != len(memory.sources):
                if not drop_missing_sources:
                    raise NotFound(f"line {number}: memory `{memory.id}` names a message that is not in this space")
                dropped += len(memory.sources) - len(sources)
            memory = replace(memory, sources=sources)
            for other in [*memory.supersedes, *([memory.superseded_by] if memory.superseded_by else [])]:
                if other not in known and await tx.one("memory", space=space, id=other) is None:
                    raise NotFound(f"line {number}: memory `{memory.id}` names memory `{other}`, which does not exist")
            row = await tx.one("memory", space=space, id=memory.id)
            if row is None:
                await _add_restored(tx, key, memory, record.history)
                added += 1
            elif to_memory(row) == memory:
                unchanged += 1
            else:
                raise Conflict(f"line {number}: there is another memory `{memory.id}` already", id=memory.id)
        _check_chains([record.memory for record in records])
        return RestoredMemories(added=added, unchanged=unchanged, dropped_sources=dropped)


async def _add_restored(tx: Transaction, key: int, memory: Memory, history: Sequence[MemoryVersion]) -> None:
    """Store a memory with the versions and times that it was exported with."""
    columns = memory_columns(memory, digest=memory_digest(memory.text))
    added = await tx.one("add_memory", space_key=key, key=None, changed_by=None, now=tx.now, **columns)
    assert added is not None
    await tx.run(
        "restore_memory",
        memory_key=added["memory_key"],
        superseded_by=memory.superseded_by,
        version=memory.version,
        created_at=millis(memory.created_at),
        updated_at=millis(memory.updated_at),
    )
    for earlier in history:
        await tx.run(
            "add_memory_version",
            memory_key=added["memory_key"],
            version=earlier.version,
            memory=dump_json(replace(earlier.memory, space_id=memory.space_id)),
            changed_by=earlier.changed_by,
            changed_at=millis(earlier.changed_at),
        )
    await add_memory_edges(tx, key, added["memory_key"], memory)


async def _source_exists(tx: Transaction, key: int, source: MemorySource) -> bool:
    names = {"thread_id": source.thread_id, "message_id": source.message_id}
    return await tx.one("message_in_thread", space_key=key, **names) is not None


def _check_chains(memories: Sequence[Memory]) -> None:
    """Raise if imported supersessions run in a circle."""
    following = {memory.id: memory.superseded_by for memory in memories}
    for start in following:
        seen, at = {start}, following[start]
        while at is not None and at in following:
            if at in seen:
                raise Conflict(f"memory `{start}` supersedes itself over others: this is a cycle", id=start)
            seen.add(at)
            at = following[at]


def _as_new(memory: Memory) -> NewMemory:
    """Return the parts of a memory that are checked when it is new."""
    names = NewMemory.__struct_fields__
    return NewMemory(**{name: getattr(memory, name) for name in names if name not in ("key", "proposed")})
