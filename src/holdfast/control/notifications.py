"""Notifications, as people read them."""

import msgspec

from holdfast.control.cursors import number_of
from holdfast.domain.ids import SpaceId
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.notification import Notification
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.ports.spaces import Notifications


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """How many notifications nobody has read yet."""

    unread: int


class NotificationControl:
    """What can be done with the news of a space."""

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications

    async def page(
        self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[Notification]:
        """Return news, the newest first."""
        before = None if cursor is None else number_of(cursor)
        found = await self._notifications.latest(space, limit=limit + 1, before=before)
        shown = found[:limit]
        return Page(items=shown, next_cursor=str(shown[-1].number) if len(found) > limit else None)

    async def unread(self, space: SpaceId) -> Unread:
        """Return how many are unread."""
        return Unread(unread=await self._notifications.unread(space))

    async def mark_read(self, space: SpaceId, *, through: int | None = None, number: int | None = None) -> Unread:
        """Mark one as read, all up to one, or all; return how many are left."""
        last = MAX_SAFE_INTEGER if through is None and number is None else through
        await self._notifications.mark_read(space, through=last, number=number)
        return await self.unread(space)
