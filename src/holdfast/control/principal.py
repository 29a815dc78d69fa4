"""The principal of a request: its name in the log, its scope, and the spaces it may access."""

from typing import Final

import msgspec

from holdfast.domain.errors import NotFound
from holdfast.domain.ids import SpaceId
from holdfast.domain.space import DEFAULT_SPACE, ApiKey, Scope


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who asks for something."""

    name: str | None
    """What is written down as who did it: the id of a key, or what an issuer calls a person."""
    scope: Scope
    space_ids: tuple[SpaceId, ...] | None
    """Null if every space is theirs."""
    rate_limit: str | None = None

    @property
    def has_all_spaces(self) -> bool:
        """Say whether every space is theirs, also those that are made later."""
        return self.space_ids is None

    @property
    def default_space(self) -> SpaceId:
        """The space that is meant where none is named: `default` if it is theirs, else the oldest that is."""
        if self.space_ids is None or DEFAULT_SPACE in self.space_ids:
            return DEFAULT_SPACE
        return self.space_ids[0]

    def can_access(self, space: SpaceId) -> bool:
        """Say whether a space is theirs."""
        return self.space_ids is None or space in self.space_ids

    def check_access(self, space: SpaceId) -> None:
        """Raise `NotFound` unless a space is theirs: others look like those that do not exist."""
        if not self.can_access(space):
            raise NotFound(f"there is no space `{space}`", id=space)


LOCAL_PRINCIPAL: Final = Principal(name=None, scope=Scope.ADMIN, space_ids=None)
"""Whoever is on this machine, where there are no keys."""


def principal_of_key(key: ApiKey) -> Principal:
    """Return who asks with a key."""
    spaces = None if key.every_space else tuple(key.space_ids)
    return Principal(name=key.id, scope=key.scope, space_ids=spaces, rate_limit=key.rate_limit)
