"""A session with an MCP server, through the SDK.

Importing this takes seconds: import it on first use, in a thread. Every failure of the server or the SDK becomes
one error: `McpServerFailed`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from importlib import import_module
from typing import Final, TypeAlias, cast

import mcp_types as types
import msgspec
from mcp.client._transport import TransportStreams
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError

from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, McpServerFailed
from holdfast.mcp.calls import ConnectionLoss
from holdfast.mcp.replies import Elicitation, ElicitationRequest, McpResult

HANDSHAKE_TIMEOUT_SECONDS: Final = 60.0
"""Seconds that a server has to start, to introduce itself and to list its tools."""
MAX_TOOL_PAGES: Final = 100
MAX_CALL_ROUNDS: Final = 100
"""How often a server is called again that wants nothing but that."""
CALL_ROUND_INTERVAL_SECONDS: Final = 0.25
"""Seconds between two of them."""
CALL_KEY_META: Final = "io.holdfast/call-key"
"""Where in its `_meta` a call has its key: the same however often it is made."""

ElicitHandler: TypeAlias = Callable[[ElicitationRequest], Awaitable[dict[str, Json]]]
import_module("jsonschema")  # the SDK would import it in the middle of the first call

_CLIENT_INFO: Final = types.Implementation(name="holdfast", version="1")
_RECONNECT_CODES: Final = frozenset({types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT, types.INVALID_REQUEST})
"""Errors after which a connection is made anew. An address that was started again finds our requests invalid."""


class McpConnection:
    """A server that has introduced itself."""

    def __init__(self, client: Client, ending: ConnectionLoss) -> None:
        self._client = client
        self._loss = ending
        self.tools_changed = False
        """Whether it says that it has other tools than it has listed."""

    @property
    def closed(self) -> bool:
        """Whether nothing can be asked of it any more."""
        return self._loss.occurred.is_set()

    async def list_tools(self) -> list[Json]:
        """Return its tools, as it lists them."""
        self.tools_changed, listed = False, False
        try:
            with _wrap_errors(self._loss):
                found = await self._list_pages()
            listed = True
            return found
        finally:
            self.tools_changed = self.tools_changed or not listed

    async def call(
        self, tool: str, arguments: dict[str, Json], *, key: str, answers: dict[str, dict[str, Json]], state: str | None
    ) -> McpResult | Elicitation:
        """Call a tool, or call it again with `answers` to what it asked."""
        with _wrap_errors(self._loss):
            return await self._call(tool, arguments, key=key, answers=answers, state=state)

    async def _list_pages(self) -> list[Json]:
        found: list[Json] = []
        cursor: str | None = None
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_SECONDS):
            for _ in range(MAX_TOOL_PAGES):
                page = await self._client.list_tools(cursor=cursor)
                found += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
                cursor = page.next_cursor
                if cursor is None:
                    break
        return found

    async def _call(
        self, tool: str, arguments: dict[str, Json], *, key: str, answers: dict[str, dict[str, Json]], state: str | None
    ) -> McpResult | Elicitation:
        given: types.InputResponses = {name: types.ElicitResult.model_validate(one) for name, one in answers.items()}
        for _ in range(MAX_CALL_ROUNDS):
            result = await self._client.session.call_tool(
                tool,
                arguments,
                input_responses=given or None,
                request_state=state,
                meta=cast(types.RequestParamsMeta, {CALL_KEY_META: key}),
                allow_input_required=True,
            )
            if not isinstance(result, types.InputRequiredResult):
                return msgspec.convert(result.model_dump(mode="json", by_alias=True, exclude_none=True), McpResult)
            if result.input_requests:
                return _to_elicitation(result.input_requests, result.request_state)
            given, state = {}, result.request_state
            await asyncio.sleep(CALL_ROUND_INTERVAL_SECONDS)
        raise McpServerFailed(f"it has not come to an end in {MAX_CALL_ROUNDS} rounds")


@asynccontextmanager
async def open_connection(
    transport: AbstractAsyncContextManager[TransportStreams], ending: ConnectionLoss, elicit: ElicitHandler
) -> AsyncIterator[McpConnection]:
    """Introduce ourselves to a server, and talk with it while the block runs."""

    async def ask(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult.model_validate(await elicit(_to_elicitation_request(params)))

    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            connection.tools_changed = True

    client = Client(transport, elicitation_callback=ask, message_handler=hear, client_info=_CLIENT_INFO, cache=None)
    connection = McpConnection(client, ending)
    with _wrap_errors(ending):
        async with AsyncExitStack() as stack:
            await _handshake(stack, client, ending)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            listening = tasks.create_task(_watch_tool_changes(client, connection))
            stack.callback(listening.cancel)
            yield connection


@contextmanager
def _wrap_errors(ending: ConnectionLoss) -> Iterator[None]:
    """Make one error of whatever a server does to the SDK."""
    try:
        yield
    except HoldfastError:
        raise
    except MCPError as error:
        if error.code not in _RECONNECT_CODES:
            raise ending.refusal(error.message) from error
        ending.record(error.message)
        raise ending.error(again=error.code == types.INVALID_REQUEST) from error
    except Exception as error:
        ending.record(_error_text(error))
        raise ending.error() from error


async def _handshake(stack: AsyncExitStack, client: Client, ending: ConnectionLoss) -> None:
    limit = asyncio.timeout(HANDSHAKE_TIMEOUT_SECONDS)
    try:
        async with limit:
            await stack.enter_async_context(client)
    except TimeoutError as exc:
        if not limit.expired():
            raise
        ending.record(f"it did not introduce itself within {HANDSHAKE_TIMEOUT_SECONDS:g} seconds")
        raise ending.error() from exc


async def _watch_tool_changes(client: Client, connection: McpConnection) -> None:
    """Hear of other tools where a server must be asked to tell."""
    capabilities = client.server_capabilities.tools
    if capabilities is None or not capabilities.list_changed:
        return
    try:
        async with client.listen(tools_list_changed=True) as changes:
            async for _ in changes:
                connection.tools_changed = True
    except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
        return  # it tells without being asked, or not at all


def _to_elicitation_request(params: types.ElicitRequestParams) -> ElicitationRequest:
    return msgspec.convert(params.model_dump(mode="json", by_alias=True, exclude_none=True), ElicitationRequest)


def _to_elicitation(requests: types.InputRequests, state: str | None) -> Elicitation:
    asked = {}
    for name, request in requests.items():
        if not isinstance(request, types.ElicitRequest):
            raise McpServerFailed(f"it asks for `{request.method}`, which is not offered", started=False)
        asked[name] = _to_elicitation_request(request.params)
    return Elicitation(requests=asked, way="call_again", state=state)


def _error_text(error: BaseException) -> str:
    """Return what an error says; of a group, what the first in it says."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
