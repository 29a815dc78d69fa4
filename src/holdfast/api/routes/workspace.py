"""Routes of the workspace: spaces, API keys, and agents."""

from typing import Annotated, Final

import msgspec
from litestar import delete, get, patch, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from holdfast.api.bodies import SpaceBody
from holdfast.api.parameters import Cursor, Limit
from holdfast.control.agents import AgentControl, AgentPage, AgentView
from holdfast.control.api_keys import KeyControl, KeyRequest, MadeKey
from holdfast.control.spaces import SpaceControl
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import ApiKey, Scope, Space, SpacePatch

_SPACE_TAGS = ["spaces"]
_ONE_SPACE = "/api/spaces/{space_id:str}"


@get("/api/spaces", summary="List spaces", tags=_SPACE_TAGS)
async def list_spaces(
    spaces: NamedDependency[SpaceControl], limit: Limit = DEFAULT_PAGE_SIZE, cursor: Cursor = None
) -> Page[Space]:
    """Return spaces, the oldest first."""
    return await spaces.page(limit=limit, cursor=cursor)


@post("/api/spaces", summary="Make a space", tags=_SPACE_TAGS)
async def create_space(spaces: NamedDependency[SpaceControl], data: JSONBody[SpaceBody]) -> Space:
    """Make a space under an id that was never used."""
    return await spaces.create(data.id, name=data.id if data.name is None else data.name, metadata=data.metadata)


@get(_ONE_SPACE, summary="Read a space", tags=_SPACE_TAGS)
async def read_space(spaces: NamedDependency[SpaceControl], space_id: FromPath[SpaceId]) -> Space:
    """Return a space."""
    return await spaces.get(space_id)


@patch(_ONE_SPACE, summary="Change a space", tags=_SPACE_TAGS)
async def update_space(
    spaces: NamedDependency[SpaceControl], space_id: FromPath[SpaceId], data: JSONBody[SpacePatch]
) -> Space:
    """Change what is given, and nothing else."""
    return await spaces.update(space_id, data)


@delete(_ONE_SPACE, summary="Delete a space", tags=_SPACE_TAGS)
async def delete_space(spaces: NamedDependency[SpaceControl], space_id: FromPath[SpaceId]) -> None:
    """Remove a space with everything in it. One with a live run is refused, and so is `default`."""
    await spaces.delete(space_id)


ROUTES = [list_spaces, create_space, read_space, update_space, delete_space]

_KEY_TAGS: Final = ["keys"]
_KeySpaceId = Annotated[SpaceId, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_-]{1,128}$"})]


class KeyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to be made."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    scope: Scope = Scope.RUN
    space_ids: Annotated[list[_KeySpaceId], Meta(max_length=1000)] = []
    """Where it opens something; the space that is meant where none is named, unless given."""
    every_space: bool = False
    """It opens all spaces, also those that are made later; then `space_ids` stays empty."""
    rate_limit: Annotated[str, Meta(examples=["600/minute"])] | None = None
    expires_at: Annotated[Instant, Meta(extra_json_schema={"format": "date-time"})] | None = None

    def key_request(self) -> KeyRequest:
        """Return it as the use cases know it."""
        return KeyRequest(**msgspec.structs.asdict(self))


class KeyList(msgspec.Struct, frozen=True, kw_only=True):
    """Keys without their secrets, the oldest first."""

    items: list[ApiKey]


@get("/api/keys", summary="List keys", tags=_KEY_TAGS)
async def list_keys(keys: NamedDependency[KeyControl]) -> KeyList:
    """Return the keys that open nothing but what is yours, the revoked ones too. Secrets are not kept."""
    return KeyList(items=await keys.all())


@post("/api/keys", summary="Make a key", tags=_KEY_TAGS)
async def create_key(keys: NamedDependency[KeyControl], data: JSONBody[KeyBody]) -> MadeKey:
    """Make a key that may do no more than yours. Its `secret` is in this answer, and never shown again.

    Once there is a key, every request needs one.
    """
    return await keys.create(data.key_request())


@delete("/api/keys/{key_id:str}", summary="Revoke a key", tags=_KEY_TAGS, status_code=200)
async def revoke_key(keys: NamedDependency[KeyControl], key_id: FromPath[ApiKeyId]) -> ApiKey:
    """Let a key open nothing any more, within a second and for good. What it has open is cut off."""
    return await keys.revoke(key_id)


KEY_ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (list_keys, create_key, revoke_key)

_AGENT_TAGS = ["agents"]


@get("/api/agents", summary="List agents", tags=_AGENT_TAGS)
async def list_agents(
    agents: NamedDependency[AgentControl], limit: Limit = DEFAULT_PAGE_SIZE, cursor: Cursor = None
) -> AgentPage:
    """Return the agents of the workspace by name, and with every page what is wrong with those that cannot be used."""
    return agents.page(limit=limit, cursor=cursor)


@get("/api/agents/{name:str}", summary="Read an agent", tags=_AGENT_TAGS)
async def read_agent(agents: NamedDependency[AgentControl], name: FromPath[str]) -> AgentView:
    """Return an agent as its files define it now."""
    return agents.get(name)


AGENT_ROUTES = [list_agents, read_agent]
