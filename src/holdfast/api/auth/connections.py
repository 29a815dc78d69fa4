"""Open connections by credential: they are closed once their key or token is no longer valid."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Final

from holdfast.api.asgi import AsgiMessage
from holdfast.control.errors import Forbidden, Unauthenticated
from holdfast.control.principal import Principal
from holdfast.domain.errors import Unavailable

RECHECK_INTERVAL_SECONDS: Final = 0.3
"""Seconds between two looks; a key is believed for less than half a second, so that both are less than one."""


class TrackedConnection:
    """One request that is being answered."""

    __slots__ = ("_headers", "answering", "begun", "cut_off", "hurries", "token")

    def __init__(self, token: str, *, hurries: bool) -> None:
        """Look after what the present task answers; what does not hurry is cut off only once its answer has begun."""
        answering = asyncio.current_task()
        assert answering is not None
        self.answering: asyncio.Task[object] = answering
        self.token = token
        self.hurries = hurries
        self.begun = False
        self.cut_off = False
        self._headers: Iterable[tuple[bytes, bytes]] = ()

    def hear(self, message: AsgiMessage) -> None:
        """Learn how far the answer is, of what is sent before a stream goes its own way."""
        if not self.begun and message["type"] in ("http.response.start", "websocket.accept"):
            self.begun = True
            self._headers = message.get("headers", ())

    @property
    def streams(self) -> bool:
        """Say whether the answer is a stream."""
        return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in self._headers)

    def cut(self) -> None:
        """Stop the answer where it is."""
        if not self.cut_off and (self.begun or self.hurries):
            self.cut_off = True
            self.answering.cancel()


class ConnectionTracker:
    """All that are open. Entered, it looks after them."""

    def __init__(self, known: Callable[[str], Awaitable[Principal]]) -> None:
        self._known = known
        self._open: dict[str, set[TrackedConnection]] = {}
        self._some = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "ConnectionTracker":
        self._looking = asyncio.get_running_loop().create_task(self._look(), name="holdfast-door")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._looking is not None
        self._looking.cancel()
        await asyncio.gather(self._looking, return_exceptions=True)

    def add(self, connection: TrackedConnection) -> None:
        """Look after a connection from now on."""
        self._open.setdefault(connection.token, set()).add(connection)
        self._some.set()

    def remove(self, connection: TrackedConnection) -> None:
        """Leave a connection alone: it was answered."""
        together = self._open[connection.token]
        together.remove(connection)
        if not together:
            del self._open[connection.token]

    async def _look(self) -> None:
        while True:
            await self._some.wait()
            await asyncio.sleep(RECHECK_INTERVAL_SECONDS)
            if not self._open:
                self._some.clear()
            for token in list(self._open):
                await self._look_at(token)

    async def _look_at(self, token: str) -> None:
        try:
            await self._known(token)
        except (Unauthenticated, Forbidden):
            for connection in list(self._open.get(token, ())):
                connection.cut()
        except Unavailable:
            return  # nobody can say now: it is asked again
