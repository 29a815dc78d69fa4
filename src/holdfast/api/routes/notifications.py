"""Notifications."""

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from holdfast.api.bodies import ReadBody
from holdfast.api.parameters import Cursor, Limit, anywhere
from holdfast.control.notifications import NotificationControl, Unread
from holdfast.domain.ids import SpaceId
from holdfast.domain.notification import Notification
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import DEFAULT_SPACE

_TAGS = ["notifications"]
_ALL = ReadBody()


@get(anywhere("/notifications"), summary="List notifications", tags=_TAGS)
async def list_notifications(
    notifications: NamedDependency[NotificationControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Notification]:
    """Return the news of a space, the newest first."""
    return await notifications.page(space_id, limit=limit, cursor=cursor)


@get(anywhere("/notifications/unread"), summary="Count unread notifications", tags=_TAGS)
async def count_unread(
    notifications: NamedDependency[NotificationControl], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Unread:
    """Return how many notifications nobody has read yet."""
    return await notifications.unread(space_id)


@post(anywhere("/notifications/read"), summary="Mark notifications as read", tags=_TAGS, status_code=200)
async def mark_read(
    notifications: NamedDependency[NotificationControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    data: JSONBody[ReadBody] = _ALL,
) -> Unread:
    """Mark one notification as read, all up to one, or all; return how many are left."""
    return await notifications.mark_read(space_id, through=data.through, number=data.number)


ROUTES = [list_notifications, count_unread, mark_read]
