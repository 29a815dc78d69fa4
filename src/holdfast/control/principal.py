"""The principal of a request: its name in the log, its scope, and the spaces it may access."""

from typing import Final

import msgspec

from holdfast.domain.errors import NotFound
from holdfast.domain.ids import SpaceId
from holdfast.domain.instant import Millis
from holdfast.domain.space import DEFAULT_SPACE, ApiKey, Scope


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The authenticated caller of a request."""

    name: str | None
    """Recorded as the author of changes: the id of an API key, or the subject of an OpenID Connect token."""
    scope: Scope
    space_ids: tuple[SpaceId, ...] | None
    """`None` means every space."""
    pools: tuple[str, ...] | None = None
    """The pools that a worker may claim runs from; `None` means every pool."""
    rate_limit: str | None = None
    expires_at: Millis | None = None
    """The time until which the token of a principal without an API key is valid."""

    @property
    def has_all_spaces(self) -> bool:
        """Whether the principal may access every space, including those created later."""
        return self.space_ids is None

    @property
    def default_space(self) -> SpaceId:
        """The space of a request that names none: `default` if accessible, else the principal's oldest space."""
        if self.space_ids is None or DEFAULT_SPACE in self.space_ids:
            return DEFAULT_SPACE
        return self.space_ids[0]

    def can_access(self, space: SpaceId) -> bool:
        """Return whether the principal may access a space."""
        return self.space_ids is None or space in self.space_ids

    def check_access(self, space: SpaceId) -> None:
        """Raise `NotFound` unless the principal may access a space: others look as if they did not exist."""
        if not self.can_access(space):
            raise NotFound(f"there is no space `{space}`", id=space)


LOCAL_PRINCIPAL: Final = Principal(name=None, scope=Scope.ADMIN, space_ids=None)
"""The principal of every request on a server without API keys."""


def principal_of_key(key: ApiKey) -> Principal:
    """Return the principal of an API key."""
    spaces = None if key.every_space else tuple(key.space_ids)
    return Principal(
        name=key.id, scope=key.scope, space_ids=spaces, pools=tuple(key.pools) or None, rate_limit=key.rate_limit
    )
