"""Ports of a space: the space itself, its API keys, and its notifications."""

from typing import Protocol

from holdfast.domain.content import Json
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.notification import Notification
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import ApiKey, NewApiKey, Space, SpacePatch, StoredApiKey


class Spaces(Protocol):
    """Who there is. Everything else is asked for by space."""

    async def create(self, space: SpaceId, *, name: str, metadata: dict[str, Json] | None = None) -> Space:
        """Make a space under a chosen id; an id already used is refused (`IdTaken`)."""

    async def get(self, space: SpaceId) -> Space:
        """Return the space, or raise `NotFound`."""

    async def page(self, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[Space]:
        """Return spaces, the oldest first."""

    async def update(self, space: SpaceId, patch: SpacePatch) -> Space:
        """Change what `patch` names and nothing else."""

    async def delete(self, space: SpaceId) -> None:
        """Remove a space with everything in it.

        One with a live run, or with one whose worker has not let go yet, is refused (`RunActive`), which says which.
        """


class ApiKeys(Protocol):
    """Who may come in."""

    async def create(self, spaces: list[SpaceId], new: NewApiKey) -> ApiKey:
        """Keep a key bound to `spaces`, or to every space; a secret already kept is refused (`IdTaken`)."""

    async def find(self, key: ApiKeyId) -> StoredApiKey:
        """Return a key with the hash of its secret, revoked or not, or raise `NotFound`."""

    async def any(self) -> bool:
        """Say whether there is a key, revoked or not."""

    async def all(self) -> list[ApiKey]:
        """Return all keys, the oldest first, the revoked ones too."""

    async def of_space(self, space: SpaceId) -> list[ApiKey]:
        """Return the keys bound to a space, the oldest first, the revoked ones too; not those for every space."""

    async def revoke(self, key: ApiKeyId) -> ApiKey:
        """Revoke a key; revoking it again changes nothing."""


class Notifications(Protocol):
    """The news of a space."""

    async def dispatch(self, *, limit: int = 1000) -> list[SpaceId]:
        """Number what is in the outbox and return the spaces that have news.

        A reader that has seen number N never finds a new one below N, however many processes write and dispatch.
        """

    async def after(self, space: SpaceId, number: int = 0, *, limit: int = DEFAULT_PAGE_SIZE) -> list[Notification]:
        """Return news with a number above `number`, in order."""

    async def latest(
        self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, before: int | None = None
    ) -> list[Notification]:
        """Return the newest news, or those before number `before`, the newest first."""

    async def unread(self, space: SpaceId) -> int:
        """Return how many are unread."""

    async def mark_read(self, space: SpaceId, *, through: int | None = None, number: int | None = None) -> int:
        """Mark one as read, or all up to `through`; return how many that changed."""
