"""Tool calls in progress on an MCP server, and the reason its connection closed.

A call whose server asks for input stays open until the answer is given to it.
"""

import asyncio
from collections.abc import Awaitable

from holdfast.domain.content import Json
from holdfast.domain.errors import McpServerFailed
from holdfast.domain.ids import RunId
from holdfast.mcp.replies import UNNAMED_REQUEST, Elicitation, ElicitationRequest, McpResult, request_fingerprint


class OpenCall:
    """One call, from when it is made until it has ended."""

    def __init__(self, run_id: RunId, *, known: dict[str, dict[str, Json]] | None = None) -> None:
        """Begin; `known` are answers to requests that were asked before, by their likeness."""
        self.run_id = run_id
        self._known = known or {}
        self._outcomes: asyncio.Queue[McpResult | Elicitation | McpServerFailed] = asyncio.Queue()
        self._answer: asyncio.Future[dict[str, Json]] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def done(self) -> bool:
        """Whether its server is done with it."""
        return self._task is not None and self._task.done()

    @property
    def awaiting_answer(self) -> bool:
        """Whether its server waits for an answer."""
        return self._answer is not None

    def start(self, tasks: asyncio.TaskGroup, calling: Awaitable[McpResult | Elicitation]) -> None:
        """Make the call."""
        self._task = tasks.create_task(self._run(calling))

    async def next(self) -> McpResult | Elicitation:
        """Wait for the end of the call, or for what its server asks."""
        news = await self._outcomes.get()
        if isinstance(news, McpServerFailed):
            raise news
        return news

    async def ask(self, request: ElicitationRequest) -> dict[str, Json]:
        """Have something asked, and wait for the answer."""
        if (known := self._known.pop(request_fingerprint(request), None)) is not None:
            return known
        self._answer = asyncio.get_running_loop().create_future()
        self._outcomes.put_nowait(Elicitation(requests={UNNAMED_REQUEST: request}, way="answer"))
        try:
            return await self._answer
        finally:
            self._answer = None

    def answer(self, answer: dict[str, Json]) -> None:
        """Give the answer to what was asked."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def cancel(self) -> None:
        """Call it off: the server is told."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, calling: Awaitable[McpResult | Elicitation]) -> None:
        try:
            self._outcomes.put_nowait(await calling)
        except McpServerFailed as error:
            self._outcomes.put_nowait(error)


class OpenCalls:
    """The calls of one server, by their keys."""

    def __init__(self) -> None:
        self._calls: dict[str, OpenCall] = {}

    def __len__(self) -> int:
        """Return how many the server is at work on."""
        return sum(not call.done for call in self._calls.values())

    def put(self, key: str, call: OpenCall) -> None:
        """Add one; an older one of the same key is called off."""
        self.drop(key)
        # What was lost while it waited for an answer has nobody who would take it away.
        self._calls = {other: each for other, each in self._calls.items() if not each.done}
        self._calls[key] = call

    def get_awaiting_answer(self, key: str) -> OpenCall | None:
        """Return the call of that key whose server waits for an answer."""
        call = self._calls.get(key)
        return call if call is not None and call.awaiting_answer else None

    def drop(self, key: str) -> None:
        """Forget a call; if it has not ended, it is called off."""
        call = self._calls.pop(key, None)
        if call is not None:
            call.cancel()

    def clear(self) -> None:
        """Call all of them off."""
        for key in list(self._calls):
            self.drop(key)

    def all_awaiting_answer(self) -> list[tuple[str, OpenCall]]:
        """Return those whose servers wait for answers."""
        return [(key, call) for key, call in self._calls.items() if call.awaiting_answer]

    def only_active(self) -> OpenCall | None:
        """Return the call that a request of the server must be about: the only one on its way, or nobody knows."""
        moving = [call for call in self._calls.values() if not call.awaiting_answer and not call.done]
        return moving[0] if len(moving) == 1 else None


class ConnectionLoss:
    """Knows why a connection ended; the first reason counts."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._reason = "it is gone"
        self.occurred = asyncio.Event()

    def record(self, reason: str) -> None:
        """Say that it has ended."""
        if not self.occurred.is_set():
            self._reason = reason
            self.occurred.set()

    def error(self, *, again: bool = False) -> McpServerFailed:
        """Return what comes of it for a call; one that did not even begin may be made `again` at once."""
        return McpServerFailed(
            f"the MCP server `{self._server}` failed: {self._reason}", started=not again, again=again
        )

    def refusal(self, reason: str) -> McpServerFailed:
        """Return what comes of it that a server, which is still there, refuses a call."""
        return McpServerFailed(f"the MCP server `{self._server}` refused: {reason}", started=False)
