"""Open connections by credential: they are closed once their key or token is no longer valid."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Final, TypeAlias

from holdfast.api.asgi import AsgiMessage
from holdfast.concurrency import start_background
from holdfast.control.errors import Forbidden, Unauthenticated
from holdfast.control.principal import Principal
from holdfast.control.tickets import TicketHolder
from holdfast.domain.errors import Unavailable

RECHECK_INTERVAL_SECONDS: Final = 0.3
"""Seconds between two checks; with `KEY_CACHE_SECONDS` it stays below the promised second."""


Credential: TypeAlias = str | TicketHolder
"""A token, which may be empty, or the holder of a valid ticket."""


class TrackedConnection:
    """A request in progress."""

    __slots__ = ("_headers", "task", "response_started", "revoked", "cancel_before_response", "credential")

    def __init__(self, credential: Credential, *, cancel_before_response: bool) -> None:
        """Track the current task, which is cancelled only once its response has begun, or also before."""
        task = asyncio.current_task()
        assert task is not None
        self.task: asyncio.Task[object] = task
        self.credential = credential
        self.cancel_before_response = cancel_before_response
        self.response_started = False
        self.revoked = False
        self._headers: Iterable[tuple[bytes, bytes]] = ()

    def record(self, message: AsgiMessage) -> None:
        """Record that the response has started."""
        if not self.response_started and message["type"] in ("http.response.start", "websocket.accept"):
            self.response_started = True
            self._headers = message.get("headers", ())

    @property
    def is_event_stream(self) -> bool:
        """Whether the response is an event stream."""
        return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in self._headers)

    def cancel(self) -> None:
        """Cancel the request because its credential is no longer valid."""
        if not self.revoked and (self.response_started or self.cancel_before_response):
            self.revoked = True
            self.task.cancel()


class ConnectionTracker:
    """Open connections by credential. While entered, it cancels those whose credential becomes invalid."""

    def __init__(self, authenticate: Callable[[Credential], Awaitable[Principal]]) -> None:
        self._authenticate = authenticate
        self._open: dict[Credential, set[TrackedConnection]] = {}
        self._not_empty = asyncio.Event()
        self._recheck_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "ConnectionTracker":
        self._recheck_task = start_background(
            self._recheck_loop(), name="holdfast-key-recheck", ended_by="ConnectionTracker"
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._recheck_task is not None
        self._recheck_task.cancel()
        await asyncio.gather(self._recheck_task, return_exceptions=True)

    def add(self, connection: TrackedConnection) -> None:
        """Track a connection."""
        self._open.setdefault(connection.credential, set()).add(connection)
        self._not_empty.set()

    def remove(self, connection: TrackedConnection) -> None:
        """Stop tracking a connection."""
        connections = self._open[connection.credential]
        connections.remove(connection)
        if not connections:
            del self._open[connection.credential]

    async def _recheck_loop(self) -> None:
        while True:
            await self._not_empty.wait()
            await asyncio.sleep(RECHECK_INTERVAL_SECONDS)
            if not self._open:
                self._not_empty.clear()
            for credential in list(self._open):
                try:
                    await self._authenticate(credential)
                except (Unauthenticated, Forbidden):
                    for connection in list(self._open.get(credential, ())):
                        connection.cancel()
                except Unavailable:
                    pass  # the next check tries again
