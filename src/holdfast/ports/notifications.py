"""Notifications: from an outbox that is written with the run, numbered per space without gaps."""

from typing import Protocol

from holdfast.domain.ids import SpaceId
from holdfast.domain.notification import Notification
from holdfast.domain.page import DEFAULT_LIMIT


class Notifications(Protocol):
    """The news of a space."""

    async def dispatch(self, *, limit: int = 1000) -> list[SpaceId]:
        """Number what is in the outbox and return the spaces that have news.

        A reader that has seen number N never finds a new one below N, however many processes write and dispatch.
        """

    async def after(self, space: SpaceId, number: int = 0, *, limit: int = DEFAULT_LIMIT) -> list[Notification]:
        """Return news with a number above `number`, in order."""

    async def latest(
        self, space: SpaceId, *, limit: int = DEFAULT_LIMIT, before: int | None = None
    ) -> list[Notification]:
        """Return the newest news, or those before number `before`, the newest first."""

    async def unread(self, space: SpaceId) -> int:
        """Return how many are unread."""

    async def mark_read(self, space: SpaceId, *, through: int | None = None, number: int | None = None) -> int:
        """Mark one as read, or all up to `through`; return how many that changed."""
