"""Routes of the workspace: spaces and their grants, API keys, and agents."""

from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, delete, get, patch, post, put
from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import Meta

from holdfast.api.auth.sessions import END_SESSION, bearer_token, session_cookie
from holdfast.api.auth.tickets import check_stream_path
from holdfast.api.bodies import SpaceBody
from holdfast.api.idempotency import REPLAYED_HEADER, IdempotencyKey, keyed_request, keyed_response
from holdfast.api.parameters import Cursor, Limit, PortDependency, space_paths
from holdfast.control.api_keys import KeyControl, KeyRequest, MadeKey
from holdfast.control.spaces import SpaceControl, UsageControl
from holdfast.control.tickets import MadeTicket, TicketControl
from holdfast.control.tools import ToolControl, ToolList
from holdfast.domain.ids import ApiKeyId, GrantId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.permission import Grant
from holdfast.domain.space import DEFAULT_SPACE, ApiKey, Scope, Space, SpacePatch
from holdfast.domain.space_budget import NewSpaceBudget, SpaceBudget
from holdfast.domain.usage import UsageGroup, UsageReport
from holdfast.domain.worker import MAX_POOLS, POOL_PATTERN, Queue, SpaceBacklogs, SpaceQueue, WorkerStatus
from holdfast.ports.queue import Workers
from holdfast.ports.spaces import Grants, SpaceBudgets, Spaces

_SPACE_TAGS = ["spaces"]
_DAY = r"^\d{4}-\d{2}-\d{2}\Z"
_ONE_SPACE = "/api/spaces/{space_id:str}"


@get("/api/spaces", summary="List spaces", tags=_SPACE_TAGS)
async def list_spaces(
    spaces: NamedDependency[SpaceControl], limit: Limit = DEFAULT_PAGE_SIZE, cursor: Cursor = None
) -> Page[Space]:
    """Return the accessible spaces, oldest first."""
    return await spaces.page(limit=limit, cursor=cursor)


@post("/api/spaces", summary="Create a space", tags=_SPACE_TAGS, opt={"headers": {"201": REPLAYED_HEADER}})
async def create_space(
    spaces: NamedDependency[SpaceControl], data: JSONBody[SpaceBody], key: IdempotencyKey = None
) -> Response[Space]:
    """Create a space under an id that no other space has."""
    name = data.id if data.name is None else data.name
    request = keyed_request("create_space", key, [data])
    return keyed_response(await spaces.create(data.id, name=name, metadata=data.metadata, request=request))


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
    """Delete a space with everything in it, its working folders too.

    A space with an active run, and `default`, are refused.
    """
    await spaces.delete(space_id)


@get(space_paths("/grants"), summary="List grants", tags=_SPACE_TAGS)
async def list_grants(
    grant_store: PortDependency[Grants],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Grant]:
    """Return the rules that people granted with the response "always", newest first, including revoked ones."""
    return await grant_store.page(space_id, limit=limit, cursor=cursor)


