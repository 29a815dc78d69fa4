"""Authentication and authorization: the middleware in front of every route.

This is the only place that decides what a principal can see. Every route concerns the space in its path, or else the
home space of the principal. The middleware checks the former, fills in the latter, and gives the route use cases
that act for that principal.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Protocol, Self

from holdfast.api.asgi import AsgiApp, AsgiMessage, AsgiScope, Receive, Send
from holdfast.api.auth.connections import ConnectionTracker, TrackedConnection
from holdfast.api.auth.rate_limit import RequestRateLimiter
from holdfast.api.auth.rules import PUBLIC_ROUTES, check_route_allowed
from holdfast.api.streams.websocket import WebSocketCloseCode, deny_handshake
from holdfast.api.use_cases import UseCases
from holdfast.api.uvicorn_protocols import close_socket
from holdfast.control.api_keys import TOKEN_PREFIX, invalid_key_error
from holdfast.control.errors import Unauthenticated
from holdfast.control.principal import LOCAL_PRINCIPAL, Principal
from holdfast.domain.errors import HoldfastError
from holdfast.domain.ids import SpaceId
from holdfast.domain.space import DEFAULT_SPACE

_AUTHORIZATION: Final = b"authorization"
REVOKED_COMMENT: Final = b": revoked: what this stream was opened with opens nothing any more\n\n"
"""The last words of a stream that is cut off."""


class Authenticator(Protocol):
    """Those who know who comes with what is sent."""

    async def authenticate(self, token: str) -> Principal:
        """Return who it is, or raise `Unauthenticated`."""


class ApiKeyAuthenticator(Authenticator, Protocol):
    """The keys of a workspace."""

    async def key_required(self) -> bool:
        """Say whether everybody needs one."""


class AuthMiddleware:
    """What every route is behind. Entered, it also cuts off those who may no longer stay."""

    def __init__(
        self,
        controls: Callable[[Principal], UseCases],
        keys: ApiKeyAuthenticator,
        *,
        oidc: Authenticator | None = None,
        require_key: bool = False,
        rate_limiter: RequestRateLimiter | None = None,
    ) -> None:
        """Let in who comes with a key, or with a token of `people`; without one only where none is needed."""
        self._controls = controls
        self._keys = keys
        self._oidc = oidc
        self._require_key = require_key or oidc is not None
        self._rate_limiter = rate_limiter or RequestRateLimiter()
        self._connections = ConnectionTracker(self._authenticate)

    async def __aenter__(self) -> Self:
        await self._connections.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connections.__aexit__(kind, error, trace)

    def wrap(self, app: AsgiApp) -> AsgiApp:
        """Return a route behind the door."""

        async def call(scope: AsgiScope, receive: Receive, send: Send) -> None:
            try:
                connection = await self._authorize(scope)
            except HoldfastError as error:
                await _send_error(error, scope, send)
                return
            if connection is None:
                await app(scope, receive, send)
            else:
                await self._run_tracked(connection, app, scope, receive, send)

        return call

    async def _authorize(self, scope: AsgiScope) -> TrackedConnection | None:
        """Let somebody do what they ask for, and return what is to be looked after, if it is for somebody."""
        name = scope["route_handler"].fn.__name__
        if name in PUBLIC_ROUTES:
            set_request_control(self._controls(LOCAL_PRINCIPAL))
            return None
        token = _bearer_token(scope)
        asker = await self._authenticate(token)
        await self._rate_limiter.hit(asker)
        check_route_allowed(asker, name)
        _check_space(asker, scope)
        set_request_control(self._controls(asker))
        return TrackedConnection(token, cancel_before_response=asker is not LOCAL_PRINCIPAL)

    async def _authenticate(self, token: str) -> Principal:
        """Return who comes with a token, or without any."""
        if not self._require_key and not await self._keys.key_required():
            return LOCAL_PRINCIPAL
        if not token:
            raise Unauthenticated(f"this server needs a key: send it as `Authorization: Bearer {TOKEN_PREFIX}…`")
        if self._oidc is None or token.startswith(TOKEN_PREFIX):
            return await self._keys.authenticate(token)
        return await self._oidc.authenticate(token)

    async def _run_tracked(
        self, connection: TrackedConnection, app: AsgiApp, scope: AsgiScope, receive: Receive, send: Send
    ) -> None:
        async def tell(message: AsgiMessage) -> None:
            connection.record(message)
            await send(message)

        self._connections.add(connection)
        try:
            await app(scope, receive, tell)
        except asyncio.CancelledError:
            if not connection.revoked:
                raise
            connection.task.uncancel()
            await _send_revoked(connection, scope, send)
        finally:
            self._connections.remove(connection)


async def _send_error(error: HoldfastError, scope: AsgiScope, send: Send) -> None:
    """Answer with an error; that of a request is for the route to put into words."""
    if scope["type"] != "websocket":
        raise error
    await deny_handshake(error, scope, send)


async def _send_revoked(connection: TrackedConnection, scope: AsgiScope, send: Send) -> None:
    """Say why there is no more; an answer that has not begun is an error like any other."""
    if not connection.response_started:
        await _send_error(invalid_key_error(), scope, send)
        return
    with suppress(RuntimeError, OSError):  # it has ended by itself in this moment, or its reader has
        if scope["type"] == "websocket":
            reason = "what it was opened with opens nothing any more"
            await close_socket(scope, send, code=WebSocketCloseCode.REVOKED, reason=reason)
        elif connection.is_event_stream:
            await send({"type": "http.response.body", "body": REVOKED_COMMENT})


def _check_space(principal: Principal, scope: AsgiScope) -> None:
    """Raise unless the space that a route is about is theirs; where it names none, name it."""
    given = scope["path_params"]
    if "space_id" in given:
        principal.check_access(SpaceId(given["space_id"]))
    elif principal.default_space != DEFAULT_SPACE:
        scope["path_params"] = {
            **given,
            "space_id": principal.default_space,
        }  # a copy: the router gives the same one to all


def _bearer_token(scope: AsgiScope) -> str:
    """Return what somebody came with; nothing if it is none of ours."""
    sent = next((value.decode("latin-1") for name, value in scope["headers"] if name == _AUTHORIZATION), "")
    kind, _, token = sent.partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


_request_control: Final[ContextVar[UseCases]] = ContextVar("holdfast_asked")


def set_request_control(control: UseCases) -> None:
    """Let the rest of this request be answered by these use cases."""
    _request_control.set(control)


def request_use_case(name: str) -> Callable[[], Any]:
    """Return what gives a route the use cases of a name, those of who asks."""
    return lambda: getattr(_request_control.get(), name)
