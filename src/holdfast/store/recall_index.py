"""The recall index in SQL: a projection of messages, memories and documents into items, terms and postings.

A batch is read, analysed and added in three steps, so that nothing is locked while texts are analysed.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from holdfast.domain.forgetting import is_forgotten
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.instant import Millis
from holdfast.domain.recall import BM25_B, BM25_K, RecallKind
from holdfast.ports.recall import (
    CursorMove,
    IndexReplaced,
    IndexRow,
    IndexSnapshot,
    IndexState,
    Passage,
    PendingSources,
    RecallSource,
    TailName,
    TailSpan,
)
from holdfast.store.encoding import dump_json, load_json
from holdfast.store.memory_graph import message_taints, superseding_memories
from holdfast.store.recall_items import add_passages, lock_indexes, remove_items, remove_source
from holdfast.store.recall_sources import TailReader, message_source, source_of_key, to_message_source
from holdfast.store.spaces import space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, find_row, quick_reads, reads, writes

_CURSORS: Final = {
    RecallKind.MESSAGE: "move_thread_cursor",
    RecallKind.MEMORY: "move_memory_cursor",
    RecallKind.FILE: "move_document_cursor",
}
_BEHIND: Final = {
    RecallKind.MESSAGE: "threads_behind",
    RecallKind.MEMORY: "memories_behind",
    RecallKind.FILE: "documents_behind",
}
"""Statements that find what the active index lacks."""
_TO_BUILD: Final = {
    RecallKind.MESSAGE: "threads_to_build",
    RecallKind.MEMORY: "memories_to_build",
    RecallKind.FILE: "documents_to_build",
}
"""Statements that find what an index under construction lacks."""
_SEQUENCE_END: Final = 2**62
MAX_QUICK_ROWS: Final = 100
"""New rows up to which a snapshot is read on the event loop."""
MAX_QUICK_POSTINGS: Final = 1_000
"""Postings of its terms up to which a search scores them on the event loop."""
_NOTHING_KNOWN: Final[Mapping[TailName, TailSpan]] = {}
_FROM_THE_START: Final[Mapping[RecallKind, int]] = {}


class _TooMuch(Exception):
    """There is more to read than a quick read may."""


class _CursorMoved(Exception):
    """Another process has indexed a source of the batch."""


class SqlRecallIndex(SqlPort):
    """Implements `RecallIndex`."""

    async def spaces(self) -> list[SpaceId]:
        """Return the spaces with something to index."""
        rows = await self._database.read(lambda tx: tx.all("spaces_to_index"), quick=True)
        return [SpaceId(row["id"]) for row in rows]

    async def prepare(self, space: SpaceId, *, analyser: str, embedder: str | None) -> IndexState:
        """Return the active index, and rebuild one that was made otherwise."""
        made = {"analyser": analyser, "embedder": embedder}

        async def find(tx: Transaction) -> tuple[IndexState | None, bool]:
            key = await space_key(tx, space)
            active = await tx.one("active_index", space_key=key)
            building = await tx.one("building_index", space_key=key)
            newest = building or active
            fits = newest is not None and all(newest[name] == value for name, value in made.items())
            return None if active is None else _to_state(active, building), fits

        state, fits = await self._database.read(find)
        if state is not None and fits:
            return state

        async def make(tx: Transaction) -> None:
            key = await space_key(tx, space)
            active = await tx.one("active_index", space_key=key)
            if active is None:
                await tx.run("add_index", space_key=key, active=1, **made)
                return
            await _retire_building(tx, key)
            if any(active[name] != value for name, value in made.items()):
                await tx.run("add_index", space_key=key, active=0, **made)

        await self._database.write(make)
        state, _ = await self._database.read(find)
        assert state is not None
        return state

    @writes
    async def rebuild(self, tx: Transaction, space: SpaceId) -> None:
        """Build the index again beside the active one."""
        key = await space_key(tx, space)
        active = await tx.one("active_index", space_key=key)
        if active is None:
            return
        await _retire_building(tx, key)
        await tx.run("add_index", space_key=key, active=0, analyser=active["analyser"], embedder=active["embedder"])

    @writes
    async def mark_caught_up(self, tx: Transaction, index: int) -> None:
        """Note that an index has taken what was there before it."""
        await tx.run("mark_caught_up", index_key=index)

    @reads
    async def pending(
        self,
        tx: Transaction,
        space: SpaceId,
        *,
        limit: int,
        building: bool = False,
        first: Mapping[RecallKind, int] = _FROM_THE_START,
    ) -> PendingSources | None:
        """Return the next sources to index."""
        key = await space_key(tx, space)
        index = await tx.one("building_index" if building else "active_index", space_key=key)
        if index is None:
            return None
        names: dict[str, Any] = {"space_key": key, "limit": limit}
        if building:
            names["index_key"] = index["index_key"]
        statements = _TO_BUILD if building else _BEHIND
        sources: list[RecallSource] = []
        moves: list[CursorMove] = []
        read = 0
        for thread in await tx.all(statements[RecallKind.MESSAGE], **_from(names, first, RecallKind.MESSAGE)):
            if read >= limit:
                break
            rows = await tx.all(
                "messages_to_index",
                thread_key=thread["thread_key"],
                after=thread["position"],
                before=thread["next_sequence"],
                limit=limit - read,
            )
            whole = len(rows) < limit - read
            read += len(rows)
            end = thread["next_sequence"] - 1 if whole else rows[-1]["sequence"]
            sources += [source for row in rows if (source := await message_source(tx, row)) is not None]
            moves.append(CursorMove(RecallKind.MESSAGE, thread["thread_key"], thread["position"], end))
        for kind in (RecallKind.MEMORY, RecallKind.FILE):
            for row in await tx.all(statements[kind], **_from(names, first, kind)):
                source = await source_of_key(tx, kind, row["source_key"])
                if source is not None and read < limit:
                    read += 1
                    sources.append(source)
                    moves.append(CursorMove(kind, source.key, -1, source.position))
        if not moves:
            return None
        return PendingSources(index=index["index_key"], epoch=index["epoch"], sources=sources, moves=moves)

    async def add(self, space: SpaceId, batch: PendingSources, passages: Sequence[Passage]) -> bool:
        """Add what came of a batch, unless a cursor has moved."""

        async def add(tx: Transaction) -> bool:
            index = await tx.one("lock_index", index_key=batch.index)
            if index is None or index["epoch"] != batch.epoch or index["active"] < 0:
                return False
            replaced = [move for move in batch.moves if move.kind is not RecallKind.MESSAGE]
            removed: list[Row] = []
            for move in replaced:
                rows = await tx.all(
                    "items_of_source", source_key=move.key, kind=move.kind.value, space_key=index["space_key"]
                )
                removed += [row for row in rows if row["index_key"] == batch.index]
            await remove_items(tx, removed)
            await add_passages(tx, index, passages)
            for move in batch.moves:
                if not await _move_cursor(tx, index, move):
                    raise _CursorMoved
            return True

        try:
            return await self._database.write(add)
        except _CursorMoved:
            return False

    @writes
    async def activate(self, tx: Transaction, space: SpaceId) -> bool:
        """Replace the active index by the one that was built."""
        key = await space_key(tx, space)
        await lock_indexes(tx, key)
        building = await tx.one("building_index", space_key=key)
        active = await tx.one("active_index", space_key=key)
        if building is None or active is None:
            return False
        for statement in _TO_BUILD.values():
            if await tx.all(statement, space_key=key, index_key=building["index_key"], first=0, limit=1):
                return False
        await tx.run("replace_index", index_key=active["index_key"])
        await tx.run("activate_index", index_key=building["index_key"], caught_up=active["caught_up"])
        await tx.run("drop_cursors_of_index", index_key=building["index_key"])
        return True

    async def drop_replaced(self, *, limit: int) -> bool:
        """Remove a part of a replaced index."""
        if await self._database.read(lambda tx: tx.one("replaced_index"), quick=True) is None:
            return False
        return await self._drop_replaced(limit=limit)

    @writes
    async def _drop_replaced(self, tx: Transaction, *, limit: int) -> bool:
        index = await tx.one("replaced_index")
        if index is None:
            return False
        key = index["index_key"]
        terms = await tx.all("some_terms_of_index", index_key=key, limit=limit)
        for term in terms:
            await tx.run("drop_some_postings", term_key=term["term_key"])
            await tx.run("drop_term", term_key=term["term_key"])
        if not terms and not await tx.all("drop_some_items", index_key=key, limit=limit):
            await tx.run("drop_cursors_of_index", index_key=key)
            await tx.run("drop_index", index_key=key)
        return True

    async def snapshot(
        self,
        space: SpaceId,
        *,
        after: int,
        index: int | None,
        epoch: int,
        tail: int,
        known: Mapping[TailName, TailSpan] = _NOTHING_KNOWN,
        terms: Sequence[str] = (),
    ) -> IndexSnapshot:
        """Return the state of the index, its new rows, its counts of terms, and what it lacks."""

        async def read(tx: Transaction, max_rows: int) -> IndexSnapshot:
            key = await space_key(tx, space)
            active = await tx.one("active_index", space_key=key)
            building = None if active is None else await tx.one("building_index", space_key=key)
            state = None if active is None else _to_state(active, building)
            rows: list[IndexRow] = []
            counts: dict[str, tuple[int, int]] = {}
            current = state is not None and (state.key, state.epoch) == (index, epoch)
            if state is not None and current:
                found = await tx.all("items_after", index_key=state.key, after=after, limit=max_rows)
                rows = [to_index_row(row) for row in found]
            if state is not None and terms:
                found = await tx.many("term_counts", [(state.key, term) for term in terms])
                counts = {row["term"]: (row["term_key"], row["df"]) for row in found}
            reader = TailReader(tx, key, known if current else _NOTHING_KNOWN, max_rows=max_rows)
            await reader.read(tail)
            if len(rows) == max_rows or reader.rows > max_rows:
                raise _TooMuch
            behind = reader.behind
            if behind >= tail:
                behind = await _messages_behind(tx, key)
            return IndexSnapshot(
                state=state, rows=rows, tail=reader.sources, pending=reader.pending, behind=behind, terms=counts
            )

        if index is not None:  # what is new since the last time is usually little
            with suppress(_TooMuch):
                return await self._database.read(lambda tx: read(tx, MAX_QUICK_ROWS), quick=True)
        return await self._database.read(lambda tx: read(tx, _SEQUENCE_END))

    async def epochs(self, indexes: Sequence[int]) -> dict[int, int]:
        """Return the epochs of the active indexes among these."""

        async def find(tx: Transaction) -> dict[int, int]:
            rows = await tx.many("index_epochs", [(index,) for index in indexes])
            return {row["index_key"]: row["epoch"] for row in rows}

        return await self._database.read(find, quick=len(indexes) <= MAX_QUICK_ROWS) if indexes else {}

    @reads
    async def behind(self, tx: Transaction, space: SpaceId) -> int:
        """Return the number of messages that are not indexed yet."""
        return await _messages_behind(tx, await space_key(tx, space))

    @reads
    async def rows(self, tx: Transaction, index: int, *, after: int, limit: int) -> list[IndexRow]:
        """Return items in the order in which they were added."""
        return [to_index_row(row) for row in await tx.all("items_after", index_key=index, after=after, limit=limit)]

    async def lexical(
        self,
        index: int,
        weights: Sequence[tuple[int, int, float]],
        *,
        average: float,
        limit: int,
        only: Sequence[int] | None,
    ) -> list[tuple[int, float]]:
        """Return the items with the best BM25."""
        if not weights:
            return []
        names: dict[str, Any] = {
            "k": BM25_K,
            "b": BM25_B,
            "average": max(average, 1e-9),
            "terms": dump_json([[key, weight] for key, _, weight in weights]),
            "only": None if only is None else dump_json(list(only)),
            "limit": limit,
        }

        async def find(tx: Transaction) -> list[tuple[int, float]]:
            if await tx.one("is_active_index", index_key=index) is None:
                raise IndexReplaced
            return [(row["seq"], row["score"]) for row in await tx.all("lexical_scores", **names)]

        quick = sum(count for _, count, _ in weights) <= MAX_QUICK_POSTINGS
        return await self._database.read(find, quick=quick)

    async def sources(
        self, space: SpaceId, keys: Sequence[tuple[RecallKind, int]]
    ) -> dict[tuple[RecallKind, int], RecallSource]:
        """Return the named sources of the space that still exist."""

        async def find(tx: Transaction) -> dict[tuple[RecallKind, int], RecallSource]:
            own = await space_key(tx, space)
            found: dict[tuple[RecallKind, int], RecallSource] = {}
            messages = [(key,) for kind, key in dict.fromkeys(keys) if kind is RecallKind.MESSAGE]
            rows = [
                row
                for row in await tx.many("messages_of_keys", messages)
                if row["thread_status"] != "deleted" and not is_forgotten(load_json(row["metadata"]))
            ]
            taints = await message_taints(tx, rows)
            replaced = await superseding_memories(tx, own, [(row["thread_id"], row["id"]) for row in rows])
            for row in rows:
                found[RecallKind.MESSAGE, row["message_key"]] = replace(
                    to_message_source(row, tool_name=None, revises=()),
                    taint=taints[row["message_key"]],
                    superseded_by=replaced.get((row["thread_id"], row["id"]), ()),
                )
            for kind, key in dict.fromkeys(keys):
                if kind is not RecallKind.MESSAGE:
                    source = await source_of_key(tx, kind, key, space_key=own)
                    if source is not None:
                        found[kind, key] = source
            return found

        return await self._database.read(find, quick=len(keys) <= MAX_QUICK_ROWS)

    @quick_reads
    async def memory_sources(self, tx: Transaction, space: SpaceId, memories: Sequence[int]) -> dict[int, list[int]]:
        """Return the keys of the messages that memories came from."""
        await space_key(tx, space)
        return {
            key: [row["message_key"] for row in await tx.all("sources_of_memory", memory_key=key)] for key in memories
        }

    @quick_reads
    async def thread_key(self, tx: Transaction, space: SpaceId, thread: ThreadId) -> int:
        """Return the key of a thread."""
        return int((await find_row(tx, "thread", "thread", space=space, id=thread))["thread_key"])

    @reads
    async def progress(self, tx: Transaction, space: SpaceId) -> float | None:
        """Return the share of a rebuild that is done."""
        key = await space_key(tx, space)
        building = await tx.one("building_index", space_key=key)
        if building is None:
            return None
        row = await tx.one("build_progress", space_key=key, index_key=building["index_key"])
        assert row is not None
        return min(float(row["done"]) / float(row["wanted"]), 1.0) if row["wanted"] else 1.0

    @writes
    async def put_document(self, tx: Transaction, space: SpaceId, id: str, text: str, *, at: Millis) -> None:
        """Keep a document for search."""
        key = await space_key(tx, space)
        known = await tx.one("document_key", space_key=key, id=id)
        if known is None or known["text"] != text:
            await tx.run("put_document", space_key=key, id=id, text=text, at=at)

    @writes
    async def drop_document(self, tx: Transaction, space: SpaceId, id: str) -> None:
        """Remove a document and its items."""
        key = await space_key(tx, space)
        await lock_indexes(tx, key)
        row = await tx.one("document_key", space_key=key, id=id)
        if row is not None:
            await remove_source(tx, key, RecallKind.FILE, row["document_key"])
            await tx.run("drop_document", document_key=row["document_key"])

    @reads
    async def documents(self, tx: Transaction, space: SpaceId) -> list[str]:
        """Return the ids of the documents."""
        return [row["id"] for row in await tx.all("documents_of_space", space_key=await space_key(tx, space))]


async def _retire_building(tx: Transaction, key: int) -> None:
    """Give up an index that is being built: its rows are dropped later."""
    building = await tx.one("building_index", space_key=key)
    if building is not None:
        await tx.run("replace_index", index_key=building["index_key"])


def _from(names: dict[str, Any], first: Mapping[RecallKind, int], kind: RecallKind) -> dict[str, Any]:
    """Return the parameters of a statement that finds sources of a kind."""
    return names | {"first": first.get(kind, 0)}


async def _messages_behind(tx: Transaction, key: int) -> int:
    row = await tx.one("messages_behind", space_key=key)
    assert row is not None
    return int(row["messages"])


async def _move_cursor(tx: Transaction, index: Row, move: CursorMove) -> bool:
    """Move the cursor of a source; return false if it is not where it was when the batch was read."""
    if index["active"] == 1:
        names: dict[str, Any] = {"source_key": move.key, "position": move.position}
        if move.kind is RecallKind.MESSAGE:
            names["expected"] = move.expected
        return await tx.one(_CURSORS[move.kind], **names) is not None
    names = {"index_key": index["index_key"], "kind": move.kind.value, "source_key": move.key}
    row = await tx.one("built_cursor", **names)
    if move.kind is RecallKind.MESSAGE and (-1 if row is None else row["position"]) != move.expected:
        return False
    await tx.run("move_built_cursor", **names, position=move.position)
    return True


def _to_state(row: Row, building: Row | None) -> IndexState:
    return IndexState(
        key=row["index_key"],
        analyser=row["analyser"],
        embedder=row["embedder"],
        items=row["items"],
        length=row["length"],
        epoch=row["epoch"],
        building=building is not None,
        caught_up=bool(row["caught_up"]),
    )


def to_index_row(row: Row) -> IndexRow:
    """Convert a row to an item of the index."""
    values = {name: row[name] for name in IndexRow._fields if name != "revises"}
    return IndexRow(**values, revises=() if row["revises"] is None else tuple(load_json(row["revises"])))
