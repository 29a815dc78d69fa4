"""Ports of a space: the space itself, its API keys, and its notifications."""

from typing import Protocol

from holdfast.domain.content import Json
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.notification import Notification
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import ApiKey, NewApiKey, Space, SpacePatch, StoredApiKey


class Spaces(Protocol):
    """The spaces (tenants) of a store. Every other port takes the space as an argument."""

    async def create(self, space: SpaceId, *, name: str, metadata: dict[str, Json] | None = None) -> Space:
        """Create a space under a client-chosen id; an id already used is refused (`IdTaken`)."""

    async def get(self, space: SpaceId) -> Space:
        """Return the space, or raise `NotFound`."""

    async def page(self, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[Space]:
        """Return spaces, oldest first."""

    async def update(self, space: SpaceId, patch: SpacePatch) -> Space:
        """Change only the fields that `patch` sets."""

    async def delete(self, space: SpaceId) -> None:
        """Delete a space with everything in it.

        A space with an active run, or with a run whose worker is still stopping, is refused (`RunActive`, which names
        the run).
        """


class ApiKeys(Protocol):
    """API keys and the spaces they give access to."""

    async def create(self, spaces: list[SpaceId], new: NewApiKey) -> ApiKey:
        """Store a key bound to `spaces`, or to every space; a secret already stored is refused (`IdTaken`)."""

    async def find(self, key: ApiKeyId) -> StoredApiKey:
        """Return a key with the hash of its secret, revoked or not, or raise `NotFound`."""

    async def any(self) -> bool:
        """Return whether any key exists, revoked or not."""

    async def all(self) -> list[ApiKey]:
        """Return all keys, oldest first, including revoked keys."""

    async def of_space(self, space: SpaceId) -> list[ApiKey]:
        """Return the keys bound to a space, oldest first, including revoked keys; keys for every space are left out."""

    async def revoke(self, key: ApiKeyId) -> ApiKey:
        """Revoke a key; revoking it again changes nothing."""


class Notifications(Protocol):
    """The notifications of a space."""

    async def dispatch(self, *, limit: int = 1000) -> list[SpaceId]:
        """Number the notifications in the outbox and return the spaces that have new ones.

        A reader that has seen number N never finds a new one below N, however many processes write and dispatch.
        """

    async def after(self, space: SpaceId, number: int = 0, *, limit: int = DEFAULT_PAGE_SIZE) -> list[Notification]:
        """Return notifications with a number above `number`, in order."""

    async def latest(
        self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, before: int | None = None
    ) -> list[Notification]:
        """Return the latest notifications, or the latest before number `before`, newest first."""

    async def unread(self, space: SpaceId) -> int:
        """Return the number of unread notifications."""

    async def mark_read(self, space: SpaceId, *, through: int | None = None, number: int | None = None) -> int:
        """Mark one notification as read, or all up to `through`; return how many were unread."""
