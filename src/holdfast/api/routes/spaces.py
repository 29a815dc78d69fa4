"""Spaces."""

from litestar import delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from holdfast.api.bodies import SpaceBody
from holdfast.api.parameters import Cursor, Limit
from holdfast.control.spaces import SpaceControl
from holdfast.domain.ids import SpaceId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import Space, SpacePatch

_TAGS = ["spaces"]
_ONE = "/api/spaces/{space_id:str}"


@get("/api/spaces", summary="List spaces", tags=_TAGS)
async def list_spaces(
    spaces: NamedDependency[SpaceControl], limit: Limit = DEFAULT_PAGE_SIZE, cursor: Cursor = None
) -> Page[Space]:
    """Return spaces, the oldest first."""
    return await spaces.page(limit=limit, cursor=cursor)


@post("/api/spaces", summary="Make a space", tags=_TAGS)
async def create_space(spaces: NamedDependency[SpaceControl], data: JSONBody[SpaceBody]) -> Space:
    """Make a space under an id that was never used."""
    return await spaces.create(data.id, name=data.id if data.name is None else data.name, metadata=data.metadata)


@get(_ONE, summary="Read a space", tags=_TAGS)
async def read_space(spaces: NamedDependency[SpaceControl], space_id: FromPath[SpaceId]) -> Space:
    """Return a space."""
    return await spaces.get(space_id)


@patch(_ONE, summary="Change a space", tags=_TAGS)
async def update_space(
    spaces: NamedDependency[SpaceControl], space_id: FromPath[SpaceId], data: JSONBody[SpacePatch]
) -> Space:
    """Change what is given, and nothing else."""
    return await spaces.update(space_id, data)


@delete(_ONE, summary="Delete a space", tags=_TAGS)
async def delete_space(spaces: NamedDependency[SpaceControl], space_id: FromPath[SpaceId]) -> None:
    """Remove a space with everything in it. One with a live run is refused, and so is `default`."""
    await spaces.delete(space_id)


ROUTES = [list_spaces, create_space, read_space, update_space, delete_space]
