"""API keys."""

from typing import Protocol

from holdfast.domain.api_key import ApiKey, KeptKey, NewApiKey
from holdfast.domain.ids import ApiKeyId, SpaceId


class ApiKeys(Protocol):
    """Who may come in."""

    async def create(self, spaces: list[SpaceId], new: NewApiKey) -> ApiKey:
        """Keep a key bound to `spaces`, or to every space; a secret already kept is refused (`IdTaken`)."""

    async def find(self, key: ApiKeyId) -> KeptKey:
        """Return a key with the hash of its secret, revoked or not, or raise `NotFound`."""

    async def any(self) -> bool:
        """Say whether there is a key, revoked or not."""

    async def all(self) -> list[ApiKey]:
        """Return all keys, the oldest first, the revoked ones too."""

    async def of_space(self, space: SpaceId) -> list[ApiKey]:
        """Return the keys bound to a space, the oldest first, the revoked ones too; not those for every space."""

    async def revoke(self, key: ApiKeyId) -> ApiKey:
        """Revoke a key; revoking it again changes nothing."""
