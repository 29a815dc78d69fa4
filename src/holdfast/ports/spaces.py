"""Spaces: the tenants."""

from typing import Protocol

from holdfast.domain.content import Json
from holdfast.domain.ids import SpaceId
from holdfast.domain.page import DEFAULT_LIMIT, Page
from holdfast.domain.space import Space, SpacePatch


class Spaces(Protocol):
    """Who there is. Everything else is asked for by space."""

    async def create(self, space: SpaceId, *, name: str, metadata: dict[str, Json] | None = None) -> Space:
        """Make a space under a chosen id; an id already used is refused (`IdTaken`)."""

    async def get(self, space: SpaceId) -> Space:
        """Return the space, or raise `NotFound`."""

    async def page(self, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None) -> Page[Space]:
        """Return spaces, the oldest first."""

    async def update(self, space: SpaceId, patch: SpacePatch) -> Space:
        """Change what `patch` names and nothing else."""

    async def delete(self, space: SpaceId) -> None:
        """Remove a space with everything in it.

        One with a live run, or with one whose worker has not let go yet, is refused (`RunActive`), which says which.
        """
