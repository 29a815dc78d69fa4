"""Threads in SQL."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import UNSET

from holdfast.domain.errors import Conflict, IdTaken, RunActive
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.instant import instant, maybe_instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.domain.thread import (
    NewThread,
    Thread,
    ThreadFilter,
    ThreadPatch,
    ThreadStatus,
    ThreadTotals,
    casefold_title,
    check_new_thread,
    check_thread_filter,
    check_thread_patch,
)
from holdfast.store.encoding import dump_json, load_json, parse_cursor, to_page
from holdfast.store.recall_items import lock_indexes, remove_thread
from holdfast.store.run_rows import to_usage
from holdfast.store.spaces import lock_space_shared, space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, find_row, reads, writes

_JSON_FIELDS: Final = frozenset({"key_points", "metadata"})


class SqlThreads(SqlPort):
    """Implements `Threads`."""

    @writes
    async def create(self, tx: Transaction, space: SpaceId, new: NewThread) -> Thread:
        """Create an active thread."""
        check_new_thread(new)
        (row,) = await add_threads(tx, [(await lock_space_shared(tx, space), new)])
        return to_thread(row, space)

    async def get(self, space: SpaceId, thread: ThreadId) -> Thread:
        """Return the thread."""

        async def find(tx: Transaction) -> Thread:
            return to_thread(await thread_row(tx, space, thread), space)

        return await self._database.read(find, quick=True)

    @reads
    async def totals(
        self, tx: Transaction, space: SpaceId, threads: Sequence[ThreadId]
    ) -> dict[ThreadId, ThreadTotals]:
        """Return usage and open questions of threads."""
        rows = await tx.all("open_interrupts_by_thread", space_key=await space_key(tx, space))
        open_questions = {row["id"]: row["open"] for row in rows}
        rows = await tx.many("thread_usage", [(space, thread) for thread in dict.fromkeys(threads)])
        return {
            row["id"]: ThreadTotals(usage=to_usage(row), open_questions=open_questions.get(row["id"], 0))
            for row in rows
        }

    @reads
    async def page(
        self,
        tx: Transaction,
        space: SpaceId,
        *,
        where: ThreadFilter | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Thread]:
        """Return threads, latest run first."""
        check_page_size(limit)
        where = where or ThreadFilter()
        check_thread_filter(where)
        before_at, before_key = parse_cursor(cursor, first_page=[10**18, 0])
        await space_key(tx, space)
        rows = await tx.all(
            "list_threads",
            space=space,
            before_at=before_at,
            before_key=before_key,
            status=where.status and where.status.value,
            agent_type=where.agent_type,
            title=casefold_title(where.title),
            children=int(where.children),
            limit=limit + 1,
        )
        return to_page(
            rows,
            limit,
            value=lambda row: to_thread(row, space),
            cursor=lambda row: f"{row['listed_at']}.{row['thread_key']}",
        )

    @writes
    async def update(self, tx: Transaction, space: SpaceId, thread: ThreadId, patch: ThreadPatch) -> Thread:
        """Change the fields that `patch` sets."""
        check_thread_patch(patch)
        found = await thread_row(tx, space, thread)
        key = found["thread_key"]
        if patch.status is ThreadStatus.DELETED:
            await lock_indexes(tx, found["space_key"])
        await tx.lock(threads=[key])
        row = await thread_row(tx, space, thread)
        if row["status"] == ThreadStatus.DELETED:
            raise Conflict(f"thread `{thread}` is deleted: it cannot be changed")
        live = await tx.one("live_run_of_thread", thread_key=key) if patch.status is ThreadStatus.DELETED else None
        if live is not None:
            message = f"run `{live['id']}` of the thread is {live['status']}: cancel it first"
            raise RunActive(message, run_id=live["id"])
        if patch.status is ThreadStatus.DELETED:
            await remove_thread(tx, key, again=False)
        return to_thread(await tx.one("update_thread", thread_key=key, **_patched_values(row, patch)) or row, space)


async def thread_row(tx: Transaction, space: SpaceId, thread: ThreadId) -> Row:
    """Return the row of a thread."""
    return await find_row(tx, "thread", "thread", space=space, id=thread)


async def add_threads(tx: Transaction, threads: Sequence[tuple[int, NewThread]]) -> list[Row]:
    """Insert threads, each with the key of its space, and return their rows in order."""
    values = [
        (
            space,
            new.id or tx.new_id("thr"),
            new.title,
            casefold_title(new.title),
            new.agent_type,
            new.locale,
            new.context_window,
            dump_json(new.metadata),
            tx.now,
            new.created_by,
        )
        for space, new in threads
    ]
    added = {(row["space_key"], row["id"]): row for row in await tx.many("add_threads", values)}
    if len(added) != len(threads):
        raise IdTaken(f"there is a thread `{threads[0][1].id}` already: choose another id", id=threads[0][1].id)
    return [added[space, thread_id] for space, thread_id, *_ in values]


def _patched_values(row: Row, patch: ThreadPatch) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in patch.__struct_fields__:
        value = getattr(patch, name)
        values[name] = row[name] if value is UNSET else dump_json(value) if name in _JSON_FIELDS else value
    return values | {"folded_title": casefold_title(values["title"])}


def to_thread(row: Row, space: SpaceId) -> Thread:
    """Convert a row to a thread."""
    return Thread(
        id=row["id"],
        space_id=space,
        title=row["title"],
        agent_type=row["agent_type"],
        status=ThreadStatus(row["status"]),
        locale=row["locale"],
        summary=row["summary"],
        key_points=load_json(row["key_points"]),
        retrieval_index=row["retrieval_index"],
        indexed_sequence=row["indexed_sequence"],
        context_window=row["context_window"],
        metadata=load_json(row["metadata"]),
        next_sequence=row["next_sequence"],
        last_run_at=maybe_instant(row["last_run_at"]),
        created_by=row["created_by"],
        created_at=instant(row["created_at"]),
    )
