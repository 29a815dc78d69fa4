"""The sources of the recall index in SQL: messages, memories and documents, and the tail that is not indexed yet."""

from collections.abc import Mapping

from holdfast.domain.content import plain_text
from holdfast.domain.distillation import is_distiller
from holdfast.domain.forgetting import is_forgotten
from holdfast.domain.message import Role
from holdfast.domain.recall import MEMORY_TOOL_NAMES, RecallKind
from holdfast.ports.recall import RecallSource, TailName, TailSpan
from holdfast.store.encoding import load_content, load_json
from holdfast.store.transaction import Row, Transaction


class TailReader:
    """Reads what the active index lacks and the caller does not know yet."""

    def __init__(self, tx: Transaction, key: int, known: Mapping[TailName, TailSpan], *, max_rows: int) -> None:
        self._tx = tx
        self._key = key
        self._known = known
        self._max_rows = max_rows
        self.rows = 0
        self.behind = 0
        self.sources: list[RecallSource] = []
        self.pending: dict[TailName, TailSpan] = {}

    async def read(self, limit: int) -> None:
        """Read at most `limit` messages, and all memories and documents."""
        if limit <= 0:
            return
        for thread in await self._tx.all("threads_in_tail", space_key=self._key, limit=limit):
            low, high = thread["position"], thread["next_sequence"] - 1
            low = max(low, high - (limit - self.behind))
            self.behind += high - low
            self.pending[RecallKind.MESSAGE, thread["thread_key"]] = (low, high)
            known_low, known_high = self._known.get((RecallKind.MESSAGE, thread["thread_key"]), (low, low))
            after = known_high if known_low <= low <= known_high else low
            if after < high:
                await self._read_messages(thread["thread_key"], after, high)
            if self.behind >= limit or self.rows > self._max_rows:
                break
        for kind, statement in ((RecallKind.MEMORY, "memories_behind"), (RecallKind.FILE, "documents_behind")):
            for row in await self._tx.all(statement, space_key=self._key, limit=limit):
                name, version = (kind, row["source_key"]), row["version"]
                self.pending[name] = (version - 1, version)
                if self._known.get(name) != (version - 1, version) and self.rows <= self._max_rows:
                    self._add(await source_of_key(self._tx, kind, row["source_key"]))

    async def _read_messages(self, thread_key: int, after: int, high: int) -> None:
        names = {"thread_key": thread_key, "after": after, "before": high + 1, "limit": high - after}
        for row in await self._tx.all("messages_to_index", **names):
            self._add(await message_source(self._tx, row))

    def _add(self, source: RecallSource | None) -> None:
        self.rows += 1
        self.sources += [] if source is None else [source]


async def message_source(tx: Transaction, row: Row) -> RecallSource | None:
    """Return a message to index, or `None` if recall leaves it out."""
    skipped = row["role"] == Role.SYSTEM or row["tool_name"] in MEMORY_TOOL_NAMES or is_distiller(row["agent_type"])
    if skipped or is_forgotten(load_json(row["metadata"])):
        return None
    revises: tuple[int, ...] = ()
    if row["revises"] is not None:
        names = {"thread_key": row["thread_key"], "id": row["revises"], "before": row["sequence"]}
        revises = tuple(each["message_key"] for each in await tx.all("earlier_messages_of_id", **names))
    return to_message_source(row, tool_name=row["tool_name"], revises=revises)


async def source_of_key(
    tx: Transaction, kind: RecallKind, key: int, *, space_key: int | None = None
) -> RecallSource | None:
    """Return a memory or document, if it exists in the space."""
    memory = kind is RecallKind.MEMORY
    row = await (tx.one("memory_of_key", memory_key=key) if memory else tx.one("document_of_key", document_key=key))
    if row is None or space_key not in (None, row["space_key"]):
        return None
    return _to_memory_source(row) if memory else _to_document_source(row)


def to_message_source(row: Row, *, tool_name: str | None, revises: tuple[int, ...]) -> RecallSource:
    """Convert a row to a message as recall reads it."""
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