@delete(space_paths("/grants/{grant_id:str}"), summary="Revoke a grant", tags=_SPACE_TAGS, status_code=200)
async def revoke_grant(
    spaces: NamedDependency[SpaceControl], grant_id: FromPath[GrantId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Grant:
    """Revoke a grant: the next call that needs it asks a person again. A call that is already running goes on."""
    return await spaces.revoke_grant(space_id, grant_id)


@get(space_paths("/usage"), summary="Read the usage of a space", tags=_SPACE_TAGS)
async def read_usage(
    usage: NamedDependency[UsageControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    group_by: FromQuery[UsageGroup] = UsageGroup.DAY,
    first: Annotated[
        str | None, QueryParameter(name="from", pattern=_DAY, description="The first day in UTC, like `2026-01-31`.")
    ] = None,
    last: Annotated[
        str | None, QueryParameter(name="to", pattern=_DAY, description="The last day; by default today.")
    ] = None,
) -> UsageReport:
    """Return tokens and costs of model calls, added up by day, agent, model or key; by default of 30 days."""
    return await usage.report(space_id, group_by=group_by, first=first, last=last)


@get(space_paths("/budget"), summary="Read the budget of a space", tags=_SPACE_TAGS)
async def read_budget(
    budget_store: PortDependency[SpaceBudgets], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> SpaceBudget:
    """Return the budget of the space, and what is spent of it in the current period."""
    return await budget_store.get(space_id)


@put(space_paths("/budget"), summary="Set the budget of a space", tags=_SPACE_TAGS)
async def put_budget(
    budget_store: PortDependency[SpaceBudgets],
    data: JSONBody[NewSpaceBudget],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> SpaceBudget:
    """Limit what the model calls of the space may use in each day, week or month, in UTC.

    At 80 % and 100 % the space gets a notification; when all is spent, model calls fail with `BUDGET_EXCEEDED`.
    """
    return await budget_store.put(space_id, data)


@delete(space_paths("/budget"), summary="Remove the budget of a space", tags=_SPACE_TAGS)
async def delete_budget(
    budget_store: PortDependency[SpaceBudgets], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> None:
    """Remove the budget of the space."""
    await budget_store.delete(space_id)


class WorkerList(msgspec.Struct, frozen=True, kw_only=True):
    """The processes that execute runs, oldest first."""

    items: list[WorkerStatus]


@get(space_paths("/queue"), summary="Read the queue of a space", tags=_SPACE_TAGS)
async def read_queue(
    worker_store: PortDependency[Workers],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Queue:
    """Return the runs that wait for a worker, a time or their base, in the order in which workers take them."""
    return await worker_store.queue(space_id, limit=limit, cursor=cursor)


@get("/api/queue/spaces", summary="List the queues of all spaces", tags=_SPACE_TAGS)
async def list_backlogs(worker_store: PortDependency[Workers], limit: Limit = DEFAULT_PAGE_SIZE) -> SpaceBacklogs:
    """Return the spaces with queued runs or runs at work, those whose oldest ready run waits longest first.

    It needs a key for every space.
    """
    return await worker_store.backlogs(limit=limit)


@get(space_paths("/queue/settings"), summary="Read the queue settings of a space", tags=_SPACE_TAGS)
async def read_queue_settings(
    worker_store: PortDependency[Workers], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> SpaceQueue:
    """Return how the space shares the workers with other spaces."""
    return await worker_store.space_queue(space_id)


@put(space_paths("/queue/settings"), summary="Set the queue settings of a space", tags=_SPACE_TAGS)
async def put_queue_settings(
    worker_store: PortDependency[Workers], data: JSONBody[SpaceQueue], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> SpaceQueue:
    """Set how many runs workers take of the space in each round, and how many may be at work; absent fields are reset.

    It needs a key for every space: spaces compete.
    """
    return await worker_store.put_space_queue(space_id, data)


@get(space_paths("/workers"), summary="List workers", tags=_SPACE_TAGS)
async def list_workers(
    worker_store: PortDependency[Workers], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> WorkerList:
    """Return the workers, and the runs of the space that each holds; of those of other spaces only the number."""
    return WorkerList(items=await worker_store.of_space(space_id))


ROUTES = [
    list_spaces,
    create_space,
    read_space,
    update_space,
    delete_space,
    read_usage,
    read_budget,
    put_budget,
    delete_budget,
    read_queue,
    list_backlogs,
    read_queue_settings,
    put_queue_settings,
    list_workers,
    list_grants,
    revoke_grant,
]

_KEY_TAGS: Final = ["keys"]
_PoolName = Annotated[str, Meta(extra_json_schema={"pattern": POOL_PATTERN.replace(r"\Z", "$")})]
_KeySpaceId = Annotated[SpaceId, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_-]{1,128}$"})]


class KeyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new API key."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    scope: Scope = Scope.RUN
    space_ids: Annotated[list[_KeySpaceId], Meta(max_length=1000)] = []
    """The spaces of the key; by default the caller's default space."""
    every_space: bool = False
    """Whether the key covers all spaces, including later ones; `space_ids` must be empty then."""
    pools: Annotated[list[_PoolName], Meta(max_length=MAX_POOLS)] = []
    """The pools that a key with the scope `worker` may claim runs from; by default every pool."""
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


class TicketBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for a ticket."""

    path: Annotated[str, Meta(max_length=1000, examples=["/api/runs/run_1/sse"])]
    """The path of a stream, without host and query."""


@post("/api/tickets", summary="Create a ticket for a stream", tags=_KEY_TAGS)
async def create_ticket(tickets: NamedDependency[TicketControl], data: JSONBody[TicketBody]) -> MadeTicket:
    """Create a ticket that opens one stream with your access, in the query parameter `ticket`, for ten minutes.

    For browsers, whose `EventSource` and `WebSocket` cannot send a key. It ends earlier if the key is revoked.
    """
    check_stream_path(tickets.principal, data.path)
    return await tickets.create(data.path)


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """The principal of a request."""

    name: str | None
    """The id of the key, or `oidc:` and the subject of the token; null on a server without keys."""
    scope: Scope
    space_ids: list[SpaceId] | None
    """The spaces it may access; null means every space."""
    default_space: SpaceId
    """The space of routes that name none."""


@get("/api/me", summary="Read your own access", tags=_KEY_TAGS)
async def read_me(tickets: NamedDependency[TicketControl]) -> Me:
    """Return the name, the scope and the spaces of the key that the request is made with."""
    principal = tickets.principal
    return Me(
        name=principal.name,
        scope=principal.scope,
        space_ids=None if principal.space_ids is None else list(principal.space_ids),
        default_space=principal.default_space,
    )


@post("/api/session", summary="Start a browser session", tags=_KEY_TAGS, status_code=200)
async def start_browser_session(
    request: Request[Any, Any, Any], tickets: NamedDependency[TicketControl]
) -> Response[Me]:
    """Set the key of the `Authorization` header as a session cookie, which no script can read.

    The cookie counts only for requests from pages of this server. It lasts until the browser closes.
    """
    me, token = await read_me.fn(tickets=tickets), bearer_token(request.scope)
    headers = {"Set-Cookie": session_cookie(request.scope, token)} if token else {}
    return Response(me, headers=headers)


@delete(
    "/api/session",
    summary="End a browser session",
    tags=_KEY_TAGS,
    response_headers=[ResponseHeader(name="Set-Cookie", value=END_SESSION, documentation_only=False)],
)
async def end_browser_session() -> None:
    """Remove the session cookie."""


KEY_ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (
    list_keys,
    create_key,
    revoke_key,
    create_ticket,
    read_me,
    start_browser_session,
    end_browser_session,
)

_AGENT_TAGS = ["agents"]


@get(space_paths("/tools"), summary="List tools", tags=_AGENT_TAGS)
async def list_tools(tools: NamedDependency[ToolControl], space_id: FromPath[SpaceId] = DEFAULT_SPACE) -> ToolList:
    """Return the tools of a space by name, with their sources, and the agents that have them.

    Tools of clients and of MCP servers are listed while they are connected.
    """
    return await tools.all(space_id)


TOOL_ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (list_tools,)
