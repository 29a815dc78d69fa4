"""A client of one declared MCP server: connects on demand and reconnects after a failure.

    never used ──► connected ──► closed, or idle for a while ──► connected again at the next call
                       └─ failed: retried after 1 s, then 2, 4, … at most 60 s

Callers that arrive while it is connecting wait for the same connection.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from holdfast.domain.content import Json
from holdfast.domain.errors import McpServerFailed
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

if TYPE_CHECKING:
    from holdfast.mcp.connection import ElicitHandler, McpConnection


IDLE_TIMEOUT_SECONDS: Final = 600.0
"""Seconds after which a server that nobody needs is let go."""
LIST_TIMEOUT_SECONDS: Final = 30.0
"""Seconds that whoever lists tools waits for a server."""
RELIST_TIMEOUT_SECONDS: Final = 3.0
"""Seconds, where it had no tools the last time."""
MAX_BACKOFF_SECONDS: Final = 60.0
"""Seconds."""

OpenConnection: TypeAlias = "Callable[[ConnectionLoss, ElicitHandler], AbstractAsyncContextManager[McpConnection]]"
_Answers: TypeAlias = dict[str, dict[str, Json]]
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
        idle: float,
        monotonic: Callable[[], float],
    ) -> None:
        self.name = name
        self.declared = declared
        self.open_calls = OpenCalls()
        self._tasks = tasks
        self._open = open
        self._idle = idle
        self._monotonic = monotonic
        self._connecting = asyncio.Lock()
        self._connection: McpConnection | None = None
        self._holder: asyncio.Task[None] | None = None
        self._tools: Sequence[McpTool] | None = None
        self._failures = 0
        self._failed: McpServerFailed | None = None
        self._retry_at = 0.0
        self._listing: asyncio.Task[None] | None = None
        self._list_attempts = 0
        self._next_list_at = 0.0
        self._wait_until = 0.0
        self._used_at = monotonic()

    async def tools(self) -> Sequence[McpTool]:
        """Return the tools that may be used: the same sequence until they change.

        A server that is gone has those that it had. One that cannot be reached and never was has none, until it is
        looked for again and is there. Those who list at the same time wait for the same look.
        """
        if self._should_list():
            self._start_listing()
        if self._listing is not None and not self._listing.done():
            # It goes on when nobody waits for it any more, and who lists next finds what came of it.
            await asyncio.wait([self._listing], timeout=max(self._wait_until - self._monotonic(), 0.0))
        return self._tools or ()

    async def fresh_tools(self) -> Sequence[McpTool]:
        """Return the tools that may be used as they are at this moment, or raise if the server cannot be reached."""
        await self._connected()
        return self._tools or ()

    async def call(self, run_id: RunId, tool: str, arguments: dict[str, Json], *, key: str) -> McpResult | Elicitation:
        """Call a tool."""
        return await self._call(run_id, tool, arguments, key=key)

    async def answer(
        self,
        run_id: RunId,
        tool: str,
        arguments: dict[str, Json],
        *,
        key: str,
        asked: Elicitation,
        response: Json,
        again: bool,
    ) -> McpResult | Elicitation:
        """Go on with a call that asked; one that is open no more is made `again`, and told what is known, or fails."""
        answers = elicitation_responses(asked, response)
        if asked.way == "call_again":
            return await self._call(run_id, tool, arguments, key=key, answers=answers, state=asked.state)
        parked = self.open_calls.get_awaiting_answer(key)
        if parked is not None:
            parked.answer(answers[UNNAMED_REQUEST])
            return await self._next(key, parked)
        if not again:
            raise McpServerFailed(f"the MCP server `{self.name}` has ended while it waited for the answer")
        known = {request_fingerprint(request): answers[name] for name, request in asked.requests.items()}
        return await self._call(run_id, tool, arguments, key=key, known=known)

    def close(self) -> None:
        """Let it go."""
        self.open_calls.clear()
        if self._holder is not None:
            self._holder.cancel()

    async def _call(
        self,
        run_id: RunId,
        tool: str,
        arguments: dict[str, Json],
        *,
        key: str,
        known: _Answers | None = None,
        answers: _Answers | None = None,
        state: str | None = None,
    ) -> McpResult | Elicitation:
        """Make a call; once more, if the connection was of no use for it."""

        async def make() -> McpResult | Elicitation:
            connection = await self._connected()
            call = OpenCall(run_id, known=known)
            self.open_calls.put(key, call)
            call.start(self._tasks, connection.call(tool, arguments, key=key, answers=answers or {}, state=state))
            return await self._next(key, call)

        try:
            return await make()
        except McpServerFailed as error:
            if not error.details.get("again"):
                raise
            return await make()

    async def _next(self, key: str, call: OpenCall) -> McpResult | Elicitation:
        """Wait for the end of a call, or for a question; one that nobody waits for any more is called off."""
        try:
            async with asyncio.timeout(self.declared.timeout_seconds):
                return await call.next()
        except TimeoutError as exc:
            raise McpServerFailed(
                f"the MCP server `{self.name}` gave no answer within {self.declared.timeout_seconds:g} seconds"
            ) from exc
        finally:
            self._used_at = self._monotonic()
            if not call.awaiting_answer:
                self.open_calls.drop(key)

    def _should_list(self) -> bool:
        if self._listing is not None and not self._listing.done():
            return False
        if self._tools is None:
            return self._monotonic() >= self._next_list_at
        return self._connection is not None and not self._connection.closed and self._connection.tools_changed

    def _start_listing(self) -> None:
        now = self._monotonic()
        self._wait_until = now + (
            RELIST_TIMEOUT_SECONDS if self._tools is None and self._list_attempts else LIST_TIMEOUT_SECONDS
        )
        self._next_list_at = now + _backoff_seconds(self._list_attempts)
        self._list_attempts += 1
        self._listing = self._tasks.create_task(self._list_quietly())

    async def _list_quietly(self) -> None:
        with suppress(McpServerFailed):
            await self._connected()

    async def _connected(self) -> "McpConnection":
        """Return a connection that works, with its tools listed."""
        async with self._connecting:
            if self._connection is None or self._connection.closed:
                self._check_backoff()
                self._connection = await self._connect()
            if self._connection.tools_changed or self._tools is None:
                await self._list(self._connection)
            self._used_at = self._monotonic()
            return self._connection

    def _check_backoff(self) -> None:
        pause = self._retry_at - self._monotonic()
        if self._failed is not None and pause > 0:
            raise McpServerFailed(f"{self._failed.message}; it is tried again in {pause:.0f} seconds", started=False)

    async def _connect(self) -> "McpConnection":
        ready: asyncio.Future[McpConnection] = asyncio.get_running_loop().create_future()
        self._holder = holding = self._tasks.create_task(self._hold_open(ready))
        try:
            connection = await ready
        except McpServerFailed as error:
            self._back_off(error)
            raise McpServerFailed(error.message, started=False) from error
        except asyncio.CancelledError:
            holding.cancel()
            self._back_off(McpServerFailed(f"the MCP server `{self.name}` was not there in time"))
            raise
        self._failures, self._failed = 0, None
        connection.tools_changed = True
        return connection

    def _back_off(self, error: McpServerFailed) -> None:
        """Do not try again at once."""
        _log.warning("%s", error.message)
        self._failed = error
        self._retry_at = self._monotonic() + _backoff_seconds(self._failures)
        self._failures += 1

    async def _hold_open(self, ready: "asyncio.Future[McpConnection]") -> None:
        """Keep a connection open until it is gone or nobody needs it."""
        ending = ConnectionLoss(self.name)
        try:
            async with self._open(ending, self._elicit) as connection:
                ready.set_result(connection)
                await self._wait_until_idle(ending)
                ending.record("it was let go")
        except McpServerFailed as error:
            ending.record(error.message)
        finally:
            if not ready.done():  # who waits for it learns also that it was let go meanwhile
                ending.record("it was let go before it was there")
                ready.set_exception(ending.error())

    async def _wait_until_idle(self, ending: ConnectionLoss) -> None:
        while not ending.occurred.is_set():
            rest = self._used_at + self._idle - self._monotonic()
            if rest <= 0 and not len(self.open_calls) and not self._connecting.locked():
                return
            try:
                async with asyncio.timeout(max(rest, 1.0)):
                    await ending.occurred.wait()
            except TimeoutError:
                continue

    async def _list(self, connection: "McpConnection") -> None:
        found = usable_tools(self.name, self.declared, await connection.list_tools())
        if found != self._tools:
            self._tools = found

    async def _elicit(self, request: ElicitationRequest) -> dict[str, Json]:
        """Ask what a server asks in the name of the call that it must be about."""
        call = self.open_calls.only_active()
        if call is None:
            _log.warning("the MCP server `%s` asks something, and nobody knows for which call", self.name)
            return {"action": "cancel"}
        return await call.ask(request)


def _backoff_seconds(failures: int) -> float:
    """Return how long to leave a server alone that has failed once more than so often."""
    return min(float(1 << min(failures, 10)), MAX_BACKOFF_SECONDS)
