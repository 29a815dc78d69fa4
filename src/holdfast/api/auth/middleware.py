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
from holdfast.api.auth.connections import ConnectionTracker, Credential, TrackedConnection
from holdfast.api.auth.rate_limit import RequestRateLimiter
from holdfast.api.auth.rules import PUBLIC_ROUTES, check_route_allowed
from holdfast.api.auth.sessions import bearer_token, session_token
from holdfast.api.auth.tickets import STREAM_PATHS, ticket_of
from holdfast.api.streams.websocket import WebSocketCloseCode, deny_handshake
from holdfast.api.use_cases import UseCases
from holdfast.api.uvicorn_protocols import close_socket
from holdfast.control.api_keys import TOKEN_PREFIX, invalid_key_error
from holdfast.control.errors import Unauthenticated
from holdfast.control.principal import LOCAL_PRINCIPAL, Principal
from holdfast.control.tickets import TicketAuthenticator, TicketHolder, invalid_ticket_error
from holdfast.domain.errors import HoldfastError, Invalid
from holdfast.domain.ids import SpaceId
from holdfast.domain.space import DEFAULT_SPACE

REVOKED_COMMENT: Final = b": revoked: the key of this stream is no longer valid\n\n"
"""The last bytes of an event stream whose key was revoked."""
_use_cases: Final[ContextVar[UseCases]] = ContextVar("holdfast_use_cases")
_AUTH_KEY: Final = "holdfast_auth"


class Authenticator(Protocol):
    """Authenticates tokens."""

    async def authenticate(self, token: str) -> Principal:
        """Return the principal of a token, or raise `Unauthenticated`."""


class ApiKeyAuthenticator(Authenticator, Protocol):
    """Authenticates the API keys of a workspace."""

    async def key_required(self) -> bool:
        """Return whether every request needs a key."""


class AuthMiddleware:
    """Authenticates and authorizes each request. While entered, it closes connections whose key was revoked."""

    def __init__(
        self,
        use_cases: Callable[[Principal], UseCases],
        keys: ApiKeyAuthenticator,
        tickets: TicketAuthenticator,
        *,
        oidc: Authenticator | None = None,
        require_key: bool = False,
        rate_limiter: RequestRateLimiter | None = None,
    ) -> None:
        """Accept API keys, tickets for streams, and OpenID Connect tokens if `oidc` is given.

        Requests without either are accepted only while no key is required.
        """
        self._use_cases = use_cases
        self._keys = keys
        self._tickets = tickets
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

    async def run(self, app: AsgiApp, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Pass a request on to `app` if its principal may make it."""
        try:
            connection = await self._authorize(scope)
        except HoldfastError as error:
            await _send_error(error, scope, send)
            return
        if connection is None:
            await app(scope, receive, send)
        else:
            await self._run_tracked(connection, app, scope, receive, send)

    async def _authorize(self, scope: AsgiScope) -> TrackedConnection | None:
        """Check a request and set its use cases; return the connection to track, `None` for a public route."""
        name = scope["route_handler"].fn.__name__
        if name in PUBLIC_ROUTES:
            _use_cases.set(self._use_cases(LOCAL_PRINCIPAL))
            return None
        credential = await self._credential(scope, name)
        principal = await self._authenticate(credential)
        await self._rate_limiter.hit(principal)
        check_route_allowed(principal, name)
        _check_space(principal, scope)
        _use_cases.set(self._use_cases(principal))
        return TrackedConnection(credential, cancel_before_response=principal is not LOCAL_PRINCIPAL)

    async def _credential(self, scope: AsgiScope, name: str) -> Credential:
        """Return the token of a request, or else the holder of its ticket."""
        token, ticket = bearer_token(scope) or session_token(scope), ticket_of(scope)
        if ticket is None:
            return token
        if name not in STREAM_PATHS:
            raise Invalid("`ticket` opens streams only: send a key in the header `Authorization`", field="ticket")
        if token or not await self._key_required():
            return token
        return await self._tickets.find_holder(ticket, scope["path"])

    async def _key_required(self) -> bool:
        return self._require_key or await self._keys.key_required()

    async def _authenticate(self, token: Credential) -> Principal:
        """Return the principal of a token or a ticket."""
        if not await self._key_required():
            return LOCAL_PRINCIPAL
        if isinstance(token, TicketHolder):
            if token.api_key_id is None and self._oidc is None:
                raise invalid_ticket_error()  # a token of an issuer that this server does not accept any more
            return await self._tickets.authenticate(token)
        if not token:
            raise Unauthenticated(f"this server needs a key: send it as `Authorization: Bearer {TOKEN_PREFIX}…`")
        if self._oidc is None or token.startswith(TOKEN_PREFIX):
            return await self._keys.authenticate(token)
        return await self._oidc.authenticate(token)

    async def _run_tracked(
        self, connection: TrackedConnection, app: AsgiApp, scope: AsgiScope, receive: Receive, send: Send
    ) -> None:
        async def recorded_send(message: AsgiMessage) -> None:
            connection.record(message)
            await send(message)

        self._connections.add(connection)
        try:
            await app(scope, receive, recorded_send)
        except asyncio.CancelledError:
            if not connection.revoked:
                raise
            connection.task.uncancel()
            await _send_revoked(connection, scope, send)
        finally:
            self._connections.remove(connection)


async def _send_error(error: HoldfastError, scope: AsgiScope, send: Send) -> None:
    """Refuse a handshake with an error; for a request, raise it to the exception handlers of the route."""
    if scope["type"] != "websocket":
        raise error
    await deny_handshake(error, scope, send)


async def _send_revoked(connection: TrackedConnection, scope: AsgiScope, send: Send) -> None:
    """End a response whose key was revoked; one that has not begun becomes an error."""
    if not connection.response_started:
        await _send_error(invalid_key_error(), scope, send)
        return
    with suppress(RuntimeError, OSError):  # the response or the client has ended meanwhile
        if scope["type"] == "websocket":
            reason = "the key of this socket is no longer valid"
            await close_socket(scope, send, code=WebSocketCloseCode.REVOKED, reason=reason)
        elif connection.is_event_stream:
            await send({"type": "http.response.body", "body": REVOKED_COMMENT})


def _check_space(principal: Principal, scope: AsgiScope) -> None:
    """Raise unless the principal may access the space in the path; if there is none, set the default space."""
    path_params = scope["path_params"]
    if "space_id" in path_params:
        principal.check_access(SpaceId(path_params["space_id"]))
    elif principal.default_space != DEFAULT_SPACE:
        # A copy, because the router shares the mapping between requests.
        scope["path_params"] = {**path_params, "space_id": principal.default_space}


def set_request_app(scope: AsgiScope, use_cases: UseCases, auth: AuthMiddleware | None) -> None:
    """Set what the routes use for a request: without `auth` these use cases, otherwise those of its principal."""
    scope[_AUTH_KEY] = auth
    _use_cases.set(use_cases)


def authorize_route(app: AsgiApp) -> AsgiApp:
    """Return the route `app` behind the authentication of each request."""

    async def call(scope: AsgiScope, receive: Receive, send: Send) -> None:
        auth: AuthMiddleware | None = scope[_AUTH_KEY]
        if auth is None:
            await app(scope, receive, send)
        else:
            await auth.run(app, scope, receive, send)

    return call


def request_use_case(name: str) -> Callable[[], Any]:
    """Return a provider of the use case `name` of the current request."""
    return lambda: getattr(_use_cases.get(), name)
