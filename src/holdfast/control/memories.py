"""Memories of a space, for people: keep, search, correct, export, import and forget."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.forgetting import ForgetReceipt, ForgetRequest, check_forget_request
from holdfast.domain.idempotency import KeyedRequest, KeyedResult
from holdfast.domain.ids import MemoryId, SpaceId
from holdfast.domain.memory import (
    GraphHit,
    Memory,
    MemoryOrigin,
    MemoryPatch,
    MemoryRecord,
    MemoryVersion,
    NewMemory,
    Provenance,
    Timeline,
    TimelineQuery,
    check_new_memory,
)
from holdfast.domain.page import MAX_PAGE_SIZE
from holdfast.domain.recall import RecallStatus
from holdfast.ports.memory import Forgetting, Memories, MemoryArchive, MemoryGraph, Recall, RestoredMemories
from holdfast.ports.requests import KeyedRequests, RequestPorts

MAX_IMPORT_LINES: Final = 100_000
_record_decoder: Final = msgspec.json.Decoder(MemoryRecord)


class _MemoryName(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a keyed request; the text stays in one place, and is forgotten with the memory."""

    id: MemoryId


class MemoryControl:
    """Commands and queries for memories."""

    def __init__(
        self,
        *,
        memories: Memories,
        graph: MemoryGraph,
        archive: MemoryArchive,
        forgetting: Forgetting,
        requests: KeyedRequests,
        recall: Recall,
        principal: str | None = None,
    ) -> None:
        """Record `principal` as the author of changes."""
        self._memories = memories
        self._graph = graph
        self._archive = archive
        self._forgetting = forgetting
        self._requests = requests
        self._recall = recall
        self._principal = principal

    async def create(
        self, space: SpaceId, new: NewMemory, *, request: KeyedRequest | None = None
    ) -> KeyedResult[Memory]:
        """Keep a person's memory."""
        made = self._authored(new)
        check_new_memory(made)

        async def create(ports: RequestPorts) -> _MemoryName:
            return _MemoryName(id=(await ports.memories.put(space, made)).memory.id)

        return await self._keyed(space, request, create)

    async def update(
        self, space: SpaceId, memory: MemoryId, patch: MemoryPatch, *, version: int | None = None
    ) -> Memory:
        """Add a version."""
        return await self._memories.update(space, memory, patch, by=self._principal, version=version)

    async def supersede(
        self, space: SpaceId, memory: MemoryId, new: MemoryId | NewMemory, *, request: KeyedRequest | None = None
    ) -> KeyedResult[Memory]:
        """Replace a memory by another one, and return that."""
        replacement = self._authored(new) if isinstance(new, NewMemory) else new
        if isinstance(replacement, NewMemory):
            check_new_memory(replacement)

        async def supersede(ports: RequestPorts) -> _MemoryName:
            made = await ports.memories.supersede(space, memory, new=replacement, by=self._principal)
            return _MemoryName(id=made.id)

        return await self._keyed(space, request, supersede)

    async def accept(self, space: SpaceId, memory: MemoryId) -> Memory:
        """Make a proposed memory active."""
        return await self._memories.accept(space, memory, by=self._principal)

    async def retract(self, space: SpaceId, memory: MemoryId) -> Memory:
        """Mark a memory as wrong or unwanted."""
        return await self._memories.retract(space, memory, by=self._principal)

    async def history(self, space: SpaceId, memory: MemoryId) -> list[MemoryVersion]:
        """Return all versions of a memory, oldest first."""
        return await self._memories.history(space, memory)

    async def provenance(self, space: SpaceId, memory: MemoryId) -> Provenance:
        """Return where a memory came from."""
        return await self._graph.provenance(space, memory)

    async def timeline(self, space: SpaceId, query: TimelineQuery) -> Timeline:
        """Return messages and memories in a span of time."""
        return await self._graph.timeline(space, query)

    async def walk(
        self, space: SpaceId, start: str, *, max_depth: int, relation_types: Sequence[str] | None, limit: int
    ) -> list[GraphHit]:
        """Return the nodes around a start."""
        return await self._graph.walk(space, start, max_depth=max_depth, relation_types=relation_types, limit=limit)

    async def export(self, space: SpaceId) -> AsyncIterator[bytes]:
        """Yield every memory with its history as a line of JSON, oldest first."""
        page = await self._archive.export(space, limit=MAX_PAGE_SIZE)
        while True:
            for record in page.items:
                yield msgspec.json.encode(record) + b"\n"
            if page.next_cursor is None:
                return
            page = await self._archive.export(space, limit=MAX_PAGE_SIZE, cursor=page.next_cursor)

    async def restore(
        self,
        space: SpaceId,
        lines: bytes,
        *,
        drop_missing_sources: bool = False,
        request: KeyedRequest | None = None,
    ) -> KeyedResult[RestoredMemories]:
        """Import exported memories, all or none."""
        records = await asyncio.to_thread(parse_records, lines)
        return await self._requests.once(
            space,
            request,
            kind=RestoredMemories,
            create=lambda ports: ports.memory_archive.restore(
                space, records, drop_missing_sources=drop_missing_sources
            ),
        )

    async def forget(
        self, space: SpaceId, selection: ForgetRequest, *, request: KeyedRequest | None = None
    ) -> KeyedResult[ForgetReceipt]:
        """Forget what is selected, and return the receipt; a repeated request gets the receipt of the first."""
        check_forget_request(selection)
        earlier = await self._requests.find(space, request, kind=ForgetReceipt)
        if earlier is not None:
            return KeyedResult(value=earlier, replayed=True)
        receipt = await self._forgetting.forget(space, selection, by=self._principal)

        async def keep(_: RequestPorts) -> ForgetReceipt:
            return receipt

        return await self._requests.once(space, request, kind=ForgetReceipt, create=keep)

    async def index_status(self, space: SpaceId) -> RecallStatus:
        """Return how far the search index is."""
        return await self._recall.status(space)

    async def rebuild_index(self, space: SpaceId) -> RecallStatus:
        """Build the search index again, and return how far it is."""
        await self._recall.rebuild(space)
        return await self._recall.status(space)

    def _authored(self, new: NewMemory) -> NewMemory:
        return replace(new, origin=MemoryOrigin.PERSON, author=self._principal, key=None)

    async def _keyed(
        self,
        space: SpaceId,
        request: KeyedRequest | None,
        create: Callable[[RequestPorts], Awaitable[_MemoryName]],
    ) -> KeyedResult[Memory]:
        made = await self._requests.once(space, request, kind=_MemoryName, create=create)
        return KeyedResult(value=await self._memories.get(space, made.value.id), replayed=made.replayed)


def parse_records(lines: bytes) -> list[MemoryRecord]:
    """Return the records of an export, one JSON object per line; blank lines are skipped."""
    records: list[MemoryRecord] = []
    for number, line in enumerate(lines.splitlines(), start=1):
        if not line.strip():
            continue
        if len(records) >= MAX_IMPORT_LINES:
            raise TooLarge(f"an import may have at most {MAX_IMPORT_LINES} memories: split the file")
        try:
            records.append(_record_decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise Invalid(f"line {number} is not an exported memory: {exc}", line=number) from exc
    return records
