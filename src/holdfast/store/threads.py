"""Threads in SQL."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import UNSET

from holdfast.domain.errors import Conflict, IdTaken, NotFound, RunActive
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.instant import instant, maybe_instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.domain.thread import (
    NewThread,
    Thread,
    ThreadFilter,
    ThreadPatch,
    ThreadStatus,
    casefold_title,
    check_new_thread,
    check_thread_filter,
    check_thread_patch,
)
from holdfast.store.encoding import dump_json, load_json, parse_pair_cursor, to_page
from holdfast.store.spaces import lock_space_shared, space_key
from holdfast.store.transaction import Database, Row, Transaction

_JSON_FIELDS: Final = frozenset({"key_points", "metadata"})
_BEFORE_FIRST_PAGE: Final = (10**18, 0)


class SqlThreads:
    """`Threads`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, space: SpaceId, new: NewThread) -> Thread:
        """Make an active thread."""
        check_new_thread(new)

        async def add(tx: Transaction) -> Thread:
            (row,) = await add_threads(tx, [(await lock_space_shared(tx, space), new)])
            return to_thread(row, space)

        return await self._database.write(add)

    async def get(self, space: SpaceId, thread: ThreadId) -> Thread:
        """Return the thread."""

        async def find(tx: Transaction) -> Thread:
            return to_thread(await thread_row(tx, space, thread), space)

        return await self._database.read(find, quick=True)

    async def page(
        self,
        space: SpaceId,
        *,
        where: ThreadFilter | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Thread]:
        """Return threads, the one with the latest run first."""
        check_page_size(limit)
        where = where or ThreadFilter()
        check_thread_filter(where)
        before_at, before_key = _BEFORE_FIRST_PAGE if cursor is None else parse_pair_cursor(cursor)

        async def find(tx: Transaction) -> Page[Thread]:
            await space_key(tx, space)
            rows = await tx.all(
                "list_threads",
                space=space,
                before_at=before_at,
                before_key=before_key,
                status=where.status and where.status.value,
                agent_type=where.agent_type,
                title=casefold_title(where.title),
                limit=limit + 1,
            )
            return to_page(rows, limit, value=lambda row: to_thread(row, space), cursor=_cursor)

        return await self._database.read(find)

    async def update(self, space: SpaceId, thread: ThreadId, patch: ThreadPatch) -> Thread:
        """Change what `patch` names."""
        check_thread_patch(patch)

        async def change(tx: Transaction) -> Thread:
            key = (await thread_row(tx, space, thread))["thread_key"]
            await tx.lock(threads=[key])
            row = await thread_row(tx, space, thread)
            if row["status"] == ThreadStatus.DELETED:
                raise Conflict(f"thread `{thread}` is deleted")
            if patch.status is ThreadStatus.DELETED:
                await _check_no_live_run(tx, key)
            return to_thread(await tx.one("update_thread", thread_key=key, **_patched_values(row, patch)) or row, space)

        return await self._database.write(change)


async def thread_row(tx: Transaction, space: SpaceId, thread: ThreadId) -> Row:
    """Return the row of a thread."""
    row = await tx.one("thread", space=space, id=thread)
    if row is None:
        raise NotFound(f"there is no thread `{thread}`", id=thread)
    return row


async def add_threads(tx: Transaction, threads: Sequence[tuple[int, NewThread]]) -> list[Row]:
    """Insert threads into the spaces of these keys and return their rows, in order."""
    values = [_thread_values(tx, space, new) for space, new in threads]
    added = {(row["space_key"], row["id"]): row for row in await tx.many("add_threads", values)}
    if len(added) != len(threads):
        raise IdTaken(f"there is a thread `{threads[0][1].id}` already", id=threads[0][1].id)
    return [added[space, thread_id] for space, thread_id, *_ in values]


async def _check_no_live_run(tx: Transaction, thread_key: int) -> None:
    """Raise if a run of a thread that is held is live."""
    live = await tx.one("live_run_of_thread", thread_key=thread_key)
    if live is not None:
        raise RunActive(f"run `{live['id']}` of the thread is {live['status']}: cancel it first", run_id=live["id"])


def _thread_values(tx: Transaction, space: int, new: NewThread) -> tuple[Any, ...]:
    return (
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


def _patched_values(row: Row, patch: ThreadPatch) -> dict[str, Any]:
    given = ((name, getattr(patch, name)) for name in patch.__struct_fields__)
    patched = {
        name: row[name] if value is UNSET else dump_json(value) if name in _JSON_FIELDS else value
        for name, value in given
    }
    return patched | {"folded_title": casefold_title(patched["title"])}


def _cursor(row: Row) -> str:
    return f"{row['listed_at']}.{row['thread_key']}"


def to_thread(row: Row, space: SpaceId) -> Thread:
    """Return a row as a thread."""
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
