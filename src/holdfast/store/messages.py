"""Messages in SQL: the message history of a run's chain, and how messages are added to it."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from holdfast.domain.commit import Lease
from holdfast.domain.errors import IdTaken, Invalid, NotFound
from holdfast.domain.ids import MessageId, RunId, SpaceId, ThreadId
from holdfast.domain.instant import instant
from holdfast.domain.message import Message, Role, ToolCall, unanswered_calls
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.store.commit_rows import MessageRow
from holdfast.store.encoding import load_content, load_json, load_tool_calls, parse_cursor, to_page
from holdfast.store.run_rows import base_run, run_key_of, run_row
from holdfast.store.threads import thread_row
from holdfast.store.transaction import Row, SqlPort, Transaction, reads

MAX_HISTORY_MESSAGES: Final = 1000
BEFORE_FIRST_SEQUENCE: Final = -1
AFTER_LAST_SEQUENCE: Final = 2**62
"""Greater than every sequence and message key."""
_EXCHANGE_PAGE_MESSAGES: Final = 50
MESSAGE_COLUMNS: Final = (
    *("thread_key", "run_key", "id", "sequence", "role", "content", "tool_calls", "tool_call_id", "revises"),
    *("metadata", "created_by", "created_at"),
)
"""The columns of a message, in the order of `message_values`."""


class SqlMessages(SqlPort):
    """Implements `Messages`."""

    @reads
    async def history(
        self,
        tx: Transaction,
        space: SpaceId,
        run: RunId,
        *,
        limit: int = DEFAULT_PAGE_SIZE,
        before: int | MessageId | None = None,
    ) -> list[Message]:
        """Return the last messages of a chain, oldest first."""
        check_page_size(limit, maximum=MAX_HISTORY_MESSAGES)
        row = await run_row(tx, space, run)
        if before is None:
            return await last_chain_messages(tx, row["run_key"], limit=limit)
        if isinstance(before, str):
            return await _messages_before_id(tx, row, before, limit=limit)
        return await chain_messages_before(tx, row["run_key"], row["thread_key"], before=before, limit=limit)

    @reads
    async def of_run(self, tx: Transaction, space: SpaceId, run: RunId) -> list[Message]:
        """Return the messages of a run alone."""
        return to_messages(await tx.all("messages_of_run", run_key=await run_key_of(tx, space, run)))

    @reads
    async def after(
        self,
        tx: Transaction,
        space: SpaceId,
        run: RunId,
        *,
        sequence: int | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
    ) -> list[Message]:
        """Return the first messages of a chain after a sequence, oldest first."""
        check_page_size(limit, maximum=MAX_HISTORY_MESSAGES)
        return await chain_messages_after(tx, await run_row(tx, space, run), after=sequence, limit=limit)

    @reads
    async def get(self, tx: Transaction, space: SpaceId, run: RunId, message: MessageId) -> Message:
        """Return the message with that id on a chain."""
        position = await find_on_chain(tx, await run_row(tx, space, run), message)
        found = None if position is None else await tx.one("message_by_key", message_key=position["message_key"])
        if found is None:
            raise NotFound(f"there is no message `{message}` on the chain of run `{run}`", id=message)
        return to_message(found)

    @reads
    async def revisions(
        self,
        tx: Transaction,
        space: SpaceId,
        thread: ThreadId,
        message: MessageId,
        *,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Message]:
        """Return all versions of a message, oldest first."""
        check_page_size(limit)
        (after,) = parse_cursor(cursor, first_page=[0])
        key = (await thread_row(tx, space, thread))["thread_key"]
        if not await tx.many("messages_with_ids", [(key, message)]):
            raise NotFound(f"there is no message `{message}` on thread `{thread}`", id=message)
        rows = await tx.all("revisions", thread_key=key, id=message, after=after, limit=limit + 1)
        return to_page(rows, limit, value=to_message, cursor=lambda row: str(row["message_key"]))

    @reads
    async def find_in_thread(
        self, tx: Transaction, space: SpaceId, thread: ThreadId, message: MessageId
    ) -> list[Message]:
        """Return the messages of a thread with that id, newest first."""
        key = (await thread_row(tx, space, thread))["thread_key"]
        rows = await tx.many("messages_with_ids", [(key, message)])
        keys = sorted((row["message_key"] for row in rows), reverse=True)
        found = [await tx.one("message_by_key", message_key=each) for each in keys]
        return to_messages(row for row in found if row is not None)


async def last_chain_messages(
    tx: Transaction, run_key: int, *, limit: int, before_key: int = AFTER_LAST_SEQUENCE
) -> list[Message]:
    """Return the last messages of a chain, oldest first; input of runs that have not started comes last.

    `before_key` excludes that input from the message with this key on.
    """
    waiting = await tx.all("waiting_on_chain", run_key=run_key, before=before_key, limit=limit)
    count = limit - len(waiting)
    entered = await _walk_chain(tx, run_key, before=AFTER_LAST_SEQUENCE, limit=count) if count > 0 else []
    return to_messages(reversed([*waiting, *entered]))


async def last_messages_of_lease(tx: Transaction, lease: Lease, *, limit: int) -> list[Message]:
    """Return the last messages of a running run's chain, oldest first; all its input has a sequence."""
    if lease.run.base_run_id is not None:
        return to_messages(reversed(await _walk_chain(tx, lease.run_key, before=AFTER_LAST_SEQUENCE, limit=limit)))
    names = {"run_id": lease.run_id, "thread_id": lease.thread_id}
    return to_messages(reversed(await tx.all("last_of_run", run_key=lease.run_key, limit=limit, **names)))


