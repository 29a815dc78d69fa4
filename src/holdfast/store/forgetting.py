"""Forgetting in SQL: one transaction that removes memories, leaves tombstones, and rewrites every copy of the text."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.domain.condition import load_condition
from holdfast.domain.content import Json, plain_text
from holdfast.domain.errors import NotFound, RunActive
from holdfast.domain.forgetting import (
    FORGOTTEN_TEXT,
    ForgetReceipt,
    ForgetRequest,
    QuotationEraser,
    QuotedIn,
    TextEraser,
    check_forget_request,
    is_forgotten,
    tombstone_metadata,
)
from holdfast.domain.ids import MemoryId, SpaceId
from holdfast.domain.instant import instant, millis
from holdfast.domain.memory import Memory, fold_label
from holdfast.domain.message import Message, Role
from holdfast.domain.new_run import title_of
from holdfast.domain.recall import MAX_NEIGHBOUR_CHARS, RecallKind, one_line
from holdfast.domain.run import RunStatus
from holdfast.memory.passages import split
from holdfast.store.conditions import put_reminder_terms
from holdfast.store.encoding import dump_json, load_json, load_optional_json
from holdfast.store.memories import memory_row, to_memory
from holdfast.store.messages import to_message
from holdfast.store.recall_items import lock_indexes, remove_source, remove_thread
from holdfast.store.spaces import lock_space_shared
from holdfast.store.transaction import RetryTransaction, Row, SqlPort, Transaction

SCAN_PAGE_ROWS: Final = 1_000


class _Scan(NamedTuple):
    """A table that may hold copies: the statements that read and rewrite it, its columns and its first keys."""

    read: str
    rewrite: str | None
    columns: str
    start: tuple[Any, Any] = (0, 0)
    quoted_in: QuotedIn | None = None


_COPIES: Final = (
    _Scan("scan_messages", "rewrite_message", "abc", quoted_in=QuotedIn.RESULT),
    _Scan("scan_events", "rewrite_event", "a", quoted_in=QuotedIn.RESULT),
    _Scan("scan_values", "rewrite_value", "a", quoted_in=QuotedIn.JSON_PROMPT),
    _Scan("scan_runs", "rewrite_run", "abcd"),
    _Scan("scan_inbox", "rewrite_inbox", "a"),
    _Scan("scan_interrupts", "rewrite_interrupt", "abcdef"),
    _Scan("scan_contexts", "rewrite_context", "a"),
    _Scan("scan_texts", "rewrite_text", "a", ("", 0), quoted_in=QuotedIn.PROMPT),
    _Scan("scan_threads", "rewrite_thread", "abcde"),
    _Scan("scan_artifacts", "rewrite_artifact", "abc"),
    _Scan("scan_notifications", "rewrite_notification", "a"),
    _Scan("scan_outbox", "rewrite_outbox", "a"),
    _Scan("scan_timers", "rewrite_timer", "a"),
    _Scan("scan_schedules", "rewrite_schedule", "ab"),
    _Scan("scan_firings", "rewrite_firing", "a"),
    _Scan("scan_reminders", "rewrite_reminder", "abcde"),
    _Scan("scan_conditions", "rewrite_condition", "ab"),
    _Scan("scan_deliveries", "rewrite_delivery", "a"),
    _Scan("scan_grants", "rewrite_grant", "a"),
    _Scan("scan_keyed_requests", "rewrite_keyed_request", "a", ("", "")),
)
_QUOTING_MEMORIES: Final = (_Scan("scan_memories", None, "abcd"), _Scan("scan_memory_versions", None, "a"))


class _Selection(msgspec.Struct):
    """What to forget: rows by key."""

    memories: dict[int, Row] = {}
    messages: dict[int, Row] = {}

    def add_memories(self, rows: Sequence[Row]) -> None:
        self.memories.update((row["memory_key"], row) for row in rows)

    def add_messages(self, rows: Sequence[Row]) -> None:
        self.messages.update((row["message_key"], row) for row in rows if not is_forgotten(load_json(row["metadata"])))


class SqlForgetting(SqlPort):
    """Implements `Forgetting`."""

    async def forget(self, space: SpaceId, request: ForgetRequest, *, by: str | None = None) -> ForgetReceipt:
        """Forget what is selected."""
        check_forget_request(request)

        async def forget(tx: Transaction) -> ForgetReceipt:
            return await _forget(tx, space, request, by)

        if request.dry_run:
            return await self._database.write(forget)
        return await self._database.write_and_scrub(forget)


async def _forget(tx: Transaction, space: SpaceId, request: ForgetRequest, by: str | None) -> ForgetReceipt:
    key = await lock_space_shared(tx, space)
    await lock_indexes(tx, key)
    selected = await _select(tx, key, space, request)
    runs = {row["run_key"] for row in selected.messages.values()}
    locked = await tx.lock(threads={row["thread_key"] for row in selected.messages.values()}, runs=runs)
    await tx.run("lock_memories", space_key=key)
    if locked:  # others may have forgotten or said something meanwhile
        selected = await _select(tx, key, space, request)
        if not runs >= {row["run_key"] for row in selected.messages.values()}:
            raise RetryTransaction
    eraser = _eraser(selected)
    await _add_quoting_memories(tx, key, selected, eraser)
    eraser = _eraser(selected)
    await _check_ended(tx, runs)
    counts = {"versions": 0, "edges": 0, "events": 0}
    for memory_key in selected.memories:
        row = await tx.one("counts_of_memory", memory_key=memory_key)
        assert row is not None
        counts["versions"] += row["versions"]
        counts["edges"] += row["edges"]
    receipt = ForgetReceipt(
        dry_run=request.dry_run,
        memories=len(selected.memories),
        versions=counts["versions"],
        edges=counts["edges"],
        messages=len(selected.messages),
        items=await _count_items(tx, key, selected),
        threads=len({row["thread_key"] for row in selected.messages.values()}),
        memory_ids=[MemoryId(row["id"]) for row in selected.memories.values()],
        forgotten_at=instant(tx.now),
        forgotten_by=by,
    )
    if request.dry_run:
        return receipt
    await _drop_memories(tx, key, selected)
    await _drop_documents(tx, key, eraser)
    await _forget_titles(tx, selected)
    for thread_key in {row["thread_key"] for row in selected.messages.values()}:
        await remove_thread(tx, thread_key, again=True)
    events = await _leave_tombstones(tx, selected, by)
    quotations = QuotationEraser(row["id"] for row in (*selected.messages.values(), *selected.memories.values()))
    copies = sum([await _erase_copies(tx, key, scan, eraser, quotations) for scan in _COPIES])
    copies += await _erase_artifact_files(tx, key, runs, eraser)
    await tx.run("ask_for_scrub", space_key=key)
    return msgspec.structs.replace(receipt, events=events, copies=copies)


async def _select(tx: Transaction, key: int, space: SpaceId, request: ForgetRequest) -> _Selection:
    selected = _Selection(memories={}, messages={})
    before = None if request.before is None else millis(request.before, field="before")
    for each in request.ids:
        selected.add_memories([await memory_row(tx, space, each)])
    for message in request.message_ids:
        found = await _messages(tx, key, message_id=message)
        if not found:
            raise NotFound(f"there is no message `{message}`", id=message)
        selected.add_messages(found)
    if request.run_id is not None:
        await _select_all(tx, key, selected, "run", request.run_id, run_id=request.run_id)
    if request.thread_id is not None:
        await _select_all(tx, key, selected, "thread", request.thread_id, thread_id=request.thread_id)
    if request.entity is not None:
        entity = await tx.one("entity_by_label", space_key=key, folded=fold_label(request.entity))
        entity = entity or await tx.one("entity_by_id", space_key=key, id=request.entity)
        if entity is None:
            raise NotFound(f"there is no entity `{request.entity}`", id=request.entity)
        selected.add_memories(await _memories(tx, key, entity=entity["id"], before=before))
    if request.author is not None:
        selected.add_memories(await _memories(tx, key, author=request.author, before=before))
        selected.add_messages(await _messages(tx, key, author=request.author, before=before))
    elif before is not None and request.entity is None:
        selected.add_memories(await _memories(tx, key, before=before))
        selected.add_messages(await _messages(tx, key, before=before))
    await _close(tx, key, selected, with_runs=request.sources)
    return selected


async def _select_all(tx: Transaction, key: int, selected: _Selection, noun: str, name: str, **where: str) -> None:
    messages = await _messages(tx, key, **where)
    memories = await _memories(tx, key, **where)
    if not messages and not memories:
        raise NotFound(f"there is no {noun} `{name}` with anything to forget", id=name)
    selected.add_messages(messages)
    selected.add_memories(memories)


async def _close(tx: Transaction, key: int, selected: _Selection, *, with_runs: bool) -> None:
    """Add the runs that selected memories came from, and the memories that came from selected messages."""
    if with_runs:
        for row in list(selected.memories.values()):
            memory = to_memory(row)
            runs = {memory.run_id} if memory.run_id is not None else set()
            for source in memory.sources:
                found = await _messages(tx, key, message_id=source.message_id, thread_id=source.thread_id)
                runs.update(each["run_id"] for each in found)
            for run in runs:
                selected.add_messages(await _messages(tx, key, run_id=run))
    for row in selected.messages.values():
        names = {"thread_id": row["thread_id"], "message_id": row["id"]}
        for each in await tx.all("memories_of_message", space_key=key, **names):
            if each["memory_key"] not in selected.memories:
                found_row = await tx.one("memory_of_key", memory_key=each["memory_key"])
                assert found_row is not None
                selected.add_memories([found_row])


async def _messages(tx: Transaction, key: int, **where: Any) -> Sequence[Row]:
    names = dict.fromkeys(("message_id", "run_id", "thread_id", "author", "before"))
    return await tx.all("messages_to_forget", space_key=key, **(names | where))


async def _memories(tx: Transaction, key: int, **where: Any) -> Sequence[Row]:
    names = dict.fromkeys(("run_id", "thread_id", "author", "before", "entity"))
    return await tx.all("memories_to_forget", space_key=key, **(names | where))


async def _add_quoting_memories(tx: Transaction, key: int, selected: _Selection, eraser: TextEraser) -> None:
    """Add the memories that repeat a forgotten text."""
    for scan in _QUOTING_MEMORIES:
        async for row in _rows(tx, key, scan):
            if row["one"] not in selected.memories and _erased(row, scan, eraser) is not None:
                found = await tx.one("memory_of_key", memory_key=row["one"])
                assert found is not None
                selected.add_memories([found])


async def _check_ended(tx: Transaction, runs: set[int]) -> None:
    for run_key in runs:
        row = await tx.one("run_texts", run_key=run_key)
        if row is not None and (not RunStatus(row["status"]).terminal or row["lease_owner"] is not None):
            raise RunActive(f"run `{row['id']}` is {row['status']}: end it first", run_id=row["id"])


async def _count_items(tx: Transaction, key: int, selected: _Selection) -> int:
    """Return how many entries of the search index hold what is selected."""
    names = [(RecallKind.MEMORY, memory) for memory in selected.memories]
    names += [(RecallKind.MESSAGE, message) for message in selected.messages]
    return sum(
        [
            len(await tx.all("items_of_source", source_key=source, kind=kind.value, space_key=key))
            for kind, source in names
        ]
    )


async def _drop_memories(tx: Transaction, key: int, selected: _Selection) -> None:
    for memory_key in selected.memories:
        await remove_source(tx, key, RecallKind.MEMORY, memory_key)
        for statement in (
            "drop_memory_versions",
            "drop_memory_sources",
            "drop_memory_edges",
            "drop_memory_uses",
            "drop_memory",
        ):
            await tx.run(statement, memory_key=memory_key)
    await tx.run("drop_unused_entities", space_key=key)


async def _forget_titles(tx: Transaction, selected: _Selection) -> None:
    """Drop the titles of threads that came from a forgotten message."""
    messages: dict[int, list[Message]] = {}
    for row in selected.messages.values():
        messages.setdefault(row["thread_key"], []).append(to_message(row))
    for thread_key, said in messages.items():
        titled = await tx.one("thread_title", thread_key=thread_key)
        titles = {title_of([message], input=None) for message in said if message.role is Role.USER}
        if titled is not None and titled["title"] is not None and titled["title"] in titles:
            await tx.run("forget_thread_title", thread_key=thread_key)


async def _leave_tombstones(tx: Transaction, selected: _Selection, by: str | None) -> int:
    """Replace the content of the messages, and of the events and texts of their runs; return the events rewritten."""
    by_run: dict[int, list[Message]] = {}
    for message_key, row in selected.messages.items():
        message = to_message(row)
        by_run.setdefault(row["run_key"], []).append(message)
        calls = [msgspec.structs.replace(call, arguments={}) for call in message.tool_calls]
        await tx.run(
            "rewrite_message",
            one=message_key,
            a=dump_json(FORGOTTEN_TEXT),
            b=dump_json(calls) if calls else None,
            c=dump_json(tombstone_metadata(at=instant(tx.now), by=by)),
        )
    rewritten = 0
    for run_key, messages in by_run.items():
        await _forget_run_texts(tx, run_key, messages)
        whole = len(await tx.all("messages_of_run", run_key=run_key)) == len(messages)
        scrubber = _EventScrubber(messages, whole=whole)
        for event in await tx.all("events_to_forget", run_key=run_key):
            data = scrubber.scrub(event["type"], event["data"])
            if data is not None:
                await tx.run("rewrite_event", one=run_key, two=event["seq"], a=data)
                rewritten += 1
    return rewritten


async def _forget_run_texts(tx: Transaction, run_key: int, messages: Sequence[Message]) -> None:
    row = await tx.one("run_texts", run_key=run_key)
    assert row is not None
    texts = {plain_text(message.content) for message in messages}
    values = {}
    for name, spoken in (("input", Role.USER), ("output", Role.ASSISTANT)):
        value = load_optional_json(row[name])
        gone = value is not None and (value in texts or any(message.role is spoken for message in messages))
        values[name] = dump_json(FORGOTTEN_TEXT) if gone else row[name]
    await tx.run("forget_run_texts", run_key=run_key, **values)


class _EventScrubber:
    """Rewrites the events of forgotten messages: the same types and numbers, without the text."""

    def __init__(self, messages: Sequence[Message], *, whole: bool) -> None:
        """Rewrite the events of `messages`; if they are the `whole` run, of every message."""
        self._whole = whole
        self._ids = {message.id for message in messages}
        self._calls = {call.id for message in messages for call in message.tool_calls}
        self._user = any(message.role is Role.USER for message in messages)
        self._begun: set[str] = set()

    def scrub(self, type_: str, data: str) -> str | None:
        """Return the new data of an event, or `None` if it stays as it is."""
        event = load_json(data)
        if type_ == "RUN_STARTED" and self._user and "input" in event:
            del event["input"]
        elif "delta" in event and isinstance(event["delta"], str) and self._has(event, "messageId", self._ids):
            event["delta"] = self._first(event["messageId"], FORGOTTEN_TEXT)
        elif "delta" in event and self._has(event, "toolCallId", self._calls):
            event["delta"] = self._first(event["toolCallId"], "{}")
        elif type_ == "TOOL_CALL_RESULT" and self._has(event, "messageId", self._ids):
            event["content"] = FORGOTTEN_TEXT
        elif type_ in ("REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CHUNK") and isinstance(event.get("delta"), str):
            event["delta"] = self._first(event.get("messageId", ""), FORGOTTEN_TEXT)
        elif type_.startswith("ACTIVITY_") and self._has(event, "messageId", self._ids):
            event["content" if "content" in event else "patch"] = {} if "content" in event else []
        else:
            return None
        return dump_json(event)

    def _has(self, event: dict[str, Json], field: str, names: Collection[str]) -> bool:
        return event.get(field) in names or (self._whole and field in event)

    def _first(self, name: str, text: str) -> str:
        """Return `text` for the first part of a stream, and a space for the others, since a part is never empty."""
        if name in self._begun:
            return " "
        self._begun.add(name)
        return text


async def _erase_copies(tx: Transaction, key: int, scan: _Scan, eraser: TextEraser, quotations: QuotationEraser) -> int:
    """Rewrite the rows of a table that hold copies, and return how many."""
    assert scan.rewrite is not None
    changed = 0
    async for row in _rows(tx, key, scan):
        texts = _erased(row, scan, eraser, quotations)
        if texts is not None:
            if scan.read == "scan_messages":
                await _index_again(tx, row["one"])
            more: dict[str, Any] = {}
            if scan.read == "scan_artifacts":
                more = {"digest": _digest(texts["b"]), "size": None if texts["b"] is None else len(texts["b"].encode())}
            await tx.run(scan.rewrite, space_key=key, one=row["one"], two=row["two"], **texts, **more)
            if scan.read == "scan_conditions":
                await put_reminder_terms(tx, key, row["one"], load_condition(load_json(texts["a"] or "{}")))
            changed += 1
    return changed


async def _erase_artifact_files(tx: Transaction, key: int, runs: Collection[int], eraser: TextEraser) -> int:
    """Rewrite the text files of the artifacts that forgotten runs made, and return how many."""
    changed = 0
    for run_key in runs:
        for row in await tx.all("artifact_files_of_run", run_key=run_key):
            with suppress(UnicodeDecodeError):
                before = bytes(row["content"]).decode()
                if (after := eraser.erase(before)) != before:
                    names = {"digest": _digest(after), "size": len(after.encode())}
                    blob = await tx.one("add_blob", space_key=key, content=after.encode(), **names)
                    assert blob is not None
                    await tx.run("point_file", file_key=row["file_key"], blob_key=blob["blob_key"])
                    await tx.run("rewrite_artifacts_of_file", file_key=row["file_key"], **names)
                    await tx.run("drop_unused_blob", blob_key=row["blob_key"])
                    changed += 1
    return changed


def _digest(text: str | None) -> str | None:
    return None if text is None else sha256(text.encode()).hexdigest()


async def _index_again(tx: Transaction, message_key: int) -> None:
    """Let the thread of a message that lost text be indexed from its start."""
    row = await tx.one("message_by_key", message_key=message_key)
    if row is not None:
        await remove_thread(tx, row["thread_key"], again=True)


async def _drop_documents(tx: Transaction, key: int, eraser: TextEraser) -> None:
    """Drop the documents of the recall index that repeat a forgotten text; their owner puts them again without it."""
    async for row in _rows(tx, key, _Scan("scan_documents", None, "a")):
        if eraser.erase(row["a"]) != row["a"]:
            await remove_source(tx, key, RecallKind.FILE, row["one"])
            await tx.run("drop_document", document_key=row["one"])


async def _rows(tx: Transaction, key: int, scan: _Scan) -> Any:
    one, two = scan.start
    while True:
        rows = await tx.all(scan.read, space_key=key, one=one, two=two, limit=SCAN_PAGE_ROWS)
        for row in rows:
            yield row
        if len(rows) < SCAN_PAGE_ROWS:
            return
        one, two = rows[-1]["one"], rows[-1]["two"]


def _erased(
    row: Row, scan: _Scan, eraser: TextEraser, quotations: QuotationEraser | None = None
) -> dict[str, str | None] | None:
    """Return the columns of a row without the copies, or `None` if it has none."""
    before = {name: row[name] for name in scan.columns}
    after = {name: None if text is None else eraser.erase(text) for name, text in before.items()}
    if scan.quoted_in is not None and quotations is not None and after["a"] is not None:
        after["a"] = quotations.erase(after["a"], where=scan.quoted_in)
    return None if after == before else after


def _eraser(selected: _Selection) -> TextEraser:
    """Return what erases every text that must not be left anywhere."""
    memories: list[Memory] = [to_memory(row) for row in selected.memories.values()]
    messages = [to_message(row) for row in selected.messages.values()]
    said = [memory.text for memory in memories] + [plain_text(message.content) for message in messages]
    other = [memory.title or "" for memory in memories]
    other += [text for message in messages for call in message.tool_calls for text in _leaves(call.arguments)]
    return TextEraser([*said, *other], quotations=(part for text in said for part in _quoted(text)))


def _quoted(text: str) -> Iterator[str]:
    """Yield the parts in which prompts and tools quote a text."""
    for part in (text, text[:MAX_NEIGHBOUR_CHARS], *(text[start:end] for start, end in split(text))):
        yield part
        yield one_line(part).removesuffix("…")


def _leaves(value: Json) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for part in value.values():
                yield from _leaves(part)
        case list():
            for part in value:
                yield from _leaves(part)
        case _:
            return
