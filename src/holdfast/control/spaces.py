"""Spaces in the hands of people and clients."""

from collections.abc import Sequence

from holdfast.control.keys.asker import LOCAL, Asker
from holdfast.domain.content import Json
from holdfast.domain.errors import InUse, Invalid
from holdfast.domain.ids import SpaceId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import DEFAULT_SPACE, Space, SpacePatch
from holdfast.ports.spaces import Spaces


class SpaceControl:
    """What can be done with spaces."""

    def __init__(self, spaces: Spaces, *, asker: Asker = LOCAL) -> None:
        self._spaces = spaces
        self._asker = asker

    async def page(self, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[Space]:
        """Return the spaces of who asks, the oldest first."""
        if self._asker.space_ids is None:
            return await self._spaces.page(limit=limit, cursor=cursor)
        rest = _after(self._asker.space_ids, cursor)
        items = [await self._spaces.get(space) for space in rest[:limit]]
        return Page(items=items, next_cursor=items[-1].id if len(rest) > limit else None)

    async def create(self, space: SpaceId, *, name: str, metadata: dict[str, Json]) -> Space:
        """Make a space under a chosen id."""
        return await self._spaces.create(space, name=name, metadata=metadata)

    async def get(self, space: SpaceId) -> Space:
        """Return a space."""
        return await self._spaces.get(space)

    async def update(self, space: SpaceId, patch: SpacePatch) -> Space:
        """Change what `patch` names."""
        return await self._spaces.update(space, patch)

    async def delete(self, space: SpaceId) -> None:
        """Remove a space with everything in it; the one that every workspace has stays (`InUse`)."""
        if space == DEFAULT_SPACE:
            raise InUse(f"every workspace has the space `{DEFAULT_SPACE}`: it cannot be deleted", id=space)
        await self._spaces.delete(space)


def _after(spaces: Sequence[SpaceId], cursor: str | None) -> Sequence[SpaceId]:
    if cursor is None:
        return spaces
    if cursor not in spaces:
        raise Invalid("the cursor must be the `next_cursor` of the page before", field="cursor")
    return spaces[spaces.index(SpaceId(cursor)) + 1 :]
