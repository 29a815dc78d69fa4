"""Notifications in SQL.

A commit writes its notifications into the outbox. The dispatcher numbers them later, in one transaction at a time: an
identity column would hand out numbers in an order in which rows do not become visible, and a reader would miss some.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import count

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import InterruptId, RunId, SpaceId, ThreadId
from holdfast.domain.instant import instant, maybe_instant
from holdfast.domain.notification import NOTIFICATION_KINDS, Notification, NotificationKind
from holdfast.domain.page import DEFAULT_PAGE_SIZE, check_page_size
from holdfast.domain.run import Run, RunStatus
from holdfast.store.encoding import dump_json, load_optional_json
from holdfast.store.spaces import space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, reads, writes
from holdfast.store.webhooks import add_deliveries

NotificationRow = tuple[int, str, str | None, str | None, str, int]


class SqlNotifications(SqlPort):
    """Implements `Notifications`."""

    @writes
    async def dispatch(self, tx: Transaction, *, limit: int = 1000) -> list[SpaceId]:
        """Number the notifications in the outbox."""
        check_page_size(limit, maximum=1000)
        await tx.all("lock_outbox")
        rows = await tx.all("outbox", limit=limit)
        counts = Counter(row["space_key"] for row in rows)
        spaces = await tx.many("take_notification_numbers", [(added, key) for key, added in counts.items()])
        numbers = {row["space_key"]: count(row["last_notification"] - counts[row["space_key"]] + 1) for row in spaces}
        numbered = [
            (
                row["space_key"],
                next(numbers[row["space_key"]]),
                row["kind"],
                row["run_id"],
                row["thread_id"],
                row["data"],
                row["created_at"],
            )
            for row in rows
            if row["space_key"] in numbers
        ]
        await tx.many("add_notifications", numbered)
        await add_deliveries(tx, numbered, {row["space_key"]: row["id"] for row in spaces})
        await tx.many("drop_from_outbox", [(row["outbox_key"],) for row in rows])
        tx.hints.add(news=bool(numbered))
        return sorted({row["id"] for row in spaces})

    @reads
    async def after(
        self, tx: Transaction, space: SpaceId, number: int = 0, *, limit: int = DEFAULT_PAGE_SIZE
    ) -> list[Notification]:
        """Return notifications above a number."""
        check_page_size(limit, maximum=1000)
        key = await space_key(tx, space)
        rows = await tx.all("notifications_after", space_key=key, number=number, limit=limit)
        return [_to_notification(row) for row in rows]

    @reads
    async def latest(
        self, tx: Transaction, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, before: int | None = None
    ) -> list[Notification]:
        """Return the latest notifications, newest first."""
        check_page_size(limit, maximum=1000)
        before = 2**62 if before is None else before
        key = await space_key(tx, space)
        rows = await tx.all("notifications_before", space_key=key, before=before, limit=limit)
        return [_to_notification(row) for row in rows]

    @reads
    async def unread(self, tx: Transaction, space: SpaceId) -> int:
        """Return the number of unread notifications."""
        row = await tx.one("unread_notifications", space_key=await space_key(tx, space))
        return 0 if row is None else int(row["unread"])

    @writes
    async def mark_read(
        self, tx: Transaction, space: SpaceId, *, through: int | None = None, number: int | None = None
    ) -> int:
        """Mark one notification as read, or all up to a number."""
        if (through is None) == (number is None):
            raise Invalid("pass either `number` or `through`")
        key = await space_key(tx, space)
        if number is not None and await tx.one("notification", space_key=key, number=number) is None:
            raise NotFound(f"there is no notification {number}")
        first, last = (0, through) if number is None else (number, number)
        return len(await tx.all("read_notifications", space_key=key, first=first, last=last, now=tx.now))


def notification_row(
    tx: Transaction, space: int, run: Run, to: RunStatus, reason: str | None, interrupts: Sequence[InterruptId] = ()
) -> NotificationRow:
    """Return the values of the statement `add_to_outbox` for a move of a run, which may wait for interrupts."""
    named: Json = {"interrupt_ids": list(interrupts)} if interrupts else {}
    data = dump_json({"status": to, "reason": reason, **named})
    return space, NOTIFICATION_KINDS[to].value, run.id, run.thread_id, data, tx.now


def event_row(
    tx: Transaction,
    space: int,
    kind: str,
    *,
    data: Json,
    run_id: RunId | None = None,
    thread_id: ThreadId | None = None,
) -> NotificationRow:
    """Return the values of the statement `add_to_outbox` for an event that is not a move of a run."""
    return space, str(kind), run_id, thread_id, dump_json(data), tx.now


def _to_notification(row: Row) -> Notification:
    return Notification(
        number=row["number"],
        kind=NotificationKind(row["kind"]),
        run_id=row["run_id"],
        root_run_id=row["root_run_id"],
        thread_id=row["thread_id"],
        data=load_optional_json(row["data"]),
        created_at=instant(row["created_at"]),
        read_at=maybe_instant(row["read_at"]),
    )
