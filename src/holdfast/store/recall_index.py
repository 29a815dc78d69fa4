"""The recall index in SQL: a projection of messages, memories and documents into items, terms and postings.

A batch is read, analysed and added in three steps, so that nothing is locked while texts are analysed.
"""

from collections.abc import Sequence
from typing import Any, Final

from holdfast.domain.content import plain_text
from holdfast.domain.distillation import is_distiller
from holdfast.domain.forgetting import is_forgotten
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.instant import Millis
from holdfast.domain.message import Role
from holdfast.domain.recall import BM25_B, BM25_K, MEMORY_TOOL_NAMES, RecallKind
from holdfast.ports.recall import (
    CursorMove,
    IndexRow,
    IndexSnapshot,
    IndexState,
    Passage,
    PendingSources,
    RecallSource,
)
from holdfast.store.encoding import dump_json, load_content, load_json
from holdfast.store.recall_items import add_passages, lock_indexes, remove_items, remove_source
from holdfast.store.spaces import space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, find_row, reads, writes

_CURSORS: Final = {
    RecallKind.MESSAGE: "move_thread_cursor",
    RecallKind.MEMORY: "move_memory_cursor",
    RecallKind.FILE: "move_document_cursor",
}
_BEHIND: Final = ("threads_behind", "memories_behind", "documents_behind")
"""Statements that find what the active index lacks."""
_TO_BUILD: Final = ("threads_to_build", "memories_to_build", "documents_to_build")
"""Statements that find what an index under construction lacks."""
_SEQUENCE_END: Final = 2**62


class _CursorMoved(Exception):
    """Another process has indexed a source of the batch."""


