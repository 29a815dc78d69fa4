"""The door: a request that has found its route is let in, if who asks may do that there.

This is the only place where it is decided what somebody can see. Every route is about the space in its path, or else
about the home of who asks; the door checks the one, fills in the other, and hands the route use cases that were made
for who asks.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Protocol, Self

from holdfast.api.asgi import App, Message, Receive, Scope, Send
from holdfast.api.auth.asked import ask
from holdfast.api.auth.connections import Connection, Connections
from holdfast.api.auth.rates import Rates
from holdfast.api.auth.rules import OPEN, check_rule
from holdfast.api.socket import close_socket
from holdfast.api.streams.websocket import Close, deny
from holdfast.control.control import Control
from holdfast.control.keys.asker import LOCAL, Asker
from holdfast.control.keys.errors import Unauthenticated
from holdfast.control.keys.ring import refused
from holdfast.control.keys.secret import PREFIX
from holdfast.domain.errors import HoldfastError
from holdfast.domain.ids import SpaceId
from holdfast.domain.space import DEFAULT_SPACE

_AUTHORIZATION: Final = b"authorization"
REVOKED: Final = b": revoked: what this stream was opened with opens nothing any more\n\n"
"""The last words of a stream that is cut off."""


class Known(Protocol):
    """Those who know who comes with what is sent."""

    async def asker(self, token: str) -> Asker:
        """Return who it is, or raise `Unauthenticated`."""


class Keys(Known, Protocol):
    """The keys of a workspace."""

    async def needed(self) -> bool:
        """Say whether everybody needs one."""


class Door:
    """What every route is behind. Entered, it also cuts off those who may no longer stay."""

    def __init__(
        self,
        controls: Callable[[Asker], Control],
        keys: Keys,
        *,
        people: Known | None = None,
        always: bool = False,
        rates: Rates | None = None,
    ) -> None:
        """Let in who comes with a key, or with a token of `people`; without one only where none is needed."""
        self._controls = controls
        self._keys = keys
        self._people = people
        self._always = always or people is not None
        self._rates = rates or Rates()
        self._connections = Connections(self._known)

    async def __aenter__(self) -> Self:
        await self._connections.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connections.__aexit__(kind, error, trace)

    def before(self, app: App) -> App:
        """Return a route behind the door."""

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                connection = await self._let_in(scope)
            except HoldfastError as error:
                await _refuse(error, scope, send)
                return
            if connection is None:
                await app(scope, receive, send)
            else:
                await self._watched(connection, app, scope, receive, send)

        return call

    async def _let_in(self, scope: Scope) -> Connection | None:
        """Let somebody do what they ask for, and return what is to be looked after, if it is for somebody."""
        name = scope["route_handler"].fn.__name__
        if name in OPEN:
            ask(self._controls(LOCAL))
            return None
        token = _bearer(scope)
        asker = await self._known(token)
        await self._rates.count(asker)
        check_rule(asker, name)
        _check_space(asker, scope)
        ask(self._controls(asker))
        return Connection(token, hurries=asker is not LOCAL)

    async def _known(self, token: str) -> Asker:
        """Return who comes with a token, or without any."""
        if not self._always and not await self._keys.needed():
            return LOCAL
        if not token:
            raise Unauthenticated(f"this server needs a key: send it as `Authorization: Bearer {PREFIX}…`")
        if self._people is None or token.startswith(PREFIX):
            return await self._keys.asker(token)
        return await self._people.asker(token)

    async def _watched(self, connection: Connection, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        async def tell(message: Message) -> None:
            connection.hear(message)
            await send(message)

        self._connections.add(connection)
        try:
            await app(scope, receive, tell)
        except asyncio.CancelledError:
            if not connection.cut_off:
                raise
            connection.answering.uncancel()
            await _end(connection, scope, send)
        finally:
            self._connections.remove(connection)


async def _refuse(error: HoldfastError, scope: Scope, send: Send) -> None:
    """Answer with an error; that of a request is for the route to put into words."""
    if scope["type"] != "websocket":
        raise error
    await deny(error, scope, send)


async def _end(connection: Connection, scope: Scope, send: Send) -> None:
    """Say why there is no more; an answer that has not begun is an error like any other."""
    if not connection.begun:
        await _refuse(refused(), scope, send)
        return
    with suppress(RuntimeError, OSError):  # it has ended by itself in this moment, or its reader has
        if scope["type"] == "websocket":
            reason = "what it was opened with opens nothing any more"
            await close_socket(scope, send, code=Close.REVOKED, reason=reason)
        elif connection.streams:
            await send({"type": "http.response.body", "body": REVOKED})


def _check_space(asker: Asker, scope: Scope) -> None:
    """Raise unless the space that a route is about is theirs; where it names none, name it."""
    given = scope["path_params"]
    if "space_id" in given:
        asker.check_sees(SpaceId(given["space_id"]))
    elif asker.home != DEFAULT_SPACE:
        scope["path_params"] = {**given, "space_id": asker.home}  # a copy: the router gives the same one to all


def _bearer(scope: Scope) -> str:
    """Return what somebody came with; nothing if it is none of ours."""
    sent = next((value.decode("latin-1") for name, value in scope["headers"] if name == _AUTHORIZATION), "")
    kind, _, token = sent.partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
