"""The Litestar application: all routes, HEAD and OPTIONS for each path, and the use cases as dependencies.

Registering the routes takes most of the time that a server needs to start, so all apps of a process share them: each
request carries the use cases and the authentication of its app.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from copy import copy
from functools import cache
from typing import Any, Final

from litestar import Litestar, Request, Response
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from litestar.plugins import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin

from holdfast.api.asgi import AsgiApp, AsgiScope, Receive, Send
from holdfast.api.auth.middleware import AuthMiddleware, authorize_route, request_use_case, set_request_app
from holdfast.api.errors import EXCEPTION_HANDLERS, handshake_error
from holdfast.api.json_body import MAX_BODY_BYTES, JsonBody, check_no_body
from holdfast.api.middleware import record_refusal
from holdfast.api.openapi import read_openapi
from holdfast.api.parameters import check_request, takes_no_body
from holdfast.api.router import ROUTES, SOCKETS
from holdfast.api.use_cases import UseCases

_EVENT_STREAM: Final = "text/event-stream"


class _App(Litestar):
    """Litestar without its plugins for libraries that no route uses: they import pydantic, which takes 9 MB."""

    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        return [*plugins, MsgspecDIPlugin()]


def create_app(use_cases: UseCases, *, auth: AuthMiddleware | None = None) -> AsgiApp:
    """Create the app, which must run behind `HostOriginMiddleware`; with `auth`, requests act for their principals."""
    routes = create_routes()

    async def app(scope: AsgiScope, receive: Receive, send: Send) -> None:
        set_request_app(scope, use_cases, auth)
        await routes(scope, receive, send)

    return app


@cache
def create_routes() -> Litestar:
    """Create the routes, for requests that have passed `set_request_app`.

    A route may depend on at most one use case: for more, the framework opens a task group per request.
    """
    return _App(
        route_handlers=[*with_head_and_options([*ROUTES, read_openapi]), *SOCKETS],
        dependencies={name: Provide(request_use_case(name), sync_to_thread=False) for name in UseCases._fields},
        middleware=[authorize_route],
        dto=JsonBody,
        return_dto=None,
        before_request=_check_request,
        after_exception=[_record_handshake_refusal],
        exception_handlers=EXCEPTION_HANDLERS,
        request_max_body_size=MAX_BODY_BYTES,
        openapi_config=None,
        logging_config=None,
    )


async def _check_request(request: Request[Any, Any, Any]) -> None:
    """Check a request before its body is read. A guard would run on a copy of the route and in a thread."""
    check_request(request, request.route_handler)
    if takes_no_body(request.route_handler):
        check_no_body(await request.body())


async def _record_handshake_refusal(error: Exception, scope: AsgiScope) -> None:
    """Record the error of a handshake for `HostOriginMiddleware`: the framework only closes the socket."""
    if scope["type"] == "websocket":
        record_refusal(scope, handshake_error(error, scope["path"]))


def with_head_and_options(routes: Iterable[HTTPRouteHandler]) -> Iterator[HTTPRouteHandler]:
    """Yield an OPTIONS route for each path, then the routes themselves, which also accept HEAD.

    The OPTIONS routes come first: otherwise the framework adds its own to the first route of each path.
    """
    with_head = [_with_head(route) for route in routes]
    methods_by_path: dict[str, set[str]] = defaultdict(set)
    for route in with_head:
        for path in route.paths:
            methods_by_path[path] |= route.http_methods
    yield from (_options_route(path, methods) for path, methods in methods_by_path.items())
    yield from with_head


def _with_head(route: HTTPRouteHandler) -> HTTPRouteHandler:
    """Return a GET route that accepts HEAD too, unless it is a stream. The server omits the body."""
    if "GET" not in route.http_methods or _EVENT_STREAM in route.opt.get("content", {}):
        return route
    both = copy(route)
    both.http_methods = {*route.http_methods, "HEAD"}
    return both


def _options_route(path: str, methods: Iterable[str]) -> HTTPRouteHandler:
    allow = ", ".join(sorted({*methods, "OPTIONS"}))

    async def read_methods() -> Response[None]:
        return Response(None, status_code=204, headers={"Allow": allow})

    return HTTPRouteHandler(path, http_method="OPTIONS")(read_methods)
