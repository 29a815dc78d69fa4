"""API keys."""

from typing import Protocol

from holdfast.domain.api_key import ApiKey, NewApiKey
from holdfast.domain.ids import ApiKeyId, SpaceId


class ApiKeys(Protocol):
    """Who may come in."""

    async def create(self, spaces: list[SpaceId], new: NewApiKey) -> ApiKey:
        """Keep a key bound to `spaces`; a secret already kept is refused (`IdTaken`)."""

    async def find(self, secret_hash: bytes) -> ApiKey:
        """Return the key with that hash, revoked or not, or raise `NotFound`."""

    async def of_space(self, space: SpaceId) -> list[ApiKey]:
        """Return the keys bound to a space, the oldest first, the revoked ones too."""

    async def revoke(self, space: SpaceId, key: ApiKeyId) -> ApiKey:
        """Revoke a key; revoking it again changes nothing."""