async def chain_messages_before(
    tx: Transaction, run_key: int, thread_key: int, *, before: int, limit: int
) -> list[Message]:
    """Return the messages of a chain before one of its sequences."""
    message = await tx.one("message_at", thread_key=thread_key, sequence=before)
    if message is None or not await is_on_chain(tx, run_key, message):
        raise Invalid("`before` must be the sequence of a message of the run's chain", field="before")
    return to_messages(reversed(await _walk_chain(tx, message["run_key"], before=before, limit=limit)))


async def chain_messages_after(tx: Transaction, run: Row, *, after: int | None, limit: int) -> list[Message]:
    """Return the first messages of a chain after one of its sequences, or from its beginning, oldest first."""
    position = await base_run(tx, run["run_key"])
    assert position is not None
    tip, depth = position["chain_depth"], 0
    if after is not None:
        message = await tx.one("message_at", thread_key=run["thread_key"], sequence=after)
        if message is None or not await is_on_chain(tx, run["run_key"], message):
            raise Invalid("`after_sequence` must be that of a message on the run's branch", field="after_sequence")
        depth = message["chain_depth"]
    found: list[Row] = []
    current = await tx.one("ancestor_at", run_key=run["run_key"], depth=depth)
    while current is not None and len(found) < limit:
        following = None if depth == tip else await tx.one("ancestor_at", run_key=run["run_key"], depth=depth + 1)
        through = None if following is None else following["base_sequence"]
        found += await tx.all(
            "run_messages_after",
            run_key=current["run_key"],
            after=BEFORE_FIRST_SEQUENCE if after is None else after,
            through=AFTER_LAST_SEQUENCE if through is None else through,
            limit=limit - len(found),
        )
        current, depth = following, depth + 1
    messages = to_messages(found)
    if len(messages) < limit:
        waiting = await tx.all("waiting_on_chain", run_key=run["run_key"], before=AFTER_LAST_SEQUENCE, limit=1000)
        messages += to_messages(reversed(waiting))[: limit - len(messages)]
    return messages


async def last_exchange(tx: Transaction, run_key: int) -> list[Message]:
    """Return the last assistant message of a run, with the messages after it."""
    return to_messages(await tx.all("last_exchange", run_key=run_key))


async def calls_cut_off_at(tx: Transaction, run_key: int, sequence: int) -> list[ToolCall]:
    """Return the tool calls on a chain whose results come after a sequence."""
    exchange: list[Message] = []
    before = sequence + 1
    while rows := await _walk_chain(tx, run_key, before=before, limit=_EXCHANGE_PAGE_MESSAGES):
        for message in to_messages(rows):
            exchange.insert(0, message)
            if message.role is not Role.TOOL:  # results directly follow their calls
                return unanswered_calls(exchange)
        before = rows[-1]["sequence"]
    return []


async def is_on_chain(tx: Transaction, run_key: int, message: Row, *, through: int | None = None) -> bool:
    """Return whether `message` is on the chain of a run, which is shown up to the sequence `through`."""
    if message["run_key"] != run_key:
        next_run = await tx.one("ancestor_at", run_key=run_key, depth=message["chain_depth"] + 1)
        if next_run is None or next_run["base_key"] != message["run_key"]:
            return False
        through = next_run["base_sequence"]
    return through is None or (message["sequence"] is not None and message["sequence"] <= through)