class SqlRecallIndex(SqlPort):
    """Implements `RecallIndex`."""

    @reads
    async def spaces(self, tx: Transaction) -> list[SpaceId]:
        """Return the spaces with something to index."""
        return [SpaceId(row["id"]) for row in await tx.all("spaces_to_index")]

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

    @reads
    async def pending(
        self, tx: Transaction, space: SpaceId, *, limit: int, building: bool = False
    ) -> PendingSources | None:
        """Return the next sources to index."""
        key = await space_key(tx, space)
        index = await tx.one("building_index" if building else "active_index", space_key=key)
        if index is None:
            return None
        names: dict[str, Any] = {"space_key": key, "limit": limit}
        if building:
            names["index_key"] = index["index_key"]
        threads, memories, documents = _TO_BUILD if building else _BEHIND
        sources: list[RecallSource] = []
        moves: list[CursorMove] = []
        read = 0
        for thread in await tx.all(threads, **names):
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
            sources += [source for row in rows if (source := await _message_source(tx, row)) is not None]
            moves.append(CursorMove(RecallKind.MESSAGE, thread["thread_key"], thread["position"], end))
        for kind, statement in ((RecallKind.MEMORY, memories), (RecallKind.FILE, documents)):
            for row in await tx.all(statement, **names):
                source = await _source_of_key(tx, kind, row["source_key"])
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
        for statement in _TO_BUILD:
            if await tx.all(statement, space_key=key, index_key=building["index_key"], limit=1):
                return False
        await tx.run("replace_index", index_key=active["index_key"])
        await tx.run("activate_index", index_key=building["index_key"])
        await tx.run("drop_cursors_of_index", index_key=building["index_key"])
        return True

    @writes
    async def drop_replaced(self, tx: Transaction, *, limit: int) -> bool:
        """Remove a part of a replaced index."""
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

    @reads
    async def snapshot(
        self, tx: Transaction, space: SpaceId, *, after: int, index: int | None, epoch: int, tail: int
    ) -> IndexSnapshot:
        """Return the state of the index, its new rows, and what it lacks."""
        key = await space_key(tx, space)
        active = await tx.one("active_index", space_key=key)
        building = await tx.one("building_index", space_key=key)
        state = None if active is None else _to_state(active, building)
        rows: list[IndexRow] = []
        if state is not None and state.key == index and state.epoch == epoch:
            found = await tx.all("items_after", index_key=state.key, after=after, limit=_SEQUENCE_END)
            rows = [to_index_row(row) for row in found]
        behind = await tx.one("messages_behind", space_key=key)
        assert behind is not None
        sources = await _tail(tx, key, limit=tail)
        return IndexSnapshot(state=state, rows=rows, tail=sources, behind=int(behind["messages"]))

    @reads
    async def rows(self, tx: Transaction, index: int, *, after: int, limit: int) -> list[IndexRow]:
        """Return items in the order in which they were added."""
        return [to_index_row(row) for row in await tx.all("items_after", index_key=index, after=after, limit=limit)]

    @reads
    async def term_counts(self, tx: Transaction, index: int, terms: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return key and item count of each known term."""
        rows = await tx.many("term_counts", [(index, term) for term in dict.fromkeys(terms)])
        return {row["term"]: (row["term_key"], row["df"]) for row in rows}

    @reads
    async def lexical(
        self,
        tx: Transaction,
        index: int,
        weights: Sequence[tuple[int, float]],
        *,
        average: float,
        limit: int,
        only: Sequence[int] | None,
    ) -> list[tuple[int, float]]:
        """Return the items with the best BM25."""
        if not weights:
            return []
        rows = await tx.all(
            "lexical_scores",
            k=BM25_K,
            b=BM25_B,
            average=max(average, 1e-9),
            terms=dump_json([[key, weight] for key, weight in weights]),
            only=None if only is None else dump_json(list(only)),
            limit=limit,
        )
        return [(row["seq"], row["score"]) for row in rows]

    @reads
    async def sources(
        self, tx: Transaction, space: SpaceId, keys: Sequence[tuple[RecallKind, int]]
    ) -> dict[tuple[RecallKind, int], RecallSource]:
        """Return the named sources of the space that still exist."""
        own = await space_key(tx, space)
        found: dict[tuple[RecallKind, int], RecallSource] = {}
        messages = [(key,) for kind, key in dict.fromkeys(keys) if kind is RecallKind.MESSAGE]
        for row in await tx.many("messages_of_keys", messages):
            if row["thread_status"] != "deleted" and not is_forgotten(load_json(row["metadata"])):
                found[RecallKind.MESSAGE, row["message_key"]] = _to_message_source(row, tool_name=None, revises=())
        for kind, key in dict.fromkeys(keys):
            if kind is not RecallKind.MESSAGE:
                source = await _source_of_key(tx, kind, key, space_key=own)
                if source is not None:
                    found[kind, key] = source
        return found

    @reads
    async def memory_sources(self, tx: Transaction, space: SpaceId, memories: Sequence[int]) -> dict[int, list[int]]:
        """Return the keys of the messages that memories came from."""
        await space_key(tx, space)
        return {
            key: [row["message_key"] for row in await tx.all("sources_of_memory", memory_key=key)] for key in memories
        }

    @reads
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


async def _tail(tx: Transaction, key: int, *, limit: int) -> list[RecallSource]:
    """Return what the active index lacks: at most `limit` messages, and all memories and documents."""
    sources: list[RecallSource] = []
    left = limit
    for thread in reversed(await tx.all("threads_behind", space_key=key, limit=limit)):
        rows = await tx.all(
            "messages_to_index",
            thread_key=thread["thread_key"],
            after=max(thread["position"], thread["next_sequence"] - 1 - left),
            before=thread["next_sequence"],
            limit=left,
        )
        left -= len(rows)
        sources += [source for row in rows if (source := await _message_source(tx, row)) is not None]
        if left <= 0:
            break
    _, memories, documents = _BEHIND
    for kind, statement in ((RecallKind.MEMORY, memories), (RecallKind.FILE, documents)):
        for row in await tx.all(statement, space_key=key, limit=limit):
            source = await _source_of_key(tx, kind, row["source_key"])
            sources += [] if source is None else [source]
    return sources


async def _message_source(tx: Transaction, row: Row) -> RecallSource | None:
    """Return a message to index, or `None` if recall leaves it out."""
    skipped = row["role"] == Role.SYSTEM or row["tool_name"] in MEMORY_TOOL_NAMES or is_distiller(row["agent_type"])
    if skipped or is_forgotten(load_json(row["metadata"])):
        return None
    revises: tuple[int, ...] = ()
    if row["revises"] is not None:
        names = {"thread_key": row["thread_key"], "id": row["revises"], "before": row["sequence"]}
        revises = tuple(each["message_key"] for each in await tx.all("earlier_messages_of_id", **names))
    return _to_message_source(row, tool_name=row["tool_name"], revises=revises)


async def _source_of_key(
    tx: Transaction, kind: RecallKind, key: int, *, space_key: int | None = None
) -> RecallSource | None:
    """Return a memory or document, if it exists in the space."""
    memory = kind is RecallKind.MEMORY
    row = await (tx.one("memory_of_key", memory_key=key) if memory else tx.one("document_of_key", document_key=key))
    if row is None or space_key not in (None, row["space_key"]):
        return None
    return _to_memory_source(row) if memory else _to_document_source(row)


def _to_message_source(row: Row, *, tool_name: str | None, revises: tuple[int, ...]) -> RecallSource:
    role = Role(row["role"])
    speakers = {Role.USER: row["created_by"] or Role.USER.value, Role.ASSISTANT: row["agent_type"]}
    return RecallSource(
        kind=RecallKind.MESSAGE,
        key=row["message_key"],
        id=row["id"],
        position=row["sequence"],
        text=plain_text(load_content(row["content"])),
        at=row["created_at"],
        thread_key=row["thread_key"],
        thread_id=row["thread_id"],
        run_id=row["run_id"],
        role=role,
        speaker=speakers.get(role, tool_name),
        revises=revises,
    )


def _to_memory_source(row: Row) -> RecallSource:
    text = row["text"] if row["title"] is None else f"{row['title']}\n{row['text']}"
    return RecallSource(
        kind=RecallKind.MEMORY,
        key=row["memory_key"],
        id=row["id"],
        position=row["version"],
        text=text,
        at=row["happened_at"],
        thread_id=row["thread_id"],
        run_id=row["run_id"],
        speaker=row["author"],
        status=row["status"],
        importance=row["importance"],
        expires_at=row["expires_at"],
    )


def _to_document_source(row: Row) -> RecallSource:
    return RecallSource(
        kind=RecallKind.FILE,
        key=row["document_key"],
        id=row["id"],
        position=row["version"],
        text=row["text"],
        at=row["at"],
    )


def _to_state(row: Row, building: Row | None) -> IndexState:
    return IndexState(
        key=row["index_key"],
        analyser=row["analyser"],
        embedder=row["embedder"],
        items=row["items"],
        length=row["length"],
        epoch=row["epoch"],
        building=building is not None,
    )


def to_index_row(row: Row) -> IndexRow:
    """Convert a row to an item of the index."""
    values = {name: row[name] for name in IndexRow._fields if name != "revises"}
    return IndexRow(**values, revises=() if row["revises"] is None else tuple(load_json(row["revises"])))
