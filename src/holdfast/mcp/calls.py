"""Tool calls in progress on an MCP server, and the reason why its connection was lost.

A call whose server asks for input stays open until it gets the response.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final

from holdfast.domain.content import Json
from holdfast.domain.errors import McpServerFailed
from holdfast.domain.ids import RunId
from holdfast.mcp.replies import UNNAMED_REQUEST, Elicitation, ElicitationRequest, McpResult, request_fingerprint
from holdfast.tools.redaction import Redaction


class OpenCall:
    """One call in progress."""

    def __init__(self, run_id: RunId, *, known_responses: dict[str, dict[str, Json]] | None = None) -> None:
        """Create a call; `known_responses` are responses to earlier requests, by request fingerprint."""
        self.run_id = run_id
        self._known_responses = known_responses or {}
        self._outcomes: asyncio.Queue[McpResult | Elicitation | McpServerFailed] = asyncio.Queue()
        self._response: asyncio.Future[dict[str, Json]] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def done(self) -> bool:
        """Whether the server has finished the call."""
        return self._task is not None and self._task.done()

    @property
    def awaiting_response(self) -> bool:
        """Whether the server waits for a response."""
        return self._response is not None

    def start(self, tasks: asyncio.TaskGroup, call: Awaitable[McpResult | Elicitation]) -> None:
        """Start the call as a task."""

        async def run() -> None:
            try:
                self._outcomes.put_nowait(await call)
            except McpServerFailed as error:
                self._outcomes.put_nowait(error)

        self._task = tasks.create_task(run())

    async def next(self) -> McpResult | Elicitation:
        """Wait for the result of the call, or for an elicitation of its server."""
        outcome = await self._outcomes.get()
        if isinstance(outcome, McpServerFailed):
            raise outcome
        return outcome

    async def ask(self, request: ElicitationRequest) -> dict[str, Json]:
        """Emit an elicitation, and wait for the response."""
        if (known := self._known_responses.pop(request_fingerprint(request), None)) is not None:
            return known
        self._response = asyncio.get_running_loop().create_future()
        self._outcomes.put_nowait(Elicitation(requests={UNNAMED_REQUEST: request}, way="answer"))
        try:
            return await self._response
        finally:
            self._response = None

    def respond(self, response: dict[str, Json]) -> None:
        """Pass the response to the waiting server."""
        if self._response is not None and not self._response.done():
            self._response.set_result(response)

    def cancel(self) -> None:
        """Cancel the call; the SDK notifies the server."""
        if self._task is not None:
            self._task.cancel()


class OpenCalls:
    """The calls of one server by key."""

    def __init__(self) -> None:
        self._calls: dict[str, OpenCall] = {}

    def __len__(self) -> int:
        """Return the number of unfinished calls."""
        return sum(not call.done for call in self._calls.values())

    def put(self, key: str, call: OpenCall) -> None:
        """Add a call; an older one with the same key is cancelled."""
        self.drop(key)
        # Calls that were lost while they waited for a response are removed here: no caller does it.
        self._calls = {other: each for other, each in self._calls.items() if not each.done}
        self._calls[key] = call

    def get_awaiting_response(self, key: str) -> OpenCall | None:
        """Return the call of a key, if its server waits for a response."""
        call = self._calls.get(key)
        return call if call is not None and call.awaiting_response else None

    def drop(self, key: str) -> None:
        """Remove a call, and cancel it if it has not finished."""
        call = self._calls.pop(key, None)
        if call is not None:
            call.cancel()

    def clear(self) -> None:
        """Remove and cancel all calls."""
        for key in list(self._calls):
            self.drop(key)

    def all_awaiting_response(self) -> list[tuple[str, OpenCall]]:
        """Return the calls whose server waits for a response, with their keys."""
        return [(key, call) for key, call in self._calls.items() if call.awaiting_response]

    def only_active(self) -> OpenCall | None:
        """Return the only call that is running, which a request of the server must belong to; else none."""
        active = [call for call in self._calls.values() if not call.awaiting_response and not call.done]
        return active[0] if len(active) == 1 else None


MAX_STDERR_CHARS: Final = 1_000
"""Characters of a server's stderr, from its end, in errors and events."""
_KEPT_STDERR_BYTES: Final = 16 * 1024


class ConnectionLoss:
    """Records why a connection was lost, and the end of the server's stderr; the first reason counts."""

    def __init__(self, server: str, *, redaction: Redaction) -> None:
        self._server = server
        self._redaction = redaction
        self._reason = "the connection was lost"
        self._stderr = bytearray()
        self._shows_stderr = False
        self.remedy: str | None = None
        self.occurred = asyncio.Event()

    @property
    def message(self) -> str:
        """What failed."""
        return f"the MCP server `{self._server}` failed: {self._redaction.text(self._reason)}"

    @property
    def stderr(self) -> str:
        """The end of the server's stderr, without secrets."""
        text = self._redaction.text(self._stderr.decode(errors="replace")).strip()
        return text[-MAX_STDERR_CHARS:].strip()

    def add_stderr(self, piece: bytes) -> None:
        """Keep what the server wrote to stderr."""
        self._stderr += piece
        del self._stderr[:-_KEPT_STDERR_BYTES]

    def record(self, reason: str, *, remedy: str | None = None, shows_stderr: bool = False) -> None:
        """Record that the connection was lost; `shows_stderr` if the server's stderr may explain it."""
        if not self.occurred.is_set():
            self._reason, self.remedy, self._shows_stderr = reason, remedy, shows_stderr
            self.occurred.set()

    def error(self, *, again: bool = False) -> McpServerFailed:
        """Return the error for a call; `again` if the call never started and may be repeated at once."""
        stderr = f": {self.stderr}" if self._shows_stderr and self.stderr else ""
        remedy = f": {self.remedy}" if self.remedy else ""
        return McpServerFailed(f"{self.message}{stderr}{remedy}", started=not again, again=again)

    def refusal(self, reason: str) -> McpServerFailed:
        """Return the error for a call that the server, still connected, has refused."""
        return McpServerFailed(f"the MCP server `{self._server}` refused: {reason}", started=False)
