"""Spaces and their notifications."""

from collections.abc import Sequence

import msgspec

from holdfast.control.principal import LOCAL_PRINCIPAL, Principal
from holdfast.control.threads import parse_number_cursor
from holdfast.domain.content import Json
from holdfast.domain.errors import InUse, Invalid
from holdfast.domain.ids import SpaceId
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.notification import Notification
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import DEFAULT_SPACE, Space, SpacePatch
from holdfast.ports.spaces import Notifications, Spaces


class SpaceControl:
    """What can be done with spaces."""

    def __init__(self, spaces: Spaces, *, principal: Principal = LOCAL_PRINCIPAL) -> None:
        self._spaces = spaces
        self._asker = principal

    async def page(self, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[Space]:
        """Return the spaces of who asks, the oldest first."""
        if self._asker.space_ids is None:
            return await self._spaces.page(limit=limit, cursor=cursor)
        rest = _spaces_after(self._asker.space_ids, cursor)
        items = [await self._spaces.get(space) for space in rest[:limit]]
        return Page(items=items, next_cursor=items[-1].id if len(rest) > limit else None)

    async def create(self, space: SpaceId, *, name: str, metadata: dict[str, Json]) -> Space:
        """Make a space under a chosen id."""
        return await self._spaces.create(space, name=name, metadata=metadata)

    async def get(self, space: SpaceId) -> Space:
        """Return a space."""
        return await self._spaces.get(space)

    async def update(self, space: SpaceId, patch: SpacePatch) -> Space:
        """Change what `patch` names."""
        return await self._spaces.update(space, patch)

    async def delete(self, space: SpaceId) -> None:
        """Remove a space with everything in it; the one that every workspace has stays (`InUse`)."""
        if space == DEFAULT_SPACE:
            raise InUse(f"every workspace has the space `{DEFAULT_SPACE}`: it cannot be deleted", id=space)
        await self._spaces.delete(space)


def _spaces_after(spaces: Sequence[SpaceId], cursor: str | None) -> Sequence[SpaceId]:
    if cursor is None:
        return spaces
    if cursor not in spaces:
        raise Invalid("the cursor must be the `next_cursor` of the page before", field="cursor")
    return spaces[spaces.index(SpaceId(cursor)) + 1 :]


class UnreadCount(msgspec.Struct, frozen=True, kw_only=True):
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
        before = None if cursor is None else parse_number_cursor(cursor)
        found = await self._notifications.latest(space, limit=limit + 1, before=before)
        shown = found[:limit]
        return Page(items=shown, next_cursor=str(shown[-1].number) if len(found) > limit else None)

    async def unread(self, space: SpaceId) -> UnreadCount:
        """Return how many are unread."""
        return UnreadCount(unread=await self._notifications.unread(space))

    async def mark_read(self, space: SpaceId, *, through: int | None = None, number: int | None = None) -> UnreadCount:
        """Mark one as read, all up to one, or all; return how many are left."""
        last = MAX_SAFE_INTEGER if through is None and number is None else through
        await self._notifications.mark_read(space, through=last, number=number)
        return await self.unread(space)
