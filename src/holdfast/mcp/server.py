"""Client of one declared MCP server: connects on demand and reconnects after a failure.

    never used ──► connected ──► closed, or idle for a while ──► reconnected at the next call
                       └─ failed: retried after 1 s, then 2, 4, … at most 60 s

Callers that arrive while it is connecting wait for the same connection.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import UNSET

from holdfast.domain.content import Json
from holdfast.domain.errors import McpServerFailed
from holdfast.domain.events.custom import McpServerUnavailable
from holdfast.domain.ids import RunId
from holdfast.domain.mcp_server import McpServer
from holdfast.mcp.calls import ConnectionLoss, OpenCall, OpenCalls
from holdfast.mcp.listed_tools import McpTool, usable_tools
from holdfast.mcp.replies import (
    UNNAMED_REQUEST,
    Elicitation,
    ElicitationRequest,
    McpResult,
    elicitation_responses,
    request_fingerprint,
)
from holdfast.tools.redaction import Redaction

if TYPE_CHECKING:
    from holdfast.mcp.connection import ElicitHandler, McpConnection


IDLE_TIMEOUT_SECONDS: Final = 600.0
"""Seconds after which an unused connection is closed."""
LIST_TIMEOUT_SECONDS: Final = 30.0
"""Seconds that a caller who lists tools waits for a server."""
RELIST_TIMEOUT_SECONDS: Final = 3.0
"""Seconds that such a caller waits for a server that did not list its tools the last time."""
MAX_BACKOFF_SECONDS: Final = 60.0
"""Longest delay between two attempts to connect."""

OpenConnection: TypeAlias = "Callable[[ConnectionLoss, ElicitHandler], AbstractAsyncContextManager[McpConnection]]"
_Responses: TypeAlias = dict[str, dict[str, Json]]
_log: Final = logging.getLogger("holdfast.mcp")


class McpServerClient:
    """Lists and calls the tools of one server."""

    def __init__(
        self,
        name: str,
        declared: McpServer,
        *,
        tasks: asyncio.TaskGroup,
        open: OpenConnection,
        remedy: Callable[[str], str | None],
        redaction: Redaction,
        idle: float,
        monotonic: Callable[[], float],
    ) -> None:
        """`remedy` returns the remedy for a server that did not start, given its stderr."""
        self.name = name
        self.declared = declared
        self.open_calls = OpenCalls()
        self._tasks = tasks
        self._open = open
        self._remedy = remedy
        self._redaction = redaction
        self._loss = ConnectionLoss(self.name, redaction=self._redaction)
        self._idle = idle
        self._monotonic = monotonic
        self._connecting = asyncio.Lock()
        self._connection: McpConnection | None = None
        self._connection_task: asyncio.Task[None] | None = None
        self._tools: Sequence[McpTool] | None = None
        self._failures = 0
        self._failed: McpServerFailed | None = None
        self._unavailable: McpServerUnavailable | None = None
        self._retry_at = 0.0
        self._listing: asyncio.Task[None] | None = None
        self._list_attempts = 0
        self._next_list_at = 0.0
        self._wait_until = 0.0
        self._logged_slow = False
        self._used_at = monotonic()

    @property
    def listed(self) -> Sequence[McpTool]:
        """The tools that the server has listed so far."""
        return self._tools or ()

    async def tools(self) -> Sequence[McpTool]:
        """Return the usable tools: the same sequence until they change.

        A disconnected server keeps the tools it had. One that was never reached has none until it is. Concurrent
        callers share one listing.
        """
        now = self._monotonic()
        if self._listing is not None and not self._listing.done():
            outdated = False
        elif self._tools is None:
            outdated = now >= self._next_list_at
        else:
            connection = self._connection
            outdated = connection is not None and not connection.closed and connection.tools_changed
        if outdated:
            relisting = self._tools is None and self._list_attempts
            self._wait_until = now + (RELIST_TIMEOUT_SECONDS if relisting else LIST_TIMEOUT_SECONDS)
            self._next_list_at = now + _backoff_seconds(self._list_attempts)
            self._list_attempts += 1

            async def list_quietly() -> None:
                with suppress(McpServerFailed):
                    await self._connected()

            self._listing = self._tasks.create_task(list_quietly())
            self._logged_slow = False
        if self._listing is not None and not self._listing.done():
            # After the timeout the listing goes on, and a later caller gets its result.
            _, slow = await asyncio.wait([self._listing], timeout=max(self._wait_until - self._monotonic(), 0.0))
            if slow and not self._logged_slow and (failure := self.failure()) is not None:
                self._logged_slow = True
                _log.warning("%s; runs go on without its tools", describe_failure(failure))
        return self._tools or ()

    def failure(self) -> McpServerUnavailable | None:
        """Return why the tools of the server are not known; null if they are, or if it was never used."""
        if self._tools is not None:
            return None
        listing = self._listing is not None and not self._listing.done()
        if listing and not self._loss.occurred.is_set():
            return self._describe(f"the MCP server `{self.name}` has not started yet")
        return self._unavailable

    async def fresh_tools(self) -> Sequence[McpTool]:
        """Return the usable tools as they are now; raise if the server cannot be reached."""
        await self._connected()
        return self._tools or ()

    async def call(
        self,
        run_id: RunId,
        tool: str,
        arguments: dict[str, Json],
        *,
        key: str,
        known_responses: _Responses | None = None,
        responses: _Responses | None = None,
        state: str | None = None,
    ) -> McpResult | Elicitation:
        """Call a tool; retry once if the connection turned out to be unusable before the call started.

        `responses` and `state` continue a call that ended with an elicitation. `known_responses` are returned to the
        server if it asks for the same input again while the call is open.
        """

        async def attempt() -> McpResult | Elicitation:
            connection = await self._connected()
            call = OpenCall(run_id, known_responses=known_responses)
            self.open_calls.put(key, call)
            call.start(self._tasks, connection.call(tool, arguments, key=key, responses=responses or {}, state=state))
            return await self._next(key, call)

        try:
            return await attempt()
        except McpServerFailed as error:
            if not error.details.get("again"):
                raise
            return await attempt()

    async def respond(
        self,
        run_id: RunId,
        tool: str,
        arguments: dict[str, Json],
        *,
        key: str,
        elicitation: Elicitation,
        response: Json,
        retry: bool,
    ) -> McpResult | Elicitation:
        """Continue a call with the response to its elicitation; a call that was lost is repeated if `retry`."""
        responses = elicitation_responses(elicitation, response)
        if elicitation.way == "call_again":
            return await self.call(run_id, tool, arguments, key=key, responses=responses, state=elicitation.state)
        open_call = self.open_calls.get_awaiting_response(key)
        if open_call is not None:
            open_call.respond(responses[UNNAMED_REQUEST])
            return await self._next(key, open_call)
        if not retry:
            raise McpServerFailed(f"the MCP server `{self.name}` ended while it waited for the response")
        known = {request_fingerprint(request): responses[name] for name, request in elicitation.requests.items()}
        return await self.call(run_id, tool, arguments, key=key, known_responses=known)

    def close(self) -> None:
        """Cancel all calls and close the connection."""
        self.open_calls.clear()
        if self._connection_task is not None:
            self._connection_task.cancel()

    async def _next(self, key: str, call: OpenCall) -> McpResult | Elicitation:
        """Wait for the result of a call or an elicitation; cancel a call whose caller stops waiting."""
        try:
            async with asyncio.timeout(self.declared.timeout_seconds):
                return await call.next()
        except TimeoutError as exc:
            raise McpServerFailed(
                f"the MCP server `{self.name}` did not respond within {self.declared.timeout_seconds:g} seconds"
            ) from exc
        finally:
            self._used_at = self._monotonic()
            if not call.awaiting_response:
                self.open_calls.drop(key)

    async def _connected(self) -> "McpConnection":
        """Return an open connection with its tools listed."""
        async with self._connecting:
            if self._connection is None or self._connection.closed:
                delay = self._retry_at - self._monotonic()
                if self._failed is not None and delay > 0:
                    message = f"{self._failed.message}; it is retried in {delay:.0f} seconds"
                    raise McpServerFailed(message, started=False)
                self._connection = await self._connect()
            if self._connection.tools_changed or self._tools is None:
                tools = usable_tools(self.name, self.declared, await self._connection.list_tools())
                if tools != self._tools:
                    self._tools = tools
            self._used_at = self._monotonic()
            return self._connection

    async def _connect(self) -> "McpConnection":
        _log.info("connecting to the MCP server `%s`", self.name)
        ready: asyncio.Future[McpConnection] = asyncio.get_running_loop().create_future()
        self._connection_task = task = self._tasks.create_task(self._hold_open(ready))
        try:
            connection = await ready
        except McpServerFailed as error:
            self._back_off(error)
            raise McpServerFailed(error.message, started=False) from error
        except asyncio.CancelledError:
            task.cancel()
            self._loss.record("it did not connect in time", shows_stderr=True)
            self._back_off(self._loss.error())
            raise
        self._failures, self._failed = 0, None
        connection.tools_changed = True
        return connection

    def _back_off(self, error: McpServerFailed) -> None:
        """Record a failure and delay the next attempt."""
        self._unavailable = self._describe(self._loss.message)
        _log.warning("%s", describe_failure(self._unavailable))
        self._failed = error
        self._retry_at = self._monotonic() + _backoff_seconds(self._failures)
        self._failures += 1

    def _describe(self, message: str) -> McpServerUnavailable:
        """Return a failure with the stderr of the server so far, and the remedy for it."""
        loss = self._loss
        remedy = loss.remedy or self._remedy(loss.stderr)
        return McpServerUnavailable(
            server=self.name, message=message, remedy=remedy or UNSET, stderr=loss.stderr or UNSET
        )

    async def _hold_open(self, ready: "asyncio.Future[McpConnection]") -> None:
        """Keep a connection open until it is lost or idle."""
        loss = self._loss = ConnectionLoss(self.name, redaction=self._redaction)
        try:
            async with self._open(loss, self._elicit) as connection:
                ready.set_result(connection)
                await self._wait_until_idle(loss)
                loss.record("it was closed")
        except McpServerFailed as error:
            loss.record(error.message, remedy=error.details.get("remedy"))
        finally:
            if not ready.done():  # the waiting caller must also learn of a cancellation
                loss.record("it was closed before it was connected")
                ready.set_exception(loss.error())

    async def _wait_until_idle(self, loss: ConnectionLoss) -> None:
        while not loss.occurred.is_set():
            remaining = self._used_at + self._idle - self._monotonic()
            if remaining <= 0 and not len(self.open_calls) and not self._connecting.locked():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(max(remaining, 1.0)):
                    await loss.occurred.wait()

    async def _elicit(self, request: ElicitationRequest) -> dict[str, Json]:
        """Pass an elicitation of the server to the only active call; cancel it if the call is ambiguous."""
        call = self.open_calls.only_active()
        if call is None:
            _log.warning("cancelled an elicitation of the MCP server `%s`: it matches no single call", self.name)
            return {"action": "cancel"}
        return await call.ask(request)


def describe_failure(failure: McpServerUnavailable) -> str:
    """Return a failure as one line: what failed, the remedy, and the stderr of the server."""
    remedy = f": {failure.remedy}" if failure.remedy else ""
    stderr = f" (its stderr: {failure.stderr})" if failure.stderr else ""
    return " ".join(f"{failure.message}{remedy}{stderr}".split())


def _backoff_seconds(failures: int) -> float:
    """Return the delay after one more failure than `failures`."""
    return min(float(1 << min(failures, 10)), MAX_BACKOFF_SECONDS)
