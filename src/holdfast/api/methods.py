"""Which methods an address knows: HEAD wherever GET is answered, and OPTIONS, which lists them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Final

from litestar import Response
from litestar.handlers import HTTPRouteHandler

_STREAM: Final = "text/event-stream"


def with_methods(routes: Iterable[HTTPRouteHandler]) -> Iterator[HTTPRouteHandler]:
    """Yield routes that also answer HEAD, after those that answer OPTIONS.

    These come first, as the framework would make them for each address out of the first of its routes.
    """
    answering = [_with_head(route) for route in routes]
    known: dict[str, set[str]] = defaultdict(set)
    for route in answering:
        for path in route.paths:
            known[path] |= route.http_methods
    yield from (_options(path, methods) for path, methods in known.items())
    yield from answering


def _with_head(route: HTTPRouteHandler) -> HTTPRouteHandler:
    """Return a route that answers HEAD as it does GET; the server leaves out the body. A stream is nothing but body."""
    if "GET" not in route.http_methods or _STREAM in route.opt.get("content", {}):
        return route
    both = copy(route)
    both.http_methods = {*route.http_methods, "HEAD"}
    return both


def _options(path: str, methods: Iterable[str]) -> HTTPRouteHandler:
    allow = ", ".join(sorted({*methods, "OPTIONS"}))

    async def read_methods() -> Response[None]:
        return Response(None, status_code=204, headers={"Allow": allow})

    return HTTPRouteHandler(path, http_method="OPTIONS")(read_methods)
