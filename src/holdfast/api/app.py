"""The API as one ASGI app."""

from typing import Any

from litestar import Litestar, Request
from litestar.di import Provide

from holdfast.api.asgi import Scope
from holdfast.api.auth.asked import asked
from holdfast.api.auth.door import Door
from holdfast.api.errors import EXCEPTION_HANDLERS, refused_handshake
from holdfast.api.gate import note_refusal
from holdfast.api.json_body import MAX_BODY, JsonBody, check_empty
from holdfast.api.methods import with_methods
from holdfast.api.openapi import read_openapi
from holdfast.api.parameters import check_request, takes_no_body
from holdfast.api.routes import ROUTES, SOCKETS
from holdfast.control.control import Control


def create_app(control: Control, *, door: Door | None = None) -> Litestar:
    """Make the app over the use cases of a workspace. It belongs behind a `Gate`.

    Behind a `door`, a request is answered by the use cases of who asks. A route asks for at most one of them by its
    name: the framework opens a task group for more.
    """
    provide = _provide if door is None else _provide_asked
    return Litestar(
        route_handlers=[*with_methods([*ROUTES, read_openapi]), *SOCKETS],
        dependencies={name: provide(name, use_case) for name, use_case in control._asdict().items()},
        middleware=[] if door is None else [door.before],
        dto=JsonBody,
        return_dto=None,
        before_request=_check,
        after_exception=[_note],
        exception_handlers=EXCEPTION_HANDLERS,
        request_max_body_size=MAX_BODY,
        openapi_config=None,
        logging_config=None,
    )


async def _check(request: Request[Any, Any, Any]) -> None:
    """Check a request before its body is read. A guard would do it too, on a copy of the route and in a thread."""
    check_request(request, request.route_handler)
    if takes_no_body(request.route_handler):
        check_empty(await request.body())


async def _note(error: Exception, scope: Scope) -> None:
    """Let the gate say why a handshake is refused: the framework only closes the socket."""
    if scope["type"] == "websocket":
        note_refusal(scope, refused_handshake(error, scope["path"]))


def _provide(_: str, use_case: Any) -> Provide:
    return Provide(lambda: use_case, use_cache=True, sync_to_thread=False)


def _provide_asked(name: str, _: Any) -> Provide:
    return Provide(asked(name), sync_to_thread=False)
