"""Routes of the workspace: spaces, API keys, and agents."""

from typing import Annotated, Final

import msgspec
from litestar import delete, get, patch, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from holdfast.api.bodies import SpaceBody
from holdfast.api.parameters import Cursor, Limit, PortDependency
from holdfast.control.agents import AgentControl, AgentPage, AgentView
from holdfast.control.api_keys import KeyControl, KeyRequest, MadeKey
from holdfast.control.spaces import SpaceControl
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import ApiKey, Scope, Space, SpacePatch
from holdfast.ports.spaces import Spaces

_SPACE_TAGS = ["spaces"]
_ONE_SPACE = "/api/spaces/{space_id:str}"


@get("/api/spaces", summary="List spaces", tags=_SPACE_TAGS)
async def list_spaces(
    spaces: NamedDependency[SpaceControl], limit: Limit = DEFAULT_PAGE_SIZE, cursor: Cursor = None
) -> Page[Space]:
    """Return the accessible spaces, oldest first."""
    return await spaces.page(limit=limit, cursor=cursor)


@post("/api/spaces", summary="Create a space", tags=_SPACE_TAGS)
async def create_space(space_store: PortDependency[Spaces], data: JSONBody[SpaceBody]) -> Space:
    """Create a space under an id that was never used before."""
    return await space_store.create(data.id, name=data.id if data.name is None else data.name, metadata=data.metadata)


@get(_ONE_SPACE, summary="Read a space", tags=_SPACE_TAGS)
async def read_space(space_store: PortDependency[Spaces], space_id: FromPath[SpaceId]) -> Space:
    """Return a space."""
    return await space_store.get(space_id)


@patch(_ONE_SPACE, summary="Change a space", tags=_SPACE_TAGS)
async def update_space(
    space_store: PortDependency[Spaces], space_id: FromPath[SpaceId], data: JSONBody[SpacePatch]
) -> Space:
    """Change the given fields."""
    return await space_store.update(space_id, data)


@delete(_ONE_SPACE, summary="Delete a space", tags=_SPACE_TAGS)
async def delete_space(spaces: NamedDependency[SpaceControl], space_id: FromPath[SpaceId]) -> None:
    """Delete a space with everything in it. A space with an active run, and `default`, are refused."""
    await spaces.delete(space_id)


ROUTES = [list_spaces, create_space, read_space, update_space, delete_space]

_KEY_TAGS: Final = ["keys"]
_KeySpaceId = Annotated[SpaceId, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_-]{1,128}$"})]


class KeyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new API key."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    scope: Scope = Scope.RUN
    space_ids: Annotated[list[_KeySpaceId], Meta(max_length=1000)] = []
    """The spaces of the key; by default the caller's default space."""
    every_space: bool = False
    """Whether the key covers all spaces, including later ones; `space_ids` must be empty then."""
    rate_limit: Annotated[str, Meta(examples=["600/minute"])] | None = None
    expires_at: Annotated[Instant, Meta(extra_json_schema={"format": "date-time"})] | None = None

    def key_request(self) -> KeyRequest:
        """Convert to the request of the use case."""
        return KeyRequest(**msgspec.structs.asdict(self))


class KeyList(msgspec.Struct, frozen=True, kw_only=True):
    """Keys without their secrets, oldest first."""

    items: list[ApiKey]


@get("/api/keys", summary="List keys", tags=_KEY_TAGS)
async def list_keys(keys: NamedDependency[KeyControl]) -> KeyList:
    """Return the keys whose access yours covers, including revoked ones. Secrets are not stored."""
    return KeyList(items=await keys.all())


@post("/api/keys", summary="Create a key", tags=_KEY_TAGS)
async def create_key(keys: NamedDependency[KeyControl], data: JSONBody[KeyBody]) -> MadeKey:
    """Create a key that may do no more than yours. Its `secret` is in this response, and never shown again.

    Once a key exists, every request needs one.
    """
    return await keys.create(data.key_request())


@delete("/api/keys/{key_id:str}", summary="Revoke a key", tags=_KEY_TAGS, status_code=200)
async def revoke_key(keys: NamedDependency[KeyControl], key_id: FromPath[ApiKeyId]) -> ApiKey:
    """Revoke a key for good, within a second. Its open streams and sockets are closed."""
    return await keys.revoke(key_id)


KEY_ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (list_keys, create_key, revoke_key)

_AGENT_TAGS = ["agents"]


@get("/api/agents", summary="List agents", tags=_AGENT_TAGS)
async def list_agents(
    agents: NamedDependency[AgentControl], limit: Limit = DEFAULT_PAGE_SIZE, cursor: Cursor = None
) -> AgentPage:
    """Return the agents of the workspace by name, and with every page the errors of those that cannot be used."""
    return agents.page(limit=limit, cursor=cursor)


@get("/api/agents/{name:str}", summary="Read an agent", tags=_AGENT_TAGS)
async def read_agent(agents: NamedDependency[AgentControl], name: FromPath[str]) -> AgentView:
    """Return the current definition of an agent."""
    return agents.get(name)


AGENT_ROUTES = [list_agents, read_agent]
