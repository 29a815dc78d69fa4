"""Routes for notifications: list, count unread, and mark as read."""

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from holdfast.api.bodies import ReadBody
from holdfast.api.parameters import Cursor, Limit, space_paths
from holdfast.control.spaces import NotificationControl, UnreadCount
from holdfast.domain.ids import SpaceId
from holdfast.domain.notification import Notification
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import DEFAULT_SPACE

_TAGS = ["notifications"]
_MARK_ALL = ReadBody()


@get(space_paths("/notifications"), summary="List notifications", tags=_TAGS)
async def list_notifications(
    notifications: NamedDependency[NotificationControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Notification]:
    """Return the notifications of a space, newest first."""
    return await notifications.page(space_id, limit=limit, cursor=cursor)


@get(space_paths("/notifications/unread"), summary="Count unread notifications", tags=_TAGS)
async def count_unread(
    notifications: NamedDependency[NotificationControl], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> UnreadCount:
    """Return the number of unread notifications."""
    return await notifications.unread(space_id)


@post(space_paths("/notifications/read"), summary="Mark notifications as read", tags=_TAGS, status_code=200)
async def mark_read(
    notifications: NamedDependency[NotificationControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    data: JSONBody[ReadBody] = _MARK_ALL,
) -> UnreadCount:
    """Mark one notification, all up to one, or all as read; return how many remain unread."""
    return await notifications.mark_read(space_id, through=data.through, number=data.number)


ROUTES = [list_notifications, count_unread, mark_read]
