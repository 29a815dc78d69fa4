"""Notifications in SQL.

A commit writes its notifications into the outbox. The dispatcher numbers them later, in one transaction at a time: an
identity column would hand out numbers in an order in which rows do not become visible, and a reader would miss some.
"""

from collections import Counter
from itertools import count
from typing import Any

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import SpaceId
from holdfast.domain.instant import instant, maybe_instant
from holdfast.domain.notification import NOTIFICATION_KINDS, Notification, NotificationKind
from holdfast.domain.page import DEFAULT_PAGE_SIZE, check_page_size
from holdfast.domain.run import Run, RunStatus
from holdfast.store.encoding import dump_json, load_optional_json
from holdfast.store.spaces import space_key
from holdfast.store.transaction import Database, Row, Transaction

NotificationRow = tuple[int, str, str, str, str, int]


class SqlNotifications:
    """`Notifications`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def dispatch(self, *, limit: int = 1000) -> list[SpaceId]:
        """Number what is in the outbox."""
        check_page_size(limit, maximum=1000)
        spaces = await self._database.write(lambda tx: _dispatch(tx, limit))
        return sorted(spaces)

    async def after(self, space: SpaceId, number: int = 0, *, limit: int = DEFAULT_PAGE_SIZE) -> list[Notification]:
        """Return news above a number."""
        check_page_size(limit, maximum=1000)

        async def find(tx: Transaction) -> list[Notification]:
            key = await space_key(tx, space)
            rows = await tx.all("notifications_after", space_key=key, number=number, limit=limit)
            return [_to_notification(row) for row in rows]

        return await self._database.read(find)

    async def latest(
        self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, before: int | None = None
    ) -> list[Notification]:
        """Return the newest news first."""
        check_page_size(limit, maximum=1000)
        most = 2**62 if before is None else before

        async def find(tx: Transaction) -> list[Notification]:
            key = await space_key(tx, space)
            rows = await tx.all("notifications_before", space_key=key, before=most, limit=limit)
            return [_to_notification(row) for row in rows]

        return await self._database.read(find)

    async def unread(self, space: SpaceId) -> int:
        """Return how many are unread."""

        async def find(tx: Transaction) -> int:
            row = await tx.one("unread_notifications", space_key=await space_key(tx, space))
            return 0 if row is None else int(row["unread"])

        return await self._database.read(find)

    async def mark_read(self, space: SpaceId, *, through: int | None = None, number: int | None = None) -> int:
        """Mark one as read, or all up to a number."""
        if (through is None) == (number is None):
            raise Invalid("name either one `number` or `through`")

        async def mark(tx: Transaction) -> int:
            key = await space_key(tx, space)
            if number is not None and await tx.one("notification", space_key=key, number=number) is None:
                raise NotFound(f"there is no notification {number}")
            first, last = (0, through) if number is None else (number, number)
            return len(await tx.all("read_notifications", space_key=key, first=first, last=last, now=tx.now))

        return await self._database.write(mark)


def notification_row(tx: Transaction, space: int, run: Run, to: RunStatus, reason: str | None) -> NotificationRow:
    """Return the news of a move, as the values of its statement."""
    data = dump_json({"status": to, "reason": reason})
    return space, NOTIFICATION_KINDS[to].value, run.id, run.thread_id, data, tx.now


async def _dispatch(tx: Transaction, limit: int) -> set[SpaceId]:
    await tx.all("lock_outbox")
    rows = await tx.all("outbox", limit=limit)
    counts = Counter(row["space_key"] for row in rows)
    taken = await tx.many("take_notification_numbers", [(news, key) for key, news in counts.items()])
    numbers = {row["space_key"]: count(row["last_notification"] - counts[row["space_key"]] + 1) for row in taken}
    told = [row for row in rows if row["space_key"] in numbers]
    await tx.many("add_notifications", [_notification_values(row, next(numbers[row["space_key"]])) for row in told])
    await tx.many("drop_from_outbox", [(row["outbox_key"],) for row in rows])
    tx.wake(news=bool(told))
    return {row["id"] for row in taken}


def _notification_values(row: Row, number: int) -> tuple[Any, ...]:
    return (
        row["space_key"],
        number,
        row["kind"],
        row["run_id"],
        row["thread_id"],
        row["data"],
        row["created_at"],
    )


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
