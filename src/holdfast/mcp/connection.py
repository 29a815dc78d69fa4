"""A session with an MCP server, through the SDK.

Importing this takes seconds: import it on first use, in a thread. Every failure of the server or the SDK becomes
one error: `McpServerFailed`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Final, TypeAlias, cast

import httpx2
import mcp_types as types
import msgspec
from mcp.client._transport import TransportStreams
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError

from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid, McpServerFailed
from holdfast.mcp.calls import ConnectionLoss
from holdfast.mcp.replies import Elicitation, ElicitationRequest, McpResult
from holdfast.tools.json_schema import compile_schema
from holdfast.tools.schema_check import find_problems

HANDSHAKE_TIMEOUT_SECONDS: Final = 60.0
"""Seconds a server has to start and initialize, and again to list its tools."""
MAX_TOOL_PAGES: Final = 100
MAX_CALL_ROUNDS: Final = 100
"""Repeated calls of a server that requests another round without an elicitation."""
CALL_ROUND_INTERVAL_SECONDS: Final = 0.25
"""Seconds between two such rounds."""
CALL_KEY_META: Final = "io.holdfast/call-key"
"""Field of `_meta` with the idempotency key of a call."""

ElicitHandler: TypeAlias = Callable[[ElicitationRequest], Awaitable[dict[str, Json]]]

_CLIENT_INFO: Final = types.Implementation(name="holdfast", version="1")
_RECONNECT_CODES: Final = frozenset({types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT, types.INVALID_REQUEST})
"""Errors after which the connection is reopened. A restarted HTTP server rejects our session as an invalid request."""


class McpConnection:
    """An initialized session with a server."""

    def __init__(self, client: Client, loss: ConnectionLoss) -> None:
        self._client = client
        self._loss = loss
        self._output_schemas: dict[str, Json] = {}
        self.tools_changed = False
        """Whether the server has announced a change of its tools since it listed them."""

    @property
    def closed(self) -> bool:
        """Whether the connection was lost."""
        return self._loss.occurred.is_set()

    async def list_tools(self) -> list[Json]:
        """Return the tools as the server lists them."""
        self.tools_changed, complete = False, False
        tools: list[Json] = []
        cursor: str | None = None
        try:
            with _wrap_errors(self._loss):
                async with asyncio.timeout(HANDSHAKE_TIMEOUT_SECONDS):
                    for _ in range(MAX_TOOL_PAGES):
                        page = await self._client.list_tools(cursor=cursor)
                        tools += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
                        self._output_schemas |= {tool.name: tool.output_schema for tool in page.tools}
                        cursor = page.next_cursor
                        if cursor is None:
                            break
            complete = True
            return tools
        finally:
            self.tools_changed = self.tools_changed or not complete

    async def call(
        self,
        tool: str,
        arguments: dict[str, Json],
        *,
        key: str,
        responses: dict[str, dict[str, Json]],
        state: str | None,
    ) -> McpResult | Elicitation:
        """Call a tool, or repeat a call with the `responses` to its elicitation."""
        input_responses: types.InputResponses = {
            name: types.ElicitResult.model_validate(response) for name, response in responses.items()
        }
        with _wrap_errors(self._loss):
            for _ in range(MAX_CALL_ROUNDS):
                result = await self._client.session.call_tool(
                    tool,
                    arguments,
                    input_responses=input_responses or None,
                    request_state=state,
                    meta=cast(types.RequestParamsMeta, {CALL_KEY_META: key}),
                    allow_input_required=True,
                )
                if not isinstance(result, types.InputRequiredResult):
                    return msgspec.convert(result.model_dump(mode="json", by_alias=True, exclude_none=True), McpResult)
                if result.input_requests:
                    return _to_elicitation(result.input_requests, result.request_state)
                input_responses, state = {}, result.request_state
                await asyncio.sleep(CALL_ROUND_INTERVAL_SECONDS)
            raise McpServerFailed(f"it did not finish the call in {MAX_CALL_ROUNDS} rounds")

    async def check_output(self, name: str, result: types.CallToolResult) -> None:
        """Raise `McpServerFailed` if a result does not match the output schema of its tool, where it can be checked."""
        try:
            schema = compile_schema(msgspec.json.encode(self._output_schemas.get(name) or {}))
            problems = await find_problems(schema, result.structured_content, name="result", limit=1)
        except (Invalid, ValueError, TypeError, RecursionError):
            return  # the model reads the result as it is
        if problems:
            raise McpServerFailed(f"the result of `{name}` does not match its output schema: {problems[0]}")


@asynccontextmanager
async def open_connection(
    transport: AbstractAsyncContextManager[TransportStreams], loss: ConnectionLoss, elicit: ElicitHandler
) -> AsyncIterator[McpConnection]:
    """Initialize a session with a server, for the duration of the block."""

    async def on_elicitation(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult.model_validate(await elicit(_to_elicitation_request(params)))

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            connection.tools_changed = True

    client = Client(
        transport,
        elicitation_callback=on_elicitation,
        message_handler=on_message,
        client_info=_CLIENT_INFO,
        cache=None,
    )
    connection = McpConnection(client, loss)
    with _wrap_errors(loss):
        async with AsyncExitStack() as stack:
            await _handshake(stack, client, loss)
            # The SDK checks results on the event loop, with a backtracking engine and without a limit.
            client.session.validate_tool_result = connection.check_output  # type: ignore[method-assign]
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            watcher = tasks.create_task(_watch_tool_changes(client, connection))
            stack.callback(watcher.cancel)
            yield connection


@contextmanager
def _wrap_errors(loss: ConnectionLoss) -> Iterator[None]:
    """Convert every error of the SDK to `McpServerFailed`."""
    try:
        yield
    except HoldfastError:
        raise
    except MCPError as error:
        if error.code not in _RECONNECT_CODES:
            raise loss.refusal(error.message) from error
        loss.record(error.message)
        raise loss.error(again=error.code == types.INVALID_REQUEST) from error
    except Exception as error:
        first: BaseException = error
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        reason = " ".join(f"{type(first).__name__}: {first}".split())[:300]
        if isinstance(first, httpx2.ConnectError):  # without the path, which may contain a key
            reason = f"nothing answers at `{first.request.url.copy_with(path='/', query=None)}`"
        loss.record(reason)
        raise loss.error() from error


async def _handshake(stack: AsyncExitStack, client: Client, loss: ConnectionLoss) -> None:
    limit = asyncio.timeout(HANDSHAKE_TIMEOUT_SECONDS)
    try:
        async with limit:
            await stack.enter_async_context(client)
    except TimeoutError as exc:
        if not limit.expired():
            raise
        loss.record(f"it did not initialize within {HANDSHAKE_TIMEOUT_SECONDS:g} seconds", shows_stderr=True)
        raise loss.error() from exc


async def _watch_tool_changes(client: Client, connection: McpConnection) -> None:
    """Subscribe to tool changes, where the server supports subscriptions."""
    capabilities = client.server_capabilities.tools
    if capabilities is None or not capabilities.list_changed:
        return
    try:
        async with client.listen(tools_list_changed=True) as changes:
            async for _ in changes:
                connection.tools_changed = True
    except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
        return  # it notifies without a subscription, or not at all


def _to_elicitation_request(params: types.ElicitRequestParams) -> ElicitationRequest:
    return msgspec.convert(params.model_dump(mode="json", by_alias=True, exclude_none=True), ElicitationRequest)


def _to_elicitation(requests: types.InputRequests, state: str | None) -> Elicitation:
    converted = {}
    for name, request in requests.items():
        if not isinstance(request, types.ElicitRequest):
            raise McpServerFailed(f"it requests `{request.method}`, which is not supported", started=False)
        converted[name] = _to_elicitation_request(request.params)
    return Elicitation(requests=converted, way="call_again", state=state)
