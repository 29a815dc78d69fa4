"""Routes for agents: those of the workspace, those that a space has of its own, and their versions."""

from typing import Annotated, Final

import msgspec
from litestar import Response, delete, get, patch, post, put
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody, QueryParameter
from msgspec import Meta

from holdfast.api.errors import ErrorEnvelope
from holdfast.api.idempotency import REPLAYED_HEADER, IdempotencyKey, keyed_request, replay_headers
from holdfast.api.parameters import Cursor, IfMatch, Limit, parse_etags, space_paths
from holdfast.control.agent_versions import (
    AgentVersionControl,
    AgentVersionDiff,
    AgentVersionPage,
    AgentVersionView,
)
from holdfast.control.agents import AgentControl, AgentPage, AgentView
from holdfast.domain.agent_version import AgentDefinition, AgentPatch
from holdfast.domain.content import Json
from holdfast.domain.ids import SpaceId
from holdfast.domain.page import DEFAULT_PAGE_SIZE
from holdfast.domain.space import DEFAULT_SPACE

_TAGS: Final = ["agents"]
_ALL: Final = space_paths("/agents")
_ONE: Final = space_paths("/agents/{name:str}")
_VERSIONS: Final = space_paths("/agents/{name:str}/versions")
_ALSO: Final = {"also": {"412": {"application/json": ErrorEnvelope}}}
_SETTINGS_META: Final = Meta(description="The content of `agent.json`; without `skills` they are `auto`.")


class AgentBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The definition of an agent of a space."""

    settings: Annotated[dict[str, Json], _SETTINGS_META]
    instructions: Annotated[str, Meta(description="The text of `AGENT.md`.")]
    soul: Annotated[str | None, Meta(description="The text of `SOUL.md`.")] = None
    scripts: Annotated[
        dict[str, dict[str, Json]], Meta(description="The scripts of `scripted:` models, by file name.")
    ] = {}

    def definition(self) -> AgentDefinition:
        """Convert to the domain type."""
        return AgentDefinition(
            settings=self.settings, instructions=self.instructions, soul=self.soul, scripts=self.scripts
        )


class NewAgentBody(AgentBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new agent of a space."""

    name: Annotated[str, Meta(max_length=64, description="1 to 64 lower-case letters, digits, `_` or `-`.")]


@get(_ALL, summary="List agents", tags=_TAGS)
async def list_agents(
    agents: NamedDependency[AgentControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> AgentPage:
    """Return the agents of the workspace and of the space by name, and with every page the errors of broken files."""
    return await agents.page(space_id, limit=limit, cursor=cursor)


@post(_ALL, summary="Create an agent", tags=_TAGS, opt={"headers": {"201": REPLAYED_HEADER}})
async def create_agent(
    agents: NamedDependency[AgentControl],
    data: JSONBody[NewAgentBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[AgentView]:
    """Create an agent that only this space has. A name that the workspace or the space has is refused."""
    request = keyed_request("create_agent", key, [data])
    done = await agents.create(space_id, data.name, data.definition(), request=request)
    return Response(done.value, headers=agent_etag(done.value) | replay_headers(replayed=done.replayed))


@get(_ONE, summary="Read an agent", tags=_TAGS)
async def read_agent(
    agents: NamedDependency[AgentControl], name: FromPath[str], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Response[AgentView]:
    """Return the current definition of an agent; its `ETag` is for `If-Match`."""
    return _response(await agents.get(space_id, name))


@put(_ONE, summary="Replace an agent", tags=_TAGS, opt=_ALSO)
async def replace_agent(
    agents: NamedDependency[AgentControl],
    name: FromPath[str],
    data: JSONBody[AgentBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    if_match: IfMatch = None,
) -> Response[AgentView]:
    """Publish another definition of an agent of the space as its active version. Runs keep the version they have."""
    return _response(await agents.replace(space_id, name, data.definition(), expected=expected_versions(if_match)))


@patch(_ONE, summary="Change an agent", tags=_TAGS, opt=_ALSO)
async def update_agent(
    agents: NamedDependency[AgentControl],
    name: FromPath[str],
    data: JSONBody[AgentPatch],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    if_match: IfMatch = None,
) -> Response[AgentView]:
    """Publish the active definition of an agent of the space with these changes. Runs keep the version they have."""
    return _response(await agents.change(space_id, name, data, expected=expected_versions(if_match)))


@delete(_ONE, summary="Delete an agent", tags=_TAGS, opt=_ALSO)
async def delete_agent(
    agents: NamedDependency[AgentControl],
    name: FromPath[str],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    if_match: IfMatch = None,
) -> None:
    """Delete an agent of the space: it gets no new runs. Those that have begun go on."""
    await agents.delete(space_id, name, expected=expected_versions(if_match))


@get(_VERSIONS, summary="List the versions of an agent", tags=_TAGS)
async def list_agent_versions(
    agent_versions: NamedDependency[AgentVersionControl],
    name: FromPath[str],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> AgentVersionPage:
    """Return the published versions of an agent, the newest first, and which one new runs get."""
    return await agent_versions.page(space_id, name, limit=limit, cursor=cursor)


@get(
    space_paths("/agents/{name:str}/versions/{digest:str}"),
    summary="Read a version of an agent",
    tags=_TAGS,
)
async def read_agent_version(
    agent_versions: NamedDependency[AgentVersionControl],
    name: FromPath[str],
    digest: FromPath[str],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> AgentVersionView:
    """Return a version: its files without their contents. At least 8 characters of a digest name it."""
    return await agent_versions.get(space_id, name, digest)


@get(
    space_paths("/agents/{name:str}/versions/{digest:str}/diff"),
    summary="Compare two versions of an agent",
    tags=_TAGS,
)
async def diff_agent_versions(
    agent_versions: NamedDependency[AgentVersionControl],
    name: FromPath[str],
    digest: FromPath[str],
    to: Annotated[str, QueryParameter(max_length=64, description="The digest of the later version.")],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> AgentVersionDiff:
    """Return the files that differ from one version to another, with the differences of texts."""
    return await agent_versions.diff(space_id, name, digest, to)


@post(
    space_paths("/agents/{name:str}/versions/{digest:str}/activate"),
    summary="Activate a version of an agent",
    tags=_TAGS,
    status_code=200,
)
async def activate_agent_version(
    agent_versions: NamedDependency[AgentVersionControl],
    name: FromPath[str],
    digest: FromPath[str],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> AgentVersionView:
    """Give new runs an earlier version, until the agent is edited. Runs keep the version they have.

    Rules that the edited agent denies or asks for then hold no longer, unless the version has them. An agent of the
    workspace needs a key for every space.
    """
    return await agent_versions.activate(space_id, name, digest)


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (
    list_agents,
    create_agent,
    read_agent,
    replace_agent,
    update_agent,
    delete_agent,
    list_agent_versions,
    read_agent_version,
    diff_agent_versions,
    activate_agent_version,
)


def _response(agent: AgentView) -> Response[AgentView]:
    return Response(agent, headers=agent_etag(agent))


def agent_etag(agent: AgentView) -> dict[str, str]:
    """Return the header with the version of an agent."""
    return {"ETag": f'"{agent.version or agent.digest}"'}


def expected_versions(if_match: str | None) -> list[str]:
    """Return the versions that an `If-Match` header names; none for any."""
    tags = parse_etags(if_match)
    return [] if "*" in tags else tags