async def find_on_chain(tx: Transaction, run: Row, message: MessageId) -> Row | None:
    """Return the key and sequence of the message with that id on a run's chain, if there is one."""
    for candidate in await tx.many("messages_with_ids", [(run["thread_key"], message)]):
        if await is_on_chain(tx, run["run_key"], candidate):
            return candidate
    return None


class ChainTip(msgspec.Struct, frozen=True):
    """The end of a chain that messages are added to: a run, up to the sequence `through`."""

    thread_key: int
    run_key: int
    through: int | None = None


async def check_new_ids(tx: Transaction, added: Iterable[tuple[ChainTip, Sequence[MessageRow]]]) -> None:
    """Raise if a chosen message id exists on its chain; on another branch it may: a revision keeps its id."""
    chosen = [(tip, message.id) for tip, messages in added for message in messages if message.id is not None]
    names = list(dict.fromkeys((tip.thread_key, name) for tip, name in chosen))
    found: dict[tuple[int, str], list[Row]] = {}
    for row in await tx.many("messages_with_ids", names):
        found.setdefault((row["thread_key"], row["id"]), []).append(row)
    for tip, name in chosen:
        for earlier in found.get((tip.thread_key, name), ()):
            if await is_on_chain(tx, tip.run_key, earlier, through=tip.through):
                raise IdTaken(f"there is a message `{name}` on this chain already", id=name)


async def reserve_sequences(tx: Transaction, thread_key: int, count: int) -> int:
    """Reserve `count` sequences of a thread and return the first."""
    (row,) = await tx.many("take_sequences", [(count, thread_key)])
    return int(row["next_sequence"] - count)


async def sequence_input(tx: Transaction, run_key: int, thread_key: int) -> None:
    """Assign sequences to the waiting input of a run."""
    waiting = await tx.all("waiting_input", run_key=run_key)
    if waiting:
        first = await reserve_sequences(tx, thread_key, len(waiting))
        for sequence, row in enumerate(waiting, start=first):
            await tx.run("enter_message", message_key=row["message_key"], sequence=sequence)


def message_values(
    tx: Transaction, row: MessageRow, *, thread_key: int, run_key: int, sequence: int | None
) -> tuple[Any, ...]:
    """Return the values of a message's `MESSAGE_COLUMNS`; its id is the third."""
    return (
        thread_key,
        run_key,
        row.id or tx.new_id("msg"),
        sequence,
        row.role,
        row.content,
        row.tool_calls,
        row.tool_call_id,
        row.revises,
        row.metadata,
        row.created_by,
        tx.now,
    )


async def _messages_before_id(tx: Transaction, run: Row, before: MessageId, *, limit: int) -> list[Message]:
    """Return the messages of a chain before the one with that id, which may have got a sequence meanwhile."""
    position = await find_on_chain(tx, run, before)
    if position is None:
        raise Invalid("`before` must be a message of the run's chain", field="before")
    if position["sequence"] is None:
        return await last_chain_messages(tx, run["run_key"], limit=limit, before_key=position["message_key"])
    return await chain_messages_before(tx, run["run_key"], run["thread_key"], before=position["sequence"], limit=limit)


async def _walk_chain(tx: Transaction, start: int, *, before: int, limit: int) -> list[Row]:
    """Return up to `limit` messages, newest first; it walks on past runs without messages."""
    found: list[Row] = []
    run_key: int | None = start
    while run_key is not None:
        found += await tx.all("history", run_key=run_key, before=before, hops=limit, limit=limit - len(found))
        if len(found) == limit:
            break
        end = await tx.one("chain_end", run_key=run_key, hops=limit)
        run_key = None if end is None else end["base_key"]
        if end is not None and end["base_sequence"] is not None:
            before = min(before, end["base_sequence"] + 1)
    return found


def to_messages(rows: Iterable[Row]) -> list[Message]:
    """Convert rows to messages."""
    return [to_message(row) for row in rows]


def to_message(row: Row) -> Message:
    """Convert a row to a message."""
    return Message(
        id=row["id"],
        thread_id=row["thread_id"],
        run_id=row["run_id"],
        role=Role(row["role"]),
        content=load_content(row["content"]),
        tool_calls=load_tool_calls(row["tool_calls"]),
        tool_call_id=row["tool_call_id"],
        sequence=row["sequence"],
        revises=row["revises"],
        metadata=load_json(row["metadata"]),
        created_by=row["created_by"],
        created_at=instant(row["created_at"]),
    )
