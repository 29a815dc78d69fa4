"""Spaces, their grants, their notifications and their usage."""

import asyncio

import msgspec

from holdfast.control.principal import LOCAL_PRINCIPAL, Principal
from holdfast.control.threads import parse_number_cursor
from holdfast.domain.content import Json
from holdfast.domain.errors import InUse, Invalid
from holdfast.domain.idempotency import KeyedRequest, KeyedResult
from holdfast.domain.ids import GrantId, SpaceId
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.notification import Notification
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.permission import Grant
from holdfast.domain.space import DEFAULT_SPACE, Space
from holdfast.domain.usage import UsageGroup, UsageReport, add_totals, day_name, usage_days
from holdfast.domain.working_folder import space_folder
from holdfast.ports.requests import KeyedRequests
from holdfast.ports.runtime import Clock
from holdfast.ports.spaces import Grants, Notifications, Spaces, UsageLedger
from holdfast.ports.tools import WorkingFolders


class SpaceControl:
    """Commands and queries for spaces that depend on the principal or on the default space."""

    def __init__(
        self,
        spaces: Spaces,
        requests: KeyedRequests,
        grants: Grants,
        folders: WorkingFolders,
        *,
        principal: Principal = LOCAL_PRINCIPAL,
    ) -> None:
        self._spaces = spaces
        self._requests = requests
        self._grants = grants
        self._folders = folders
        self._principal = principal

    async def create(
        self, space: SpaceId, *, name: str, metadata: dict[str, Json], request: KeyedRequest | None = None
    ) -> KeyedResult[Space]:
        """Create a space, without the files that another space of the same id may have left behind.

        They are kept aside: the other space may be one of another database. The idempotency key belongs to the default
        space.
        """
        created = await self._requests.once(
            DEFAULT_SPACE,
            request,
            kind=Space,
            create=lambda ports: ports.spaces.create(space, name=name, metadata=metadata),
        )
        if not created.replayed and space != DEFAULT_SPACE:
            await asyncio.to_thread(
                self._folders.put_aside, space_folder(space), content="files of another space of that id"
            )
        return created

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
        """Delete a space with everything in it, its working folders too; the default space raises `InUse`."""
        if space == DEFAULT_SPACE:
            raise InUse(f"every workspace has the space `{DEFAULT_SPACE}`: it cannot be deleted", id=space)
        await self._spaces.delete(space)
        await asyncio.to_thread(self._folders.discard, space_folder(space))

    async def revoke_grant(self, space: SpaceId, grant: GrantId) -> Grant:
        """Revoke a grant of a space; revoking it again changes nothing."""
        return await self._grants.revoke(space, grant, by=self._principal.name)


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


class UsageControl:
    """Reports over the usage of a space."""

    def __init__(self, ledger: UsageLedger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    async def report(
        self, space: SpaceId, *, group_by: UsageGroup, first: str | None = None, last: str | None = None
    ) -> UsageReport:
        """Return the usage from the day `first` through the day `last`, which are written like `2026-01-31`."""
        start, end = usage_days(first, last, now=self._clock.now())
        items = await self._ledger.totals(space, group_by=group_by, first_day=start, last_day=end)
        if group_by is UsageGroup.DAY:
            items.sort(key=lambda item: item.name)
        else:
            items.sort(key=lambda item: (-item.cost_usd, -item.input_tokens, item.name))
        return UsageReport(
            group_by=group_by, first_day=day_name(start), last_day=day_name(end), items=items, total=add_totals(items)
        )
