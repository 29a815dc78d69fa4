"""Spaces and their notifications."""

import msgspec

from holdfast.control.principal import LOCAL_PRINCIPAL, Principal
from holdfast.control.threads import parse_number_cursor
from holdfast.domain.errors import InUse, Invalid
from holdfast.domain.ids import SpaceId
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.notification import Notification
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import DEFAULT_SPACE, Space
from holdfast.ports.spaces import Notifications, Spaces


class SpaceControl:
    """Commands and queries for spaces that depend on the principal or on the default space."""

    def __init__(self, spaces: Spaces, *, principal: Principal = LOCAL_PRINCIPAL) -> None:
        self._spaces = spaces
        self._principal = principal

    async def page(self, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[Space]:
        """Return the spaces that the principal may access, oldest first."""
        if self._principal.space_ids is None:
            return await self._spaces.page(limit=limit, cursor=cursor)
        ids = self._principal.space_ids
        if cursor is not None:
            if cursor not in ids:
                raise Invalid("the cursor must be the `next_cursor` of the previous page", field="cursor")
            ids = ids[ids.index(SpaceId(cursor)) + 1 :]
        items = [await self._spaces.get(space) for space in ids[:limit]]
        return Page(items=items, next_cursor=items[-1].id if len(ids) > limit else None)

    async def delete(self, space: SpaceId) -> None:
        """Delete a space with everything in it; the default space raises `InUse`."""
        if space == DEFAULT_SPACE:
            raise InUse(f"every workspace has the space `{DEFAULT_SPACE}`: it cannot be deleted", id=space)
        await self._spaces.delete(space)


class UnreadCount(msgspec.Struct, frozen=True, kw_only=True):
    """The number of unread notifications."""

    unread: int


class NotificationControl:
    """Commands and queries for the notifications of a space."""

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications

    async def page(
        self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[Notification]:
        """Return notifications, newest first."""
        before = None if cursor is None else parse_number_cursor(cursor)
        found = await self._notifications.latest(space, limit=limit + 1, before=before)
        page = found[:limit]
        return Page(items=page, next_cursor=str(page[-1].number) if len(found) > limit else None)

    async def unread(self, space: SpaceId) -> UnreadCount:
        """Return the number of unread notifications."""
        return UnreadCount(unread=await self._notifications.unread(space))

    async def mark_read(self, space: SpaceId, *, through: int | None = None, number: int | None = None) -> UnreadCount:
        """Mark one notification, all up to one, or all as read; return how many remain unread."""
        last = MAX_SAFE_INTEGER if through is None and number is None else through
        await self._notifications.mark_read(space, through=last, number=number)
        return await self.unread(space)
