"""The inbox in SQL: what comes in from outside, and wakes a waiting run in the same transaction."""

from collections.abc import Collection
from typing import Any

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, IdTaken
from holdfast.domain.ids import MessageId, RunId, SpaceId
from holdfast.domain.inbox import InboxItem, InboxKind
from holdfast.domain.instant import instant
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.timer import TimerClaim
from holdfast.store.encoding import dump, load
from holdfast.store.messages import named_on_chain
from holdfast.store.run_rows import run_key_of, run_row
from holdfast.store.timers import settle_claim
from holdfast.store.transaction import Database, Row, Transaction
from holdfast.store.values import taint_at_end


class SqlInbox:
    """`Inbox`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(
        self,
        space: SpaceId,
        run: RunId,
        *,
        kind: InboxKind,
        data: Json,
        by: str | None = None,
        fires: TimerClaim | None = None,
    ) -> int:
        """Add an item, and queue the run if it waits."""
        text = dump(data)

        async def add(tx: Transaction) -> int:
            key = await run_key_of(tx, space, run)
            await tx.lock(runs=[key])
            if kind is InboxKind.MESSAGE and isinstance(data, dict) and data.get("id") is not None:
                await _check_new_id(tx, await run_row(tx, space, run), data["id"])
            if fires is not None:
                await settle_claim(tx, fires)
            number = await put_item(tx, key, kind=kind, data=text, by=by)
            if number is None:
                raise Conflict(f"run `{run}` has ended: it reads nothing any more", run_id=run)
            tx.wake(run=(space, run), queue=True)
            return number

        return await self._database.write(add)


async def put_item(tx: Transaction, run_key: int, *, kind: InboxKind, data: str, by: str | None = None) -> int | None:
    """Add an item to a run's inbox and return its number; `None` if the run has ended."""
    head = await tx.one("add_to_inbox", run_key=run_key, now=tx.now)
    if head is None:
        return None
    number: int = head["last_inbox_number"]
    if head["status"] == RunStatus.QUEUED:
        await _go_on(tx, run_key)
    await tx.run(
        "add_inbox_item",
        run_key=run_key,
        number=number,
        kind=kind.value,
        data=data,
        created_by=by,
        now=tx.now,
    )
    return number


async def _check_new_id(tx: Transaction, run: Row, message: MessageId) -> None:
    """Raise if a message of a run's chain has that id, or one that the run, which is held, has not read yet."""
    unread = map(to_item, await tx.all("inbox_of_run", run_key=run["run_key"]))
    told = [item.data for item in unread if item.kind is InboxKind.MESSAGE and isinstance(item.data, dict)]
    if any(each.get("id") == message for each in told) or await named_on_chain(tx, run, message) is not None:
        raise IdTaken(f"there is a message `{message}` on the chain of run `{run['id']}` already", id=message)


async def _go_on(tx: Transaction, run_key: int) -> None:
    """Let a run that may have been waiting work towards its deadline again, and forget for whom it waited."""
    if await tx.one("resume_deadline", run_key=run_key, now=tx.now) is not None:
        tx.wake(timers=True)
    await tx.run("forget_waits", run_key=run_key)


async def tell_parent(tx: Transaction, parent_key: int | None, child: Run, *, besides: Collection[int] = ()) -> None:
    """Put a child's end into its parent's inbox, unless the parent is among those that end with it."""
    if parent_key is None or parent_key in besides:
        return
    if await put_item(tx, parent_key, kind=InboxKind.CHILD, data=dump(await ended_item(tx, child))) is not None:
        tx.wake(queue=True)


async def ended_item(tx: Transaction, run: Run) -> dict[str, Any]:
    """Return what others are told of the end of a run."""
    taint = await taint_at_end(tx, await run_key_of(tx, run.space_id, run.id))
    return {
        "run_id": run.id,
        "thread_id": run.thread_id,
        "status": run.status,
        "output": run.output,
        "error": run.error,
        **({"taint": taint} if taint else {}),
    }


def to_item(row: Row) -> InboxItem:
    """Return a row as an item."""
    return InboxItem(
        number=row["number"],
        kind=InboxKind(row["kind"]),
        data=load(row["data"]),
        created_by=row["created_by"],
        created_at=instant(row["created_at"]),
    )
